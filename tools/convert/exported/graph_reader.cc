// SPDX-License-Identifier: Apache-2.0
// Reads nodes in order: every name is defined once and before it is read.
#include "convert/exported/graph_reader.h"

#include <algorithm>
#include <array>
#include <limits>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// Results of these share the elements of "self". The last ones do where those lie in order.
constexpr std::string_view kViews[] = {
    "view",      "_unsafe_view", "transpose", "permute",   "slice",   "select",
    "unsqueeze", "squeeze",      "expand",    "unflatten", "split",   "chunk",
    "unbind",    "alias",        "detach",    "unfold",    "narrow",  "split_with_sizes",
    "diagonal",  "movedim",      "t",         "mT",        "numpy_T", "view_as",
    "expand_as", "swapaxes",     "moveaxis"};
constexpr std::string_view kViewsOfContiguous[] = {"reshape", "flatten", "contiguous", "reshape_as",
                                                   "ravel"};
constexpr std::string_view kDataDependent[] = {
    "nonzero", "nonzero_numpy",      "nonzero_static", "masked_select", "unique",
    "_unique", "unique_consecutive", "_unique2",       "unique_dim",    "bincount"};
constexpr std::string_view kWrappers[] = {"wrap_with_set_grad_enabled", "wrap_with_autocast",
                                          "tag_activation_checkpoint", "invoke_subgraph",
                                          "hints_wrapper"};

template <size_t kCount>
bool contains(const std::string_view (&list)[kCount], std::string_view text) {
  return std::ranges::find(list, text) != std::end(list);
}

// "torch.ops.aten.add.Tensor" is add and Tensor; "_operator.mul" stays.
OpCall call_of(std::string target) {
  constexpr std::string_view kOps = "torch.ops.";
  OpCall call;
  if (!target.starts_with(kOps)) {
    call.op = std::move(target);
    return call;
  }
  target.erase(0, kOps.size());
  const size_t first = target.find('.');
  const size_t last = target.rfind('.');
  if (first == std::string::npos) {
    call.op = std::move(target);
    return call;
  }
  if (target.starts_with("higher_order.") || first == last) {
    call.op = std::move(target);
  } else {
    call.op = target.substr(0, last);
    call.overload = target.substr(last + 1);
  }
  if (call.op.starts_with("aten.")) call.op.erase(0, 5);
  return call;
}

// "add_" of ops that change their first argument, as "add".
bool is_in_place(const std::string& op) {
  return (op.ends_with('_') && !op.ends_with("__") && op.find('.') == std::string::npos) ||
         op == "__iand__" || op == "__ior__" || op == "__ixor__";
}

std::string functional(const std::string& op) {
  if (op.starts_with("__i")) return "__" + op.substr(3);
  if (op == "_index_put_impl_") return "index_put";
  return op.substr(0, op.size() - 1);
}

}  // namespace

void GraphReader::add_change(OpCall call, const std::vector<std::string>& outputs, Scope& scope) {
  const ValueRef* self = call.arguments.empty() ? nullptr : call.arguments[0].value.as<ValueRef>();
  if (self == nullptr || outputs.size() > 1) {
    throw InputError("{}, {}: it changes no tensor", where_, call.describe());
  }
  // The argument is what the name means now; the name itself is what changes.
  const uint32_t named_value =
      originals_.contains(self->value) ? originals_[self->value] : self->value;
  call.op = functional(call.op);
  const bool depends = depends_on_input(call);
  const auto changed = static_cast<uint32_t>(program_.values.size());
  program_.values.push_back(program_.values[named_value]);
  program_.values.back().name += "_changed";
  program_.nodes.push_back({.call = std::move(call), .outputs = {changed}});
  aliases_.change(named_value, changed);
  grow();
  for (size_t value = changed; value < depends_.size(); ++value) depends_[value] = depends;
  if (depends) depends_[named_value] = true;
  if (!outputs.empty() && !outputs[0].empty()) define(scope, outputs[0], ValueRef{named_value});
}

void GraphReader::note_view(const ExportedNode& node) {
  const bool is_view = contains(kViews, node.call.op) && node.call.overload != "dtype";
  const Argument* self = node.call.find("self");
  if (self == nullptr || self->as<ValueRef>() == nullptr) return;
  const uint32_t read = self->as<ValueRef>()->value;
  const bool is_same_type = (node.call.op == "to" || node.call.op == "type_as") &&
                            !node.outputs.empty() &&
                            program_.values[node.outputs[0]].type == program_.values[read].type &&
                            !node.call.find("copy");
  const bool is_in_order = contains(kViewsOfContiguous, node.call.op) && is_contiguous_[read];
  if (!is_view && !is_in_order && !is_same_type) return;
  const uint32_t parent = originals_.contains(read) ? originals_[read] : read;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    aliases_.add_view(node.outputs[i], parent, node.call, static_cast<int64_t>(i));
  }
}

