// SPDX-License-Identifier: Apache-2.0
// Tests graphs with several inputs: their functions, and the results of attention across inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/graph/graph.h"
#include "convert/graph/interpreter.h"
#include "convert/passes/passes.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kWidth = 2;

LinearSpec weights(const std::string& name, std::vector<float> numbers) {
  const auto rows = static_cast<uint32_t>(numbers.size() / kWidth);
  return {{.name = name, .rows = rows, .columns = kWidth, .load = [numbers] { return numbers; }},
          {}};
}

// Queries of features on input 1, keys and values of those on input 0.
struct EncoderDecoder {
  Graph graph;
  ValueId memory = 0, query = 0, key = 0, value = 0, attention = 0;

  EncoderDecoder() {
    graph.inputs[0].name = "memory";
    const uint32_t second = graph.add_input("x");
    memory = graph.add_features(kWidth);
    query = graph.add_features(kWidth, second);
    key = graph.add_linear("key", weights("key", {1, 2, 3, 4}), memory);
    value = graph.add_linear("value", weights("value", {0, 1, 1, 0}), memory);
    AttentionNode node = {.heads = 1, .kv_heads = 1, .head_dim = kWidth, .value_dim = kWidth};
    node.mask = graph.add_band(kUnlimited, kUnlimited);
    attention = graph.add_attention("attention", node, {query, key, value});
    graph.output = attention;
  }
};

TEST(Functions, CrossAttentionSplitsEncoderAndDecoder) {
  const EncoderDecoder model;
  const std::vector<GraphFunction> functions = functions_of(model.graph);
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].name, "encode");
  EXPECT_EQ(functions[0].inputs, 1u);
  EXPECT_EQ(functions[0].values, (std::vector{model.memory, model.key, model.value}));
  EXPECT_EQ(functions[0].output, model.memory);
  EXPECT_EQ(functions[1].name, "step");
  EXPECT_EQ(functions[1].inputs, 2u);
  EXPECT_EQ(functions[1].values, (std::vector{model.query, model.attention}));
  EXPECT_EQ(functions[1].output, model.attention);
  EXPECT_TRUE(model.graph.is_cross_attention(model.attention));
  EXPECT_EQ(model.graph.axis(model.attention), model.graph.axis(model.query));
}

TEST(Functions, OtherUsesOfAnInputMakeOneFunction) {
  EncoderDecoder model;
  Graph& graph = model.graph;
  const ValueId mean = graph.add_select("mean", SelectKind::kMean, model.memory);
  graph.output = graph.add("sum", AddNode{}, {model.attention, mean});
  ASSERT_EQ(functions_of(graph).size(), 1u);
  EXPECT_EQ(functions_of(graph)[0].name, "run");
  EXPECT_EQ(functions_of(graph)[0].inputs, 3u);
  EXPECT_EQ(graph.axis(graph.output), graph.axis(model.attention));
}

TEST(Functions, HaveTheGivenNames) {
  EncoderDecoder model;
  model.graph.function_names = {"see", "say"};
  EXPECT_EQ(functions_of(model.graph)[1].name, "say");
  model.graph.function_names = {"see"};
  EXPECT_THROW(functions_of(model.graph), InputError);
}

TEST(Functions, ConstantRowsBelongToEachFunctionThatReadsThem) {
  EncoderDecoder model;
  Graph& graph = model.graph;
  const WeightRef row = {.name = "row", .rows = 1, .columns = kWidth, .load = [] {
                           return std::vector{1.0f, 2.0f};
                         }};
  const ValueId constants = graph.add_constants("row", row);
  const ValueId before = graph.add_join("before", constants, model.memory);
  graph.node(model.key).inputs = {before};
  graph.node(model.value).inputs = {before};
  const ValueId after = graph.add_join("after", constants, model.attention);
  graph.output = after;
  graph.reorder({model.memory, model.query, constants, before, model.key, model.value,
                 model.attention, after});
  graph.spread_axes();
  separate_functions(graph);
  const std::vector<GraphFunction> functions = functions_of(graph);
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].values.size(), 5u);
  EXPECT_EQ(functions[1].values.size(), 4u);
  EXPECT_EQ(graph.order().size(), 9u);
  EXPECT_NE(graph.node(before).inputs[0], graph.node(after).inputs[0]);
}

TEST(Functions, AttentionSeesAllKeysOfAnotherInput) {
  const EncoderDecoder model;
  const std::vector<float> memory = {1, 0, 0.5f, -1, 2, 1}, x = {0.5f, 0.25f};
  const SequenceInput inputs[] = {{.features = memory}, {.features = x}};
  double weights[3], sum = 0.0;
  for (size_t k = 0; k < 3; ++k) {
    const double a = memory[2 * k], b = memory[2 * k + 1];
    sum += weights[k] = std::exp(0.5 * (a + 2 * b) + 0.25 * (3 * a + 4 * b));
  }
  for (const Graph& graph : {model.graph, rewrite(model.graph)}) {
    const std::vector<double> found = evaluate(graph, inputs).values;
    ASSERT_EQ(found.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      double expected = 0.0;
      for (size_t k = 0; k < 3; ++k) expected += weights[k] / sum * memory[2 * k + 1 - i];
      EXPECT_NEAR(found[i], expected, 1e-12);
    }
  }
}

TEST(Functions, OnlyOpsOfEncodersShareACache) {
  EncoderDecoder model;
  Graph& graph = model.graph;
  AttentionNode self = *graph.as<AttentionNode>(model.attention);
  self.cache = 1;
  const ValueId first = graph.add_attention("first", self, {model.key, model.key, model.value});
  self.cache = 2;
  const ValueId second = graph.add_attention("second", self, {first, first, first});
  self.cache = 3;
  graph.output = graph.add_attention("again", self, {model.attention, second, second});
  const Graph shared = rewrite(graph, {"join-projections"});
  EXPECT_EQ(shared.as<AttentionNode>(first)->cache, shared.as<AttentionNode>(second)->cache);
  EXPECT_NE(shared.as<AttentionNode>(model.attention)->cache,
            shared.as<AttentionNode>(graph.output)->cache);
}

}  // namespace
}  // namespace arenite::convert
