// SPDX-License-Identifier: Apache-2.0
// Small models with two inputs: features, or an image, and a text that attends to them.
#ifndef ARENITE_TESTS_RUNTIME_FUNCTIONS_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_FUNCTIONS_FIXTURE_H_

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert/graph/graph.h"
#include "runtime/session/windows_fixture.h"

namespace arenite::test {

inline constexpr uint32_t kVocabulary = 11;
inline constexpr uint32_t kTextPositions = 24;
inline constexpr uint32_t kMemory = 0, kText = 1;  // inputs
inline constexpr uint32_t kEncode = 0, kStep = 1;  // functions

struct FunctionParts {
  bool causal_memory = false;  // the encoder can be fed step by step
  bool together = false;       // the mean of the memory is added to the text: one function
  bool image = false;          // the memory is an image
  bool whole_text = false;     // the decoder sees all of its tokens
  bool windows = false;        // of three tokens, before the decoder's layers
  bool pooled = false;         // the mean of the text's rows is given out
  bool pairs = false;  // a bias of each pair of tokens of text and memory, some of them hidden
};
inline constexpr uint32_t kMemoryOfPairs = 40;  // positions
inline constexpr FunctionParts kWindowed = {.windows = true};

// [2 heads, positions of text, positions of memory], -infinity for each third pair but one a row.
inline std::shared_ptr<const convert::AttentionBias> pair_table() {
  convert::AttentionBias table = {ScoreTerms::kPairs, 2, kMemoryOfPairs, {}, kTextPositions};
  const std::vector<float> numbers = random_floats(2 * kTextPositions * kMemoryOfPairs, 5);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool is_hidden = i % 3 == 1 && i % kMemoryOfPairs != 0;
    table.values.push_back(is_hidden ? -INFINITY : static_cast<double>(numbers[i]));
  }
  return std::make_shared<const convert::AttentionBias>(std::move(table));
}

inline convert::ValueId attend(convert::Graph& graph, const std::string& name,
                               convert::ValueId queries, convert::ValueId keys, bool causal,
                               uint32_t cache,
                               std::shared_ptr<const convert::AttentionBias> terms = nullptr) {
  const uint32_t kv_width = 3;
  convert::AttentionNode attention;
  attention.heads = 2;
  attention.kv_heads = 1;
  attention.head_dim = attention.value_dim = kv_width;
  attention.scale = 0.5;
  attention.cache = cache;
  attention.terms = std::move(terms);
  attention.mask = graph.add_band(kUnlimited, causal ? 0 : kUnlimited);
  const auto linear = [&](const char* part, uint32_t rows, convert::ValueId from) {
    return graph.add_linear(name + part, {weight(name + part, rows, graph.width(from)), {}}, from);
  };
  const convert::ValueId context =
      graph.add_attention(name, attention,
                          {linear(".query", 2 * kv_width, queries), linear(".key", kv_width, keys),
                           linear(".value", kv_width, keys)});
  return graph.add(name + ".sum", convert::AddNode{}, {queries, context});
}

inline convert::ValueId memory_of(convert::Graph& graph, const FunctionParts& parts) {
  convert::ValueId memory = graph.add_features(parts.image ? kImageChannels : kFeatures, kMemory);
  if (parts.image) {
    convert::GraphInput& input = graph.inputs[kMemory];
    input.positions_max = input.tokens_min = graph.axes[input.axis].rows = kImagePixels;
    graph.axes[input.axis].other = kImagePatches.width;
    memory = graph.add_windows("patches", kImagePatches, memory);
  }
  memory = graph.add_linear("embed", {weight("embed", kWidth, graph.width(memory)), {}}, memory);
  return attend(graph, "encoder", memory, memory, parts.causal_memory, 0);
}

// Two layers, each with attention to the text and then to the memory.
inline convert::Graph functions_graph(const FunctionParts& parts) {
  convert::Graph graph;
  graph.architecture = "functions";
  graph.inputs[kMemory].name = "memory";
  graph.add_input("text");
  graph.inputs[kText].vocab_size = kVocabulary;
  graph.inputs[kText].positions_max = kTextPositions;
  if (parts.pairs) graph.inputs[kMemory].positions_max = kMemoryOfPairs;
  const convert::ValueId memory = memory_of(graph, parts);
  convert::EmbeddingNode embedding;
  embedding.tokens = weight("tokens", kVocabulary, kWidth);
  embedding.positions = weight("positions", kTextPositions, kWidth);
  convert::ValueId x = graph.add_embedding("tokens", embedding, kWidth, graph.inputs[kText].axis);
  if (parts.together) {
    x = graph.add("greet", convert::AddNode{},
                  {x, graph.add_select("mean", SelectKind::kMean, memory)});
  }
  if (parts.windows) x = add_convolution(graph, "listen", {{3, 1, 1, 2, 0}, {}, 1}, {}, x);
  for (uint32_t i = 0; i < 2; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    x = attend(graph, layer + ".self", x, x, !parts.whole_text && !parts.together, 1 + i);
    x = attend(graph, layer + ".cross", x, memory, false, 7, parts.pairs ? pair_table() : nullptr);
  }
  x = graph.add_select("rows", parts.pooled ? SelectKind::kMean : SelectKind::kAsAsked, x);
  graph.output = graph.add_linear("head", {weight("head", kVocabulary, kWidth), {}}, x);
  return graph;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_FUNCTIONS_FIXTURE_H_
