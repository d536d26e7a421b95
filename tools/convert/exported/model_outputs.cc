// SPDX-License-Identifier: Apache-2.0
// Outputs of a program, side by side or one of them, as the rows that a model gives out.
#include "convert/exported/model_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

const ExportedValue& output_of(const ExportedProgram& program, size_t index) {
  return program.values[program.outputs[index].as<ValueRef>()->value];
}

bool same_extent(const Extent& a, const Extent& b) {
  return a.size == b.size && a.symbol == b.symbol;
}

// Columns of one tensor after those of the others; `places` are of the program's outputs.
ChosenOutput side_by_side(std::shared_ptr<const ExportedProgram> program,
                          const std::vector<size_t>& places) {
  ExportedValue joined = output_of(*program, places[0]);
  joined.name = "outputs";
  int64_t columns = 0;
  Argument::List parts;
  ChosenOutput chosen;
  for (const size_t place : places) {
    const ExportedValue& part = output_of(*program, place);
    const std::vector<Extent>& sizes = part.sizes;
    const bool fits = !sizes.empty() && sizes.size() == joined.sizes.size() &&
                      sizes.back().is_fixed() &&
                      std::equal(sizes.begin(), sizes.end() - 1, joined.sizes.begin(), same_extent);
    if (!fits) {
      throw InputError(
          "{}: --output-index: {} and {} cannot stand side by side, since their rows differ: "
          "convert them to model files of their own",
          quote(program->source), shape_text(output_of(*program, places[0]).shape()),
          shape_text(part.shape()));
    }
    const int64_t end = columns + sizes.back().size;
    chosen.words += fmt::format("{}columns {} to {}", columns == 0 ? "" : ", ", columns, end - 1);
    columns = end;
    parts.emplace_back(*program->outputs[place].as<ValueRef>());
  }
  joined.sizes.back().size = columns;
  ExportedProgram all = *program;
  const auto value = static_cast<uint32_t>(all.values.size());
  all.values.push_back(std::move(joined));
  all.nodes.push_back({.op = "cat",
                       .overload = "default",
                       .arguments = {{"tensors", std::move(parts)}, {"dim", int64_t{-1}}},
                       .outputs = {value}});
  all.outputs.emplace_back(ValueRef{value});
  chosen.index = all.outputs.size() - 1;
  chosen.program = std::make_shared<const ExportedProgram>(std::move(all));
  return chosen;
}

}  // namespace

ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted) {
  std::vector<size_t> tensors;
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    const ValueRef* ref = program->outputs[i].as<ValueRef>();
    if (ref && program->values[ref->value].kind == ValueKind::kTensor) tensors.push_back(i);
  }
  std::vector<size_t> places;
  for (const uint32_t index : wanted.empty() ? std::vector<uint32_t>{0} : wanted) {
    if (index >= tensors.size()) {
      throw InputError("{}: --output-index {}: the model gives out {} tensor{}: expected 0 to {}",
                       quote(program->source), index, tensors.size(),
                       tensors.size() == 1 ? "" : "s", tensors.empty() ? 0 : tensors.size() - 1);
    }
    places.push_back(tensors[index]);
  }
  const size_t outputs = tensors.size();
  ChosenOutput chosen;
  if (places.size() > 1) {
    chosen = side_by_side(std::move(program), places);
    chosen.words = fmt::format("outputs {} of {} side by side: {}, --output-index",
                               fmt::join(wanted, ", "), outputs, chosen.words);
  } else {
    chosen = {std::move(program), places[0], 1, ""};
    if (outputs > 1) {
      chosen.words = fmt::format(
          "output {} of {}{}", wanted.empty() ? 0 : wanted[0], outputs,
          wanted.empty() ? ", the first: --output-index takes another" : ", --output-index");
    }
  }
  chosen.outputs = outputs;
  return chosen;
}

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

void settle_outputs(ExportedModel& model, const TraceShape& trace_shape, const std::string& where) {
  Graph& graph = model.graph;
  std::vector<SelectNode*> selections;
  for (const ValueId value : graph.order()) {
    if (auto* rows = graph.as<SelectNode>(value)) selections.push_back(rows);
  }
  const bool takes_last = std::ranges::all_of(
      selections, [](const SelectNode* rows) { return rows->kind == SelectKind::kLast; });
  model.causal = takes_last && !trace_shape.reads_images() && graph.tokens_min <= 1 &&
                 std::ranges::all_of(graph.masks, [](const Mask& mask) { return is_causal(mask); });
  model.has_row_of_sequence = !selections.empty();
  model.tokens_first = trace_shape.tokens_first();
  const Shape output = output_shape(model);
  model.keeps_token_axis =
      model.has_row_of_sequence && output.size() == 3 && output[model.tokens_first ? 0 : 1] == 1;
  if (model.causal && selections.empty()) {
    graph.output = graph.add("select", SelectNode{SelectKind::kAsAsked}, {graph.output});
  } else if (model.causal) {
    for (SelectNode* const rows : selections) rows->kind = SelectKind::kAsAsked;
  }
  graph.remove_unread();
  graph.name_layers_apart();
  require_prefix(graph, where);
}

void require_inputs(Graph& graph, const TraceShape& trace_shape, const std::string& where) {
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
  if (trace_shape.reads_tokens() && !has_tokens) {
    throw InputError("{}: input {}: its ids are looked up in no table of weights", where,
                     quote(trace_shape.input().name));
  }
}

}  // namespace arenite::convert
