// SPDX-License-Identifier: Apache-2.0
#include "convert/program/representable.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

RowOrder inverse(const RowOrder& order) {
  RowOrder inverse(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
  return inverse;
}

}  // namespace

void make_representable(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    const std::string name = graph.node(value).name;
    const uint32_t width = graph.width(value);
    if (auto* attention = graph.as<AttentionNode>(value);
        attention != nullptr && attention->head_dim != 0 && attention->scale != 1.0) {
      const ValueId query = graph.node(value).inputs[0];
      const ScaleNode scale = {std::exchange(attention->scale, 1.0)};
      const ValueId scaled =
          graph.insert_before(value, {name + ".scale", scale, {query}, graph.width(query)});
      graph.node(value).inputs[0] = scaled;
    }
    if (auto* rotate = graph.as<RotateNode>(value);
        rotate != nullptr && rotate->rope.turns_neighbours) {
      rotate->rope.turns_neighbours = false;
      const RowOrder halves =
          halves_of_pairs(width / rotate->head_dim, rotate->head_dim, rotate->rope.rotary_dim);
      const ValueId input = graph.node(value).inputs[0];
      const ValueId permuted =
          graph.insert_before(value, {name + ".permute", PermuteNode{halves}, {input}, width});
      graph.node(value).inputs[0] = permuted;
      const ValueId back = graph.insert_after(
          value, {name + ".restore", PermuteNode{inverse(halves)}, {value}, width});
      graph.replace(value, back, back);
    }
    if (graph.as<ConcatNode>(value) != nullptr) {
      // Parts are written in their order: from the first that is copied on, all are.
      bool is_fresh = true;
      ptrdiff_t last = 0;
      for (size_t i = 0; i < graph.node(value).inputs.size(); ++i) {
        const ValueId part = graph.node(value).inputs[i];
        const auto at = std::ranges::find(graph.order(), part) - graph.order().begin();
        is_fresh = is_fresh && at >= std::exchange(last, at) && graph.has_one_reader(part) &&
                   !graph.as<SliceNode>(part) && !graph.as<FeaturesNode>(part) &&
                   !graph.as<ConcatNode>(part);
        if (is_fresh) continue;
        const ValueId copy =
            graph.insert_before(value, {name + ".copy", ScaleNode{1.0}, {part}, graph.width(part)});
        graph.node(value).inputs[i] = copy;
      }
    }
  }
  if (const ValueId output = graph.output; graph.as<SliceNode>(output) != nullptr) {
    const Node copy = {"output.copy", ScaleNode{1.0}, {output}, graph.width(output)};
    graph.output = graph.insert_after(output, copy);
  }
}

}  // namespace arenite::convert
