// SPDX-License-Identifier: Apache-2.0
// Small models whose sequences begin with rows of constants, of features and of images.
#ifndef ARENITE_TESTS_RUNTIME_ROWS_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_ROWS_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arenite/image.h"
#include "convert/graph/graph.h"
#include "support/model_factory.h"

namespace arenite::test {

inline constexpr uint32_t kFeatures = 5;
inline constexpr uint32_t kWidth = 6;
inline constexpr uint32_t kPrefix = 3;
inline constexpr uint32_t kPositions = 40;
// Images of 2 channels, 9 lines and 13 columns: 4 x 4 patches, a line and a column left over.
inline constexpr uint32_t kImagePixels = 9 * 13;
inline constexpr uint32_t kImageChannels = 2;
inline constexpr Windows kImagePatches = {{2, 2, 1, 0, 0}, {3, 3, 1, 0, 0}, 13};

inline convert::WeightRef weight(const std::string& name, uint32_t rows, uint32_t columns) {
  convert::WeightRef made;
  made.name = name;
  made.rows = rows;
  made.columns = columns;
  made.load = [=] {
    return random_floats(size_t{rows} * columns, rows * 31 + columns + name.size());
  };
  return made;
}

struct Form {
  bool causal = false;
  bool images = false;
  SelectKind rows = SelectKind::kAsAsked;
  uint32_t without = 0;  // of the two parts before the tokens, when rows are selected
  bool positions = true;
  bool middle = false;     // rows of sequences go back to those of tokens, and two are put together
  uint32_t turns = 0;      // parts of each row that attention sees as rows of their own
  bool constants = false;  // of what is left of the joined rows, those before the tokens
  bool query_terms = false;
  bool key_terms = false;  // beside query_terms
  uint32_t fixed = 0;  // tokens of every sequence; a matrix multiplies its rows, a list takes them
  TensorType mixed_by = TensorType::kF32;  // type of that matrix

