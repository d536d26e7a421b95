// SPDX-License-Identifier: Apache-2.0
// (scale q) k^T = scale (q k^T), and rotations and permutations let a factor pass.
#include <algorithm>

#include "convert/passes/passes.h"

namespace arenite::convert {
namespace {

// Multiplies the results of `value`'s maker by `factor`, where it has weights and nobody else reads
// them. Rotations and permutations in between stay.
bool fold(Graph& graph, ValueId value, double factor) {
  if (graph.is_shown(value)) return false;
  if (LinearNode* linear = graph.as<LinearNode>(value)) {
    const auto is_taken_over = [](const LinearPart& part) { return part.storage.is_taken_over; };
    if (std::ranges::any_of(linear->parts, is_taken_over)) return false;
    for (LinearPart& part : linear->parts) part.scale *= factor;
    return true;
  }
  if (NormNode* norm = graph.as<NormNode>(value)) {
    norm->scale *= factor;
    return true;
  }
  const bool passes_on =
      graph.as<RotateNode>(value) != nullptr || graph.as<PermuteNode>(value) != nullptr;
  const ValueId input = passes_on ? graph.node(value).inputs[0] : value;
  return passes_on && graph.has_one_reader(input) && fold(graph, input, factor);
}

// The attention ops whose queries are slices of the same value, `query` one of them; empty if
// somebody else reads it, too, or if their scales differ.
std::vector<ValueId> attention_on_slices(const Graph& graph, ValueId whole, double scale) {
  std::vector<ValueId> ops;
  for (const ValueId slice : graph.readers(whole)) {
    if (graph.as<SliceNode>(slice) == nullptr || !graph.has_one_reader(slice)) return {};
    const ValueId reader = graph.readers(slice)[0];
    const AttentionNode* attention = graph.as<AttentionNode>(reader);
    if (attention == nullptr || graph.node(reader).inputs[0] != slice ||
        attention->scale != scale) {
      return {};
    }
    ops.push_back(reader);
  }
  return ops;
}

void fold_scores(Graph& graph, ValueId value) {
  AttentionNode& attention = *graph.as<AttentionNode>(value);
  if (attention.head_dim == 0 || attention.scale == 1.0) return;
  const ValueId query = graph.node(value).inputs[0];
  if (graph.as<SliceNode>(query) == nullptr) {
    if (graph.has_one_reader(query) && fold(graph, query, attention.scale)) attention.scale = 1.0;
    return;
  }
  const ValueId whole = graph.node(query).inputs[0];
  const std::vector<ValueId> ops = attention_on_slices(graph, whole, attention.scale);
  if (ops.empty() || !fold(graph, whole, attention.scale)) return;
  for (const ValueId op : ops) graph.as<AttentionNode>(op)->scale = 1.0;
}

}  // namespace

void fold_scales(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    if (graph.as<AttentionNode>(value) != nullptr) fold_scores(graph, value);
    const ScaleNode* scale = graph.as<ScaleNode>(value);
    if (scale == nullptr || graph.is_shown(value)) continue;
    const ValueId input = graph.node(value).inputs[0];
    if (graph.has_one_reader(input) && fold(graph, input, scale->factor)) {
      graph.replace(value, input);
    }
  }
  graph.remove_unread();
}

}  // namespace arenite::convert