bool GraphReader::depends_on_input(const OpCall& call) const {
  if (call.op == "sym_size" || call.op == "sym_numel") return false;
  const std::function<bool(const Argument&)> depends = [&](const Argument& argument) {
    if (const auto* reference = argument.as<ValueRef>()) return bool{depends_[reference->value]};
    const auto* list = argument.as<Argument::List>();
    return list != nullptr && std::ranges::any_of(*list, depends);
  };
  return std::ranges::any_of(call.arguments,
                             [&](const NamedArgument& named) { return depends(named.value); });
}

void GraphReader::grow() {
  depends_.resize(program_.values.size(), false);
  is_contiguous_.resize(program_.values.size(), false);
}

uint32_t GraphReader::add_value(const std::string& name, ValueKind kind, const Scope& scope) {
  ExportedValue value{.name = name, .kind = kind};
  bool is_contiguous = true;
  const auto metas = scope.graph->find("tensor_values");
  const auto meta = metas == scope.graph->end() || !metas->is_object() ? json::const_iterator()
                                                                       : metas->find(name);
  if (kind == ValueKind::kTensor && metas != scope.graph->end() && metas->is_object() &&
      meta != metas->end()) {
    const std::string where = fmt::format("{}, tensor {}", where_, quote(name));
    value.type = element_type(field(*meta, "dtype", where), where);
    const json& sizes = field(*meta, "sizes", where);
    if (!sizes.is_array() || sizes.size() > kExportedRankMax) {
      throw InputError("{}: found {}: expected its sizes", where, show(sizes));
    }
    for (const json& size : sizes) value.sizes.push_back(extent(size, where));
    const json& strides = field(*meta, "strides", where);
    int64_t expected = 1;
    for (size_t d = value.sizes.size(); d > 0; --d) {
      const int64_t size = value.sizes[d - 1].size;
      const bool has_stride = strides.is_array() && strides.size() == value.sizes.size();
      is_contiguous = is_contiguous && has_stride &&
                      (size == 1 || extent(strides[d - 1], where).size == expected);
      if (__builtin_mul_overflow(expected, std::max<int64_t>(size, 1), &expected) ||
          expected > kExportedDeclaredMax) {
        throw InputError("{}: its sizes are larger than any tensor", where);
      }
    }
  }
  program_.values.push_back(std::move(value));
  grow();
  is_contiguous_.back() = is_contiguous;
  return static_cast<uint32_t>(program_.values.size() - 1);
}

Extent GraphReader::extent(const json& size, const std::string& where) {
  if (size.is_object() && size.contains("as_int")) {
    const int64_t number = integer(size["as_int"], where);
    if (number < 0) throw InputError("{}: it has the size {}", where, number);
    return {.size = number};
  }
  const json& expression = field(size, "as_expr", where);
  Extent found{.symbol = text(field(expression, "expr_str", where), where)};
  constexpr std::string_view kSymbol = "Symbol('";
  if (found.symbol.starts_with(kSymbol)) {
    const size_t end = found.symbol.find('\'', kSymbol.size());
    if (found.symbol.find("Symbol(", 1) == std::string::npos && end != std::string::npos) {
      found.symbol = found.symbol.substr(kSymbol.size(), end - kSymbol.size());
    }
  }
  const auto hint = expression.find("hint");
  if (hint != expression.end() && hint->is_object() && hint->contains("as_int")) {
    found.size = std::max<int64_t>(0, integer((*hint)["as_int"], where));
  }
  return found;
}

void GraphReader::define(Scope& scope, const std::string& name, Argument value) const {
  if (name.empty() || !scope.names.emplace(name, std::move(value)).second) {
    throw InputError("{}: the name {} stands for two values, or for nothing", where_, quote(name));
  }
}

std::vector<GraphReader::Output> GraphReader::outputs_of(const json& node) const {
  std::vector<Output> outputs;
  const json& list = field(node, "outputs", where_);
  if (!list.is_array()) throw InputError("{}: a node's outputs are no list", where_);
  for (const json& output : list) {
    if (!output.is_object() || output.size() != 1) {
      throw InputError("{}: an output is {}", where_, show(output));
    }
    const std::string& kind = output.begin().key();
    const json& value = output.begin().value();
    if (kind == "as_tensor") {
      outputs.push_back({text(field(value, "name", where_), where_), ValueKind::kTensor});
    } else if (kind == "as_tensors") {
      if (!value.is_array()) throw InputError("{}: an output is {}", where_, show(output));
      for (const json& item : value) {
        outputs.push_back({text(field(item, "name", where_), where_), ValueKind::kTensor});
      }
    } else if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") {
      const ValueKind number = kind == "as_sym_int"    ? ValueKind::kInteger
                               : kind == "as_sym_bool" ? ValueKind::kBool
                                                       : ValueKind::kReal;
      outputs.push_back({text(field(value, "as_name", where_), where_), number});
    } else if (kind == "as_none") {
      outputs.push_back({"", ValueKind::kTensor});
    } else {
      throw InputError("{}: an output is {}, which is not read", where_, show(output));
    }
  }
  return outputs;
}

