// SPDX-License-Identifier: Apache-2.0
// A permutation moves up through the norm of heads into the linear layer that makes them.
#include <cstddef>
#include <utility>

#include "convert/passes/passes.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

// A rotation of neighbours whose result attention alone reads.
bool can_change(const Graph& graph, ValueId value) {
  const RotateNode* rotate = graph.as<RotateNode>(value);
  return rotate != nullptr && rotate->rope.turns_neighbours && graph.has_one_reader(value);
}

// Puts the columns of `value` into another order, for its one reader.
void permute(Graph& graph, ValueId value, ValueId reader, const RowOrder& order) {
  LinearNode* linear = graph.as<LinearNode>(value);
  // Rows that a file has quantized move with their scales.
  const auto can_move = [](const LinearPart& part) {
    return !part.storage.is_taken_over || part.linear.weight.load_quantized;
  };
  if (linear != nullptr && linear->parts.size() == 1 && graph.has_one_reader(value) &&
      can_move(linear->parts[0])) {
    linear->parts[0].linear = select_rows(linear->parts[0].linear, order);
    return;
  }
  NormNode* norm = graph.as<NormNode>(value);
  if (norm != nullptr && graph.has_one_reader(value)) {
    // Within each head the order is the same.
    const RowOrder of_head(order.begin(),
                           order.begin() + static_cast<ptrdiff_t>(norm->norm.gain.size()));
    norm->norm.gain = select_rows(norm->norm.gain, of_head);
    norm->norm.bias = select_rows(norm->norm.bias, of_head);
    permute(graph, graph.node(value).inputs[0], value, order);
    return;
  }
  const ValueId permuted = graph.insert_before(
      reader,
      {graph.node(reader).name + ".permute", PermuteNode{order}, {value}, graph.width(value)});
  for (ValueId& input : graph.node(reader).inputs) {
    if (input == value) input = permuted;
  }
}

}  // namespace

void permute_rotations(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    const AttentionNode* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr || attention->head_dim == 0) continue;
    const ValueId query = graph.node(value).inputs[0];
    const ValueId key = graph.node(value).inputs[1];
    if (!can_change(graph, query) || !can_change(graph, key)) continue;
    if (graph.as<RotateNode>(query)->rope != graph.as<RotateNode>(key)->rope) continue;
    for (const ValueId rotated : {query, key}) {
      RotateNode& rotate = *graph.as<RotateNode>(rotated);
      rotate.rope.turns_neighbours = false;
      permute(graph, graph.node(rotated).inputs[0], rotated,
              halves_of_pairs(graph.width(rotated) / rotate.head_dim, rotate.head_dim,
                              rotate.rope.rotary_dim));
    }
  }
}

}  // namespace arenite::convert
