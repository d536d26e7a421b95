// SPDX-License-Identifier: Apache-2.0
// Small models whose sequences begin with rows of constants, of features and of images.
#ifndef ARENITE_TESTS_RUNTIME_ROWS_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_ROWS_FIXTURE_H_

#include <string>
#include <vector>

#include "arenite/image.h"
#include "convert/graph/graph.h"
#include "support/model_factory.h"

namespace arenite::test {

inline constexpr uint32_t kFeatures = 5;
inline constexpr uint32_t kWidth = 6;
inline constexpr uint32_t kPrefix = 3;
inline constexpr uint32_t kPositions = 40;
// 4 x 4 patches, a line and a column left over.
inline constexpr ImagePatches kImage = {2, 9, 13, 2, 3};

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
  uint32_t first_row = 0;
  bool positions = true;
};

// Features, two prefixes (the second one changes a row of the first), positions and attention.
inline convert::Graph graph_of(const Form& form) {
  convert::Graph graph;
  graph.architecture = "rows";
  graph.prefix_rows = kPrefix;
  graph.positions_max = form.images ? static_cast<uint32_t>(kImage.patches().value()) : kPositions;
  const uint32_t features =
      form.images ? static_cast<uint32_t>(kImage.row_width().value()) : kFeatures;
  convert::ValueId x = graph.add_features(features);
  if (form.images) graph.as<convert::FeaturesNode>(x)->patches = kImage;
  x = graph.add_linear("embed", {weight("embed", kWidth, features), {}}, x);
  x = graph.add("class", convert::PrefixNode{weight("class", kPrefix, kWidth), 0}, {x});
  if (form.positions) {
    convert::EmbeddingNode positions;
    positions.positions = weight("positions", graph.positions_max + kPrefix, kWidth);
    const convert::ValueId table = graph.add_embedding("positions", positions, kWidth);
    x = graph.add("sum", convert::AddNode{}, {x, table});
  }
  x = graph.add("register", convert::PrefixNode{weight("register", 1, kWidth), 1}, {x});
  convert::AttentionNode attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = 3;
  attention.scale = 0.5;
  attention.mask = graph.add_band(kUnlimited, form.causal ? 0 : kUnlimited);
  std::vector<convert::ValueId> inputs;
  for (const char* const name : {"q", "key", "value"}) {
    inputs.push_back(graph.add_linear(name, {weight(name, kWidth, kWidth), {}}, x));
  }
  x = graph.add("sum", convert::AddNode{},
                {x, graph.add_attention("attention", attention, inputs)});
  if (form.causal || form.rows != SelectKind::kAsAsked) {
    x = graph.add("rows", convert::SelectNode{form.rows, form.first_row}, {x});
  }
  graph.output = graph.add_linear("head", {weight("head", 4, kWidth), {}}, x);
  return graph;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_ROWS_FIXTURE_H_
