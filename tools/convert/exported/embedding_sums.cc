// SPDX-License-Identifier: Apache-2.0
// Sums that become a part of an embedding: types, positions and rows of constants.
#include <algorithm>
#include <utility>

#include "convert/exported/sums.h"

namespace arenite::convert {
// The types of tokens become a part of the embedding that they are added to.
void SumBuilder::join_types(std::vector<Summand>& summands) {
  Graph& graph = builder_.graph_;
  const auto is_whole = [](const Summand& summand) {
    return summand.is_embedding &&
           std::ranges::all_of(summand.factors, [](double factor) { return factor == 1.0; });
  };
  const auto types = std::ranges::find_if(summands, [&](const Summand& summand) {
    const auto* embedding = graph.as<EmbeddingNode>(summand.node);
    return is_whole(summand) && embedding->types && !embedding->tokens && !embedding->positions;
  });
  const auto tokens = std::ranges::find_if(summands, [&](const Summand& summand) {
    const auto* embedding = graph.as<EmbeddingNode>(summand.node);
    return is_whole(summand) && embedding->tokens && !embedding->types;
  });
  if (types == summands.end() || tokens == summands.end()) return;
  EmbeddingNode joined = *graph.as<EmbeddingNode>(tokens->node);
  joined.types = graph.as<EmbeddingNode>(types->node)->types;
  const ValueId before = tokens->node;
  tokens->node = graph.add_embedding(graph.node(before).name, std::move(joined), width_);
  for (size_t i = 0, count = builder_.tables_.size(); i < count; ++i) {
    if (builder_.tables_[i].node != before) continue;
    GraphBuilder::PositionTable table = builder_.tables_[i];
    table.node = tokens->node;
    builder_.tables_.push_back(std::move(table));
  }
  summands.erase(types);
}

// Positions that leave padding out are read with the ids that say where it is.
void SumBuilder::join_padded_positions(std::vector<Summand>& summands) {
  Graph& graph = builder_.graph_;
  const auto has_one_factor = [](const Summand& summand) {
    return std::ranges::all_of(summand.factors, [](double factor) { return factor == 1.0; });
  };
  for (size_t p = 0; p < summands.size(); ++p) {
    const auto* positions = graph.as<EmbeddingNode>(summands[p].node);
    if (positions == nullptr || !positions->padding_id || positions->tokens) continue;
    const auto other = std::ranges::find_if(summands, [&](const Summand& summand) {
      const auto* tokens = graph.as<EmbeddingNode>(summand.node);
      return tokens != nullptr && tokens->tokens && !tokens->positions && has_one_factor(summand);
    });
    if (other == summands.end() || !has_one_factor(summands[p])) {
      throw NotRecognised(
          "positions that leave padding out are expected to be added to the embedding of tokens");
    }
    EmbeddingNode joined = *graph.as<EmbeddingNode>(other->node);
    joined.positions = positions->positions;
    joined.position_offset = positions->position_offset;
    joined.padding_id = positions->padding_id;
    other->node = graph.add_embedding(graph.node(other->node).name, std::move(joined), width_);
    summands.erase(summands.begin() + static_cast<ptrdiff_t>(p));
    return;
  }
}

// A row that is added to all rows of an embedding's table of positions.
ValueId SumBuilder::with_constant_row(ValueId node, std::vector<double> row) {
  Graph& graph = builder_.graph_;
  EmbeddingNode embedding = *graph.as<EmbeddingNode>(node);
  WeightRef& table = *embedding.positions;
  table.load_f64 = [before = table, row = std::move(row)] {
    std::vector<double> values = before.exact();
    for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
    return values;
  };
  table.load = [exact = table.load_f64] {
    const std::vector<double> values = exact();
    return std::vector<float>(values.begin(), values.end());
  };
  table.name = builder_.name_;
  return graph.add_embedding(graph.node(node).name, std::move(embedding), width_);
}

}  // namespace arenite::convert