void GraphReader::read_node(const json& node, Scope& scope) {
  OpCall call = call_of(text(field(node, "target", where_), where_));
  std::string module_path;
  if (const auto metadata = node.find("metadata"); metadata != node.end()) {
    if (const auto trace = metadata->find("stack_trace");
        trace != metadata->end() && trace->is_string()) {
      call.stack_trace = trace->get_ref<const std::string&>();
    }
    if (const auto stack = metadata->find("nn_module_stack");
        stack != metadata->end() && stack->is_string()) {
      module_path = innermost_module(stack->get_ref<const std::string&>());
    }
  }
  if (call.op.starts_with("higher_order.")) return inline_subgraph(call, node, scope);
  const json& inputs = field(node, "inputs", where_);
  if (!inputs.is_array()) throw InputError("{}: the inputs of a node are no list", where_);
  for (const json& input : inputs) {
    call.arguments.push_back({text(field(input, "name", where_), where_),
                              read_argument(field(input, "arg", where_), scope)});
  }
  const bool depends = depends_on_input(call);
  const bool is_item = call.op == "item" || call.op == "_local_scalar_dense";
  if (contains(kDataDependent, call.op) || (is_item && depends)) {
    throw InputError(
        "{}, {}: what it gives depends on the numbers that the model is given, not on their count "
        "alone: use torch.where or a mask instead",
        where_, call.describe());
  }
  const std::vector<Output> outputs = outputs_of(node);
  if (is_in_place(call.op)) {
    std::vector<std::string> names;
    for (const Output& output : outputs) names.push_back(output.name);
    return add_change(std::move(call), names, scope);
  }
  ExportedNode added{.call = std::move(call), .module_path = std::move(module_path)};
  for (const Output& output : outputs) {
    const uint32_t value = add_value(output.name, output.kind, scope);
    depends_[value] = depends;
    added.outputs.push_back(value);
    if (!output.name.empty()) define(scope, output.name, ValueRef{value});
  }
  program_.nodes.push_back(std::move(added));
  note_view(program_.nodes.back());
}

// A graph in a node that only sets a mode, such as torch.no_grad.
void GraphReader::inline_subgraph(const OpCall& call, const json& node, Scope& scope) {
  const std::string kind = call.op.substr(call.op.find('.') + 1);
  const json& inputs = field(node, "inputs", where_);
  const json* graph = nullptr;
  std::vector<Argument> arguments;
  for (const json& input : inputs) {
    const json& argument = field(input, "arg", where_);
    if (argument.is_object() && argument.contains("as_graph")) {
      if (graph != nullptr) graph = nullptr;
      graph = &field(argument["as_graph"], "graph", where_);
      arguments.clear();
    } else if (graph != nullptr) {
      arguments.push_back(read_argument(argument, scope));
    }
  }
  if (!contains(kWrappers, kind) || graph == nullptr) {
    throw InputError(
        "{}, {}: control flow that depends on data is not understood: write the model without it",
        where_, call.describe());
  }
  if (scope.depth == kExportedSubgraphDepthMax) {
    throw InputError("{}: subgraphs are nested more than {} deep", where_, scope.depth);
  }
  Scope inner{.graph = graph, .depth = scope.depth + 1};
  const json& parameters = field(*graph, "inputs", where_);
  const json& results = field(*graph, "outputs", where_);
  if (!parameters.is_array() || !results.is_array() || arguments.size() < parameters.size()) {
    throw InputError("{}, {}: its graph takes something else", where_, call.describe());
  }
  arguments.erase(arguments.begin(), arguments.end() - static_cast<ptrdiff_t>(parameters.size()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const json& parameter = parameters[i];
    if (!parameter.is_object() || parameter.size() != 1) continue;
    const json& value = parameter.begin().value();
    const char* key = parameter.contains("as_tensor") ? "name" : "as_name";
    if (!value.is_object() || !value.contains(key)) continue;  // a constant
    define(inner, text(value[key], where_), original(arguments[i]));
  }
  read_nodes(inner);
  const std::vector<Output> outputs = outputs_of(node);
  std::vector<Argument> given;
  for (const json& result : results) {
    Argument value = read_argument(result, inner);
    if (const auto* list = value.as<Argument::List>()) {
      given.insert(given.end(), list->begin(), list->end());
    } else {
      given.push_back(std::move(value));
    }
  }
  if (outputs.size() != given.size()) {
    throw InputError("{}, {}: its graph gives something else", where_, call.describe());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].name.empty()) define(scope, outputs[i].name, original(given[i]));
  }
}

void GraphReader::read_nodes(Scope& scope) {
  const json& nodes = field(*scope.graph, "nodes", where_);
  if (!nodes.is_array()) throw InputError("{}: its nodes are no list", where_);
  for (const json& node : nodes) {
    if (program_.nodes.size() >= kExportedNodesMax) {
      throw InputError("{}: more than {} nodes: it is no model's", where_, kExportedNodesMax);
    }
    read_node(node, scope);
  }
}

}  // namespace arenite::convert
