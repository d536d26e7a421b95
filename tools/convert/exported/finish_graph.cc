// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/finish_graph.h"

#include <algorithm>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

Shape output_shape(const ExportedModel& model) {
  const ExportedProgram& program = *model.program;
  return program.values[program.outputs[model.output_index].as<ValueRef>()->value].shape();
}

// What was put before the tokens has to be read; else no row of it is there.
void require_prefix(const Graph& graph, const std::string& where) {
  const bool has_prefix = std::ranges::any_of(
      graph.order(), [&](ValueId value) { return graph.as<PrefixNode>(value) != nullptr; });
  if (graph.prefix_rows == 0 || has_prefix) return;
  throw InputError(
      "{}: rows of constants are put before the first token, and no result depends on them: leave "
      "them out of the exported part",
      where);
}

}  // namespace

void settle_outputs(ExportedModel& model, const Lengths& lengths, const std::string& where) {
  Graph& graph = model.graph;
  std::vector<RowsNode*> selections;
  for (const ValueId value : graph.order()) {
    if (auto* rows = graph.as<RowsNode>(value)) selections.push_back(rows);
  }
  const bool takes_last = std::ranges::all_of(
      selections, [](const RowsNode* rows) { return rows->kind == SelectKind::kLast; });
  model.causal = takes_last && !lengths.reads_images() && graph.tokens_min <= 1 &&
                 std::ranges::all_of(graph.masks, [](const Mask& mask) { return is_causal(mask); });
  model.has_row_of_sequence = !selections.empty();
  model.tokens_first = lengths.tokens_first();
  const Shape output = output_shape(model);
  model.keeps_token_axis =
      model.has_row_of_sequence && output.size() == 3 && output[model.tokens_first ? 0 : 1] == 1;
  if (model.causal && selections.empty()) {
    graph.output = graph.add("select", RowsNode{SelectKind::kAsAsked}, {graph.output});
  } else if (model.causal) {
    for (RowsNode* const rows : selections) rows->kind = SelectKind::kAsAsked;
  }
  graph.remove_unread();
  graph.name_layers_apart();
  require_prefix(graph, where);
}

void require_inputs(Graph& graph, const Lengths& lengths, const std::string& where) {
  bool has_tokens = false, has_types = false;
  for (const ValueId value : graph.order()) {
    const auto* embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr) continue;
    if (embedding->types && !embedding->tokens) {
      throw InputError(
          "{}: '{}': types of tokens are added to something else than the embedding of tokens",
          where, graph.node(value).name);
    }
    has_tokens = has_tokens || embedding->tokens;
    has_types = has_types || embedding->types;
  }
  if (!has_types) graph.token_types = 0;
  if (lengths.reads_tokens() && !has_tokens) {
    throw InputError("{}: input {}: its ids are looked up in no table of weights", where,
                     quote(lengths.input().name));
  }
}

}  // namespace arenite::convert