  // Returns the form's tokens per sequence, or `others` if it takes any number.
  uint32_t tokens(uint32_t others) const {
    return images ? kImagePixels : fixed != 0 ? fixed : others;
  }
};

// Returns a relative position bias for 2 heads of dimension 3, for distances from -9 to 4.
inline std::shared_ptr<const convert::RelativeBias> relative_bias(uint32_t positions) {
  convert::RelativeBias table = {2, positions, 3, {}};
  const std::vector<float> numbers = random_floats(2 * 14 * 4, 3);
  const auto middle = static_cast<int>(positions) - 1;
  for (const int head : {0, 1}) {
    for (int place = 0; place <= 2 * middle; ++place) {
      const int row = head * 14 + std::clamp(place - middle, -9, 4) + 9;
      table.values.insert(table.values.end(), &numbers[static_cast<size_t>(row) * 4],
                          &numbers[static_cast<size_t>(row) * 4] + 4);
    }
  }
  return std::make_shared<const convert::RelativeBias>(std::move(table));
}

// Prepends constant rows, in two parts, to the features.
inline convert::ValueId with_constants(convert::Graph& graph, convert::ValueId x) {
  for (const auto& [name, rows] : {std::pair("register", 1u), std::pair("class", kPrefix - 1)}) {
    const std::string words = std::string(name) + ".rows";
    x = graph.add_join(name, graph.add_constants(words, weight(words, rows, kWidth)), x);
  }
  return x;
}

// x = (x + W mean of the tokens) * sigmoid(largest of all), and once more.
inline convert::ValueId with_rows_of_sequences(convert::Graph& graph, convert::ValueId x) {
  convert::ValueId tokens = x;
  for (const char* const name : {"back", "further_back"})
    tokens = graph.add_part(name, false, tokens);
  const convert::ValueId mean = graph.add_select("mean", SelectKind::kMean, tokens);
  const convert::ValueId shift =
      graph.add_linear("to_shift", {weight("s", kWidth, kWidth), {}}, mean);
  x = graph.add("shift", convert::AddNode{}, {x, shift});
  const convert::ValueId most = graph.add_select("most", SelectKind::kMax, x);
  const convert::ValueId gate =
      graph.add("gate", convert::ActivationNode{Activation::kSigmoid}, {most});
  x = graph.add("gated", convert::MultiplyNode{}, {x, gate});
  return graph.add("gated_again", convert::MultiplyNode{}, {gate, x});
}

inline convert::ValueId selected(convert::Graph& graph, const Form& form, convert::ValueId x) {
  for (uint32_t i = 0; i < form.without; ++i) x = graph.add_part("part", false, x);
  if (form.constants) x = graph.add_part("constants", true, x);
  const convert::ValueId rows = graph.add_select("rows", form.rows, x);
  if (!form.middle) return rows;
  return graph.add_concat("both", {rows, graph.add_select("last", SelectKind::kLast, x)});
}

// x + W x + b + x[list], with W [rows, rows] and the list over the rows of each sequence.
inline convert::ValueId mixed(convert::Graph& graph, const Form& form, convert::ValueId x) {
  const uint32_t rows = graph.rows(graph.axis(x), form.fixed);
  const uint32_t columns = graph.add_axis({.kind = AxisKind::kConstants, .rows = kWidth});
  const convert::ValueId turned = graph.add_transposed("columns", x, rows, columns);
  const std::vector<double> bias(rows, 0.25);
  const convert::ValueId made = graph.add_linear("mix", {weight("mix", rows, rows), bias}, turned);
  graph.as<convert::LinearNode>(made)->parts[0].storage.type = form.mixed_by;
  std::vector<uint32_t> list;  // backwards by 7, some rows more than once
  for (uint32_t row = 0; row < rows; ++row) list.push_back((rows - row) * 7 % rows / 2 * 2 % rows);
  const convert::ValueId taken = graph.add_taken("taken", x, std::move(list), graph.axis(x));
  const convert::ValueId back = graph.add_transposed("back", made, kWidth, graph.axis(x));
  return graph.add("mixed", convert::AddNode{},
                   {graph.add("both", convert::AddNode{}, {x, taken}), back});
}

// Features, constants, positions and attention.
inline convert::Graph graph_of(const Form& form) {
  convert::Graph graph;
  graph.architecture = "rows";
  graph.inputs[0].positions_max = form.tokens(kPositions);
  graph.inputs[0].tokens_min = form.fixed;
  convert::ValueId x = graph.add_features(form.images ? kImageChannels : kFeatures);
  if (form.images) {
    graph.inputs[0].tokens_min = graph.axes[0].rows = kImagePixels;
    graph.axes[0].other = kImagePatches.width;
    x = graph.add_windows("patches", kImagePatches, x);
  }
  x = graph.add_linear("embed", {weight("embed", kWidth, graph.width(x)), {}}, x);
  x = with_constants(graph, x);
  if (form.turns != 0) {
    x = graph.add_linear("parts", {weight("parts", form.turns * kWidth, kWidth), {}}, x);
    x = graph.add_in_turn("turns", x, form.turns);
  }
  if (form.positions) {
    convert::EmbeddingNode positions;
    const uint32_t rows = graph.rows(graph.axis(x), graph.inputs[0].positions_max);
    positions.positions = weight("positions", rows, kWidth);
    const convert::ValueId table =
        graph.add_embedding("positions", positions, kWidth, graph.axis(x));
    x = graph.add("sum", convert::AddNode{}, {x, table});
  }
  convert::AttentionNode attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = 3;
  attention.scale = 0.5;
  attention.mask = graph.add_band(kUnlimited, form.causal ? 0 : kUnlimited);
  std::vector<convert::ValueId> inputs;
  for (const char* const name : {"q", "key", "value"}) {
    inputs.push_back(graph.add_linear(name, {weight(name, kWidth, kWidth), {}}, x));
  }
  if (form.query_terms) {
    attention.query_terms = relative_bias(graph.rows(graph.axis(x), graph.inputs[0].positions_max));
    inputs.push_back(graph.add_linear("terms", {weight("terms", kWidth, kWidth), {}}, x));
  }
  if (form.key_terms) {
    attention.key_terms = attention.query_terms;
    inputs.push_back(graph.add_linear("of_keys", {weight("of_keys", kWidth, kWidth), {}}, x));
  }
  x = graph.add("sum", convert::AddNode{},
                {x, graph.add_attention("attention", attention, inputs)});
  if (form.turns != 0) x = graph.add_side_by_side("beside", x);
  if (form.fixed != 0) x = mixed(graph, form, x);
  if (form.middle) x = with_rows_of_sequences(graph, x);
  if (form.causal || form.rows != SelectKind::kAsAsked) x = selected(graph, form, x);
  graph.output = graph.add_linear("head", {weight("head", 4, graph.width(x)), {}}, x);
  return graph;
}

inline constexpr uint32_t kLongRows = 301;
inline constexpr uint32_t kInnerWidth = 37;

// Two layers as those of encoders of sound: a norm before attention, and one before a wide layer.
// `pairs`: of the first layer, biases of each pair of rows that all heads share.
inline convert::Graph long_graph(TensorType type, uint32_t tokens_min = 0,
                                 std::shared_ptr<const convert::AttentionBias> pairs = nullptr) {
  convert::Graph graph;
  graph.architecture = "blocks";
  graph.inputs[0].positions_max = kLongRows;
  graph.inputs[0].tokens_min = tokens_min;
  const auto linear = [&](const std::string& name, uint32_t rows, convert::ValueId from) {
    const std::vector<double> bias(rows, 0.25);
    const convert::ValueId made =
        graph.add_linear(name, {weight(name, rows, graph.width(from)), bias}, from);
    graph.as<convert::LinearNode>(made)->parts[0].storage.type = type;
    return made;
  };
  const auto norm = [&](const std::string& name, convert::ValueId from) {
    convert::NormSpec spec;
    spec.gain.assign(kWidth, 1.5);
    spec.bias.assign(kWidth, -0.5);
    spec.epsilon = 1e-5;
    return graph.add_norm(name, spec, from);
  };
  convert::ValueId x = linear("embed", kWidth, graph.add_features(kFeatures));
  convert::AttentionNode attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = 3;
  attention.scale = 0.5;
  attention.mask = graph.add_band(kUnlimited, kUnlimited);
  for (uint32_t i = 0; i < 2; ++i) {
    const std::string layer = std::to_string(i);
    const convert::ValueId normed = norm(layer + ".norm", x);
    attention.cache = i;
    attention.terms = i == 0 ? pairs : nullptr;
    std::vector<convert::ValueId> inputs;
    for (const char* const name : {".query", ".key", ".value"}) {
      inputs.push_back(linear(layer + name, kWidth, normed));
    }
    if (i == 1) {
      attention.query_terms = relative_bias(kLongRows);
      inputs.push_back(inputs[0]);
    }
    const convert::ValueId context =
        graph.add_attention(layer + ".attention", attention, std::move(inputs));
    x = graph.add(layer + ".sum", convert::AddNode{}, {x, linear(layer + ".out", kWidth, context)});
    convert::ValueId inner = linear(layer + ".up", kInnerWidth, norm(layer + ".norm2", x));
    inner = graph.add(layer + ".gelu", convert::ActivationNode{Activation::kGeluErf}, {inner});
    x = graph.add(layer + ".sum2", convert::AddNode{}, {x, linear(layer + ".down", kWidth, inner)});
  }
  graph.output = linear("head", 4, norm("norm", x));
  return graph;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_ROWS_FIXTURE_H_
