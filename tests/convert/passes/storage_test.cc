// SPDX-License-Identifier: Apache-2.0
// Weights of different types are not joined, and nothing is folded into weights that are taken over
// unchanged.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/graph/interpreter.h"
#include "convert/passes/passes.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "support/compare.h"
#include "support/decoder_factory.h"
#include "support/test_session.h"

namespace arenite::convert {
namespace {

constexpr double kExactlyStored = 1e-12;  // of sums in another order

const std::vector<TokenId> kStoredTokens = {3, 1, 4, 1, 5, 9, 2, 6};

// Builds a decoder of llama's kind whose rotations turn neighbours, with one matrix at both ends.
Graph tied_llama() {
  test::DecoderShape shape = test::decoder_named("llama");
  shape.tied = true;
  TransformerSpec spec = test::make_decoder(shape);
  spec.rope->turns_neighbours = true;
  return build_graph(spec);
}

void for_each_linear(Graph& graph, const std::function<void(Node&, LinearNode&)>& visit) {
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.as<LinearNode>(value)) visit(graph.node(value), *linear);
  }
}

Graph after_passes(Graph graph) {
  graph = rewrite(std::move(graph));
  return graph;
}

// The names of the linear layers of layer 0.
std::vector<std::string> first_linears(Graph graph) {
  std::vector<std::string> names;
  for_each_linear(graph, [&](Node& node, LinearNode&) {
    if (node.name.starts_with("0.")) names.push_back(node.name);
  });
  return names;
}

void expect_same_results(const Graph& found, const Graph& expected) {
  const SequenceInput input = {kStoredTokens, {}, {}};
  const std::vector<double> values = evaluate(found, input).values;
  const std::vector<double> wanted = evaluate(expected, input).values;
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted[i], kExactlyStored) << i;
}

TEST(Storage, OnlyEqualTypesAreJoined) {
  const Graph graph = tied_llama();
  using Names = std::vector<std::string>;
  EXPECT_EQ(first_linears(after_passes(graph)),
            (Names{"0.qkv", "0.output", "0.gate_up", "0.down"}));
  Graph marked = graph;
  for_each_linear(marked, [](Node& node, LinearNode& linear) {
    const bool is_other = node.name.ends_with(".query") || node.name.ends_with(".gate");
    if (is_other) linear.parts[0].storage.type = TensorType::kW8;
  });
  const Graph rewritten = after_passes(marked);
  EXPECT_EQ(first_linears(rewritten),
            (Names{"0.query", "0.key_value", "0.output", "0.gate", "0.up", "0.down"}));
  expect_same_results(rewritten, graph);
}

TEST(Storage, OnlyEqualTypesAreTied) {
  const auto is_tied = [](const Graph& graph) {
    const auto* embedding = graph.as<EmbeddingNode>(graph.order().front());
    return embedding->stored_by.has_value();
  };
  Graph graph = tied_llama();
  EXPECT_TRUE(is_tied(after_passes(graph)));
  Graph of_two_types = graph;
  of_two_types.as<EmbeddingNode>(graph.order().front())->storage.type = TensorType::kW8;
  EXPECT_FALSE(is_tied(after_passes(of_two_types)));
  expect_same_results(after_passes(of_two_types), graph);
}

TEST(Storage, NothingIsFoldedIntoStoredIntegers) {
  const Graph graph = tied_llama();
  Graph marked = graph;
  std::map<std::string, std::vector<float>> weights;
  for_each_linear(marked, [&](Node&, LinearNode& linear) {
    linear.parts[0].storage.is_taken_over = true;
    weights[linear.parts[0].linear.weight.name] = linear.parts[0].linear.weight.load().copy();
  });
  marked.as<EmbeddingNode>(marked.order().front())->storage.is_taken_over = true;
  const auto count_changed = [&](Graph rewritten) {
    size_t changed = 0;
    for_each_linear(rewritten, [&](Node&, LinearNode& linear) {
      for (const LinearPart& part : linear.parts) {
        const bool is_same =
            part.scale == 1.0 && part.linear.weight.load() == weights[part.linear.weight.name];
        changed += is_same ? 0 : 1;
      }
    });
    return changed;
  };
  const Graph rewritten = after_passes(marked);
  EXPECT_EQ(count_changed(after_passes(graph)), 4u);  // queries and keys of two layers
  EXPECT_EQ(count_changed(rewritten), 0u);
  expect_same_results(rewritten, graph);

  // Factors that were not folded are ops of the runtime.
  const AlignedBytes file = write_model(lower(rewritten, "m"), {Target::kPortable});
  const test::TestModel model(file.span(), Target::kPortable);
  SessionOptions options = test::options_for(8);
  options.outputs = Outputs::kAll;
  const test::TestSession session(*model, options);
  EXPECT_TRUE(test::all_near(session.run(kStoredTokens, 1),
                             evaluate(graph, {kStoredTokens, {}, {}}).values, 1e-4));
}

}  // namespace
}  // namespace arenite::convert
