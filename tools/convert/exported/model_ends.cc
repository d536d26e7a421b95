// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/model_ends.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <vector>

#include "convert/exported/recover/refusals.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

Shape output_shape(const ExportedModel& model) {
  const ExportedProgram& program = *model.program;
  return program.values[program.outputs[model.output_index].as<ValueRef>()->value].shape();
}

// Whether a convolution or pool among `values` is not causal.
bool has_noncausal_windows(const Graph& graph, const std::vector<ValueId>& values) {
  return std::ranges::any_of(values, [&](ValueId value) {
    const auto* windows = graph.as<WindowsNode>(value);
    const auto* depthwise = graph.as<DepthwiseNode>(value);
    const auto* pool = graph.as<MaxPoolNode>(value);
    return (windows != nullptr && !windows->windows.is_causal()) ||
           (depthwise != nullptr && !depthwise->windows.is_causal()) ||
           (pool != nullptr && !pool->windows.is_causal());
  });
}

uint32_t array_flags_of(const ExportedModel& model, const TraceShape& trace_shape) {
  const auto flag = [](bool is_set, ArrayFlag bit) { return is_set ? uint32_t{bit} : 0u; };
  bool takes_columns_first = false, takes_images_turned = false;
  for (size_t i = 0; i < trace_shape.inputs(); ++i) {
    const TraceShape& own = trace_shape.of(i);
    const auto& image = own.image();
    takes_columns_first =
        takes_columns_first ||
        (image ? image->channels_first && image->channels != 1 : own.columns_first());
    takes_images_turned = takes_images_turned || (image && image->columns_first);
  }
  return flag(model.causal && model.has_row_of_sequence, kLastRows) |
         flag(model.tokens_first, kTokensFirst) | flag(model.keeps_token_axis, kKeepsTokenAxis) |
         flag(model.columns_first, kColumnsFirst) | flag(takes_columns_first, kTakesColumnsFirst) |
         flag(takes_images_turned, kTakesImagesTurned);
}

// Returns Graph::output_shape; empty for the plain layout. At most one extent may depend on the
// tokens. Without a sequence axis, the first extent may span all sequences.
std::vector<uint32_t> shape_given_out(const ExportedModel& model, const TraceShape& trace_shape) {
  const ExportedProgram& program = *model.program;
  const auto& sizes =
      program.values[program.outputs[model.output_index].as<ValueRef>()->value].sizes;
  const auto sequences = int64_t{trace_shape.sizes().sequences};
  const size_t first = model.tokens_first && !model.has_row_of_sequence ? 1 : 0;
  const bool has_sequences = first < sizes.size() && sizes[first].size == sequences;
  std::vector<uint32_t> shape;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].size < 0 || sizes[d].size >= int64_t{kSequencesExtent}) return {};
    shape.push_back(has_sequences && d == first ? kSequencesExtent
                    : sizes[d].is_fixed()       ? static_cast<uint32_t>(sizes[d].size)
                                                : kOtherExtent);
  }
  if (trace_shape.inputs() == 1 && trace_shape.of(0).is_open()) {
    // If the user vouches for other lengths, the fixed extent that counts rows varies.
    const Graph& graph = model.graph;
    const auto tokens = static_cast<uint32_t>(trace_shape.of(0).traced_tokens());
    const uint32_t rows = graph.rows(graph.axis(graph.output), tokens);
    const bool is_fixed = std::ranges::find(shape, kOtherExtent) == shape.end();
    const auto extent = std::ranges::find(shape, rows);
    if (is_fixed && rows > 1 && extent != shape.end()) *extent = kOtherExtent;
  }
  const auto others = std::ranges::count(shape, kOtherExtent);
  if (others == 0 && !has_sequences && !shape.empty()) shape[0] = kOtherExtent;
  if (others > 1) return {};
  const size_t columns = model.columns_first ? 1 : shape.size() - 1;
  const bool is_plain = has_sequences && shape.size() == (model.has_row_of_sequence ? 2 : 3) &&
                        shape[columns] == model.graph.width(model.graph.output);
  return is_plain || model.keeps_token_axis ? std::vector<uint32_t>() : shape;
}

// Returns the select nodes that keep one row for each sequence.
std::vector<ValueId> rows_of_sequences(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<ValueId> selections;
  for (const ValueId value : values) {
    if (graph.as<SelectNode>(value) && graph.is_on(AxisKind::kOne, value))
      selections.push_back(value);
  }
  return selections;
}
}  // namespace

bool is_causal_function(const Graph& graph, const GraphFunction& function,
                        const TraceShape& trace_shape) {
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    if ((function.inputs & 1u << i) == 0) continue;
    if (trace_shape.of(i).reads_images() || graph.inputs[i].tokens_min > 1) return false;
  }
  if (std::popcount(function.inputs) > 1) return false;
  for (const ValueId value : rows_of_sequences(graph, function.values)) {
    if (graph.as<SelectNode>(value)->kind != SelectKind::kLast) return false;
  }
  const std::set<ValueId> own(function.values.begin(), function.values.end());
  for (const ValueId value : function.values) {
    const Node& node = graph.node(value);
    const bool reads_sequence = std::ranges::any_of(node.inputs, [&](ValueId input) {
      return own.contains(input) && graph.is_on(AxisKind::kOne, input);
    });
    if (reads_sequence && !graph.is_on(AxisKind::kOne, value)) return false;
    const auto* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr) continue;
    if (graph.is_cross_attention(value) ? own.contains(value_input(node.inputs))
                                        : !is_causal(graph.masks[attention->mask])) {
      return false;
    }
  }
  return !has_noncausal_windows(graph, function.values);
}

