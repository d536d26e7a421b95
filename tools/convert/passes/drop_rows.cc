// SPDX-License-Identifier: Apache-2.0
// Layers that work on each row by itself may as well work on fewer of them.
#include "convert/graph/node_traits.h"
#include "convert/passes/passes.h"

namespace arenite::convert {

void drop_rows(Graph& graph) {
  const ValueId rows = graph.output;
  const SelectNode* chosen = graph.as<SelectNode>(rows);
  if (chosen == nullptr || chosen->kind != SelectKind::kAsAsked) return;
  ValueId first = rows;  // the first node of those that work on chosen rows
  while (true) {
    const ValueId before = graph.node(first == rows ? rows : first).inputs[0];
    if (!graph.has_one_reader(before) || !computes_rows(graph.node(before).body)) break;
    first = before;
  }
  if (first == rows) return;
  const ValueId source = graph.node(first).inputs[0];
  const ValueId moved =
      graph.insert_before(first, {graph.node(rows).name, *chosen, {source}, graph.width(source)});
  graph.node(first).inputs[0] = moved;
  graph.output = graph.node(rows).inputs[0];
  graph.remove_unread();
}

}  // namespace arenite::convert