void settle_outputs(ExportedModel& model, const TraceShape& trace_shape) {
  Graph& graph = model.graph;
  graph.remove_unread();
  const GraphFunction last = functions_of(graph).back();
  const std::vector<ValueId> selections = rows_of_sequences(graph, last.values);
  model.causal = is_causal_function(graph, last, trace_shape);
  bool has_one_token = true;
  for (size_t i = 0; i < trace_shape.inputs(); ++i) {
    has_one_token = has_one_token && graph.inputs[i].positions_max == 1;
  }
  model.has_row_of_sequence = !selections.empty() || has_one_token;
  model.tokens_first = trace_shape.tokens_first();
  for (size_t i = 1; i < trace_shape.inputs(); ++i) {
    model.tokens_first = model.tokens_first || trace_shape.of(i).tokens_first();
  }
  const Shape output = output_shape(model);
  model.keeps_token_axis =
      model.has_row_of_sequence && output.size() == 3 && output[model.tokens_first ? 0 : 1] == 1;
  graph.array_flags = array_flags_of(model, trace_shape);
  graph.output_shape = shape_given_out(model, trace_shape);
  if (model.causal && selections.empty()) {
    graph.output = graph.add_select("select", SelectKind::kAsAsked, graph.output);
  } else if (model.causal) {
    for (const ValueId value : selections) {
      graph.as<SelectNode>(value)->kind = SelectKind::kAsAsked;
      Node& node = graph.node(value);
      node.axis = graph.add_axis({AxisKind::kAsked, graph.axis(node.inputs[0]), 0, 0});
    }
    graph.spread_axes();
  }
  graph.make_names_unique();
}

void require_one_order(const TraceShape& trace_shape, const std::string& where) {
  for (size_t i = 0; i < trace_shape.inputs(); ++i) {
    const TraceShape& one = trace_shape.of(i);
    for (size_t j = 0; j < i; ++j) {
      const TraceShape& other = trace_shape.of(j);
      const bool have_columns = !one.reads_tokens() && !other.reads_tokens();
      refuse_if(one.tokens_first() != other.tokens_first() ||
                    (have_columns && one.columns_first() != other.columns_first()),
                "{}: inputs {} and {} differ in the order of sequences, tokens and features: "
                "expected one order",
                where, quote(other.input().name), quote(one.input().name));
    }
  }
}

void require_inputs(Graph& graph, const TraceShape& trace_shape, const std::string& where) {
  std::vector<bool> has_tokens(graph.inputs.size()), has_types(graph.inputs.size());
  uint32_t read = 0;
  for (const ValueId value : graph.order()) {
    read |= graph.inputs_of(graph.axis(value));
    const auto* embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr || !(embedding->tokens || embedding->types)) continue;
    if (embedding->types && !embedding->tokens) {
      throw InputError("{}: '{}': token types are added to something else than token embeddings",
                       where, graph.node(value).name);
    }
    const uint32_t input = graph.axes[graph.axis(value)].source;
    has_tokens[input] = has_tokens[input] || embedding->tokens;
    has_types[input] = has_types[input] || embedding->types;
  }
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const ExportedInput& input = trace_shape.of(i).input();
    if (!has_types[i]) graph.inputs[i].token_types = 0;
    refuse_if(trace_shape.of(i).reads_tokens() && !has_tokens[i],
              "{}: input {}: its ids are looked up in no embedding table", where,
              quote(input.name));
    refuse_if(graph.inputs.size() > 1 && (read & 1u << i) == 0,
              "{}: input {}: the output does not depend on it: export the model without it", where,
              quote(input.name));
  }
}

void note_unread(ExportedModel& model, const ExportedProgram& program, const ExportedProgram& asked,
                 const std::vector<SideInput>& sides) {
  const auto is_input = [](const auto& inputs, uint32_t value) {
    return std::ranges::any_of(inputs, [&](const auto* one) { return one->value == value; });
  };
  uint32_t place = 0;
  for (const ExportedInput* input : program.user_inputs()) {
    const bool is_read = is_input(asked.user_inputs(), input->value);
    if (!is_read) {
      model.account.given.push_back(
          fmt::format("input {} is unused, and is not an input of the model", quote(input->name)));
      if (place < 32) model.unread_inputs |= 1u << place;
    }
    const bool is_side = is_read && std::ranges::any_of(sides, [&](const SideInput& side) {
                           return side.input->value == input->value;
                         });
    if (!is_side) ++place;
  }
}

int64_t tokens_of_a_window(const Graph& graph, size_t input) {
  const auto has_window = [&](ValueId value, uint32_t tokens) {
    return !graph.is_on(AxisKind::kWindows, value) || graph.rows(graph.axis(value), tokens) != 0;
  };
  uint32_t tokens = 1;
  for (const ValueId value : graph.order()) {
    if ((graph.inputs_of(graph.axis(value)) & 1u << input) == 0) continue;
    while (tokens < uint32_t{kWindowRowsMax} && !has_window(value, tokens)) ++tokens;
  }
  return tokens;
}

}  // namespace arenite::convert
