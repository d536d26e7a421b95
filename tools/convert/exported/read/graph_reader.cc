// SPDX-License-Identifier: Apache-2.0
// Reads nodes in order: every name is defined once and before it is read.
#include "convert/exported/read/pt2_archive.h"

#include <algorithm>
#include <array>
#include <limits>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"

namespace arenite::convert {
namespace {

// What of a program shares elements, so that a change in place of one shows in the others.
// Values are those that the file names; `current` is what a name means after changes.
class Aliases {
 public:
  explicit Aliases(ExportedProgram& program) : program_(program) {}

  // `call` made `value`, its output number `part`, as a view of `parent`.
  void add_view(uint32_t value, uint32_t parent, Call call, int64_t part);
  // What readers of `value` read now. Appends nodes where a view is to be taken anew.
  uint32_t current(uint32_t value);
  // `value` is `changed` from now on, and whatever it shares elements with changes, too.
  void change(uint32_t value, uint32_t changed);

 private:
  struct View {
    uint32_t parent;
    Call call;
    int64_t part;
    size_t depth;  // of views of views
  };
  struct State {
    uint32_t value;
    uint64_t version;
  };
  uint32_t root(uint32_t value) const;
  void take_copy(const Call& call);
  uint32_t append(Call call, uint32_t like, int64_t part);

  ExportedProgram& program_;
  std::map<uint32_t, View> views_;
  std::map<uint32_t, uint32_t> roots_;     // of views
  uint64_t copied_ = 0;                    // parts of calls
  std::map<uint32_t, uint64_t> versions_;  // of roots that were changed
  std::map<uint32_t, State> states_;
};

class GraphReader {
 public:
  // REQUIRES: the archive outlives it.
  GraphReader(const Pt2Archive& archive, const std::string& file_name);
  ExportedProgram run();

 private:
  using json = nlohmann::json;
  struct Scope {
    const json* graph = nullptr;
    std::map<std::string, Argument, std::less<>> names{};
    size_t depth = 0;
  };
  struct Output {
    std::string name;
    ValueKind kind;
  };

  void read_symbols();
  void read_input(const json& spec, Scope& scope);
  void read_outputs(const json& signature, const Scope& scope);
  void read_nodes(Scope& scope);
  void read_node(const json& node, Scope& scope);
  void inline_subgraph(const Call& call, const json& node, Scope& scope);
  void add_change(Call call, const std::vector<std::string>& outputs, Scope& scope);
  void note_view(const Call& node);

  Argument read_argument(const json& argument, const Scope& scope);
  Argument read_one(const std::string& kind, const json& value, const Scope& scope);
  Argument named(const std::string& name, const Scope& scope);
  Argument original(const Argument& argument) const;
  double real(const json& value) const;
  bool flag(const json& value) const;
  std::vector<Output> outputs_of(const json& node) const;
  static std::string innermost_module(const std::string& stack);
  static Extent extent(const json& size, const std::string& where);

  uint32_t add_value(const std::string& name, ValueKind kind, const Scope& scope);
  void grow();  // the lists beside the values
  void define(Scope& scope, const std::string& name, Argument value) const;
  bool depends_on_input(const Call& call) const;

  const Pt2Archive& archive_;
  std::string where_;  // for messages
  ExportedProgram program_;
  Aliases aliases_;
  std::map<uint32_t, uint32_t> originals_;  // what a value is now, to what the file names
  std::vector<bool> depends_;               // of each value: on what the user gives
  std::vector<bool> is_contiguous_;         // as it was traced
};

}  // namespace

using nlohmann::json;

namespace {

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
Call call_of(std::string target) {
  constexpr std::string_view kOps = "torch.ops.";
  Call call;
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

void GraphReader::add_change(Call call, const std::vector<std::string>& outputs, Scope& scope) {
  const ValueRef* self = call.arguments.empty() ? nullptr : call.arguments[0].value.as<ValueRef>();
  if (self == nullptr || outputs.size() > 1) {
    throw InputError("{}, {}: it changes no tensor", where_, call.describe());
  }
  // The argument is what the name means now; the name itself is what changes.
  const uint32_t named_value =
      originals_.contains(self->value) ? originals_[self->value] : self->value;
  call.op = functional(call.op);
  call.module_path.clear();  // it is where its operand is
  const bool depends = depends_on_input(call);
  const auto changed = static_cast<uint32_t>(program_.values.size());
  program_.values.push_back(program_.values[named_value]);
  program_.values.back().name += "_changed";
  call.outputs = {changed};
  program_.nodes.push_back(std::move(call));
  aliases_.change(named_value, changed);
  grow();
  for (size_t value = changed; value < depends_.size(); ++value) depends_[value] = depends;
  if (depends) depends_[named_value] = true;
  if (!outputs.empty() && !outputs[0].empty()) define(scope, outputs[0], ValueRef{named_value});
}

void GraphReader::note_view(const Call& node) {
  const bool is_view = contains(kViews, node.op) && node.overload != "dtype";
  const Argument* self = node.find("self");
  if (self == nullptr || self->as<ValueRef>() == nullptr) return;
  const uint32_t read = self->as<ValueRef>()->value;
  const bool is_same_type = (node.op == "to" || node.op == "type_as") && !node.outputs.empty() &&
                            program_.values[node.outputs[0]].type == program_.values[read].type &&
                            !node.find("copy");
  const bool is_in_order = contains(kViewsOfContiguous, node.op) && is_contiguous_[read];
  if (!is_view && !is_in_order && !is_same_type) return;
  const uint32_t parent = originals_.contains(read) ? originals_[read] : read;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    aliases_.add_view(node.outputs[i], parent, node, static_cast<int64_t>(i));
  }
}

bool GraphReader::depends_on_input(const Call& call) const {
  if (call.op == "sym_size" || call.op == "sym_numel") return false;
  bool depends = false;
  for_each<ValueRef>(call, [&](ValueRef ref) { depends = depends || depends_[ref.value]; });
  return depends;
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
  Call call = call_of(text(field(node, "target", where_), where_));
  if (const auto metadata = node.find("metadata"); metadata != node.end()) {
    if (const auto trace = metadata->find("stack_trace");
        trace != metadata->end() && trace->is_string()) {
      call.stack_trace = trace->get_ref<const std::string&>();
    }
    if (const auto stack = metadata->find("nn_module_stack");
        stack != metadata->end() && stack->is_string()) {
      call.module_path = innermost_module(stack->get_ref<const std::string&>());
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
  for (const Output& output : outputs) {
    const uint32_t value = add_value(output.name, output.kind, scope);
    depends_[value] = depends;
    call.outputs.push_back(value);
    if (!output.name.empty()) define(scope, output.name, ValueRef{value});
  }
  program_.nodes.push_back(std::move(call));
  note_view(program_.nodes.back());
}

// A graph in a node that only sets a mode, such as torch.no_grad.
void GraphReader::inline_subgraph(const Call& call, const json& node, Scope& scope) {
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

// The arguments of nodes, the inputs and the outputs of the graph.

namespace {

constexpr int64_t kBoundMax = int64_t{1} << 31;  // of an extent; what is larger bounds nothing

}  // namespace

Argument GraphReader::named(const std::string& name, const Scope& scope) {
  const auto found = scope.names.find(name);
  if (found == scope.names.end()) {
    throw InputError("{}: {} is read before it is computed: the file is damaged", where_,
                     quote(name));
  }
  const auto* reference = found->second.as<ValueRef>();
  if (reference == nullptr) return found->second;
  const uint32_t current = aliases_.current(reference->value);
  grow();
  if (current != reference->value) {
    originals_[current] = reference->value;
    depends_[current] = depends_[current] || depends_[reference->value];
  }
  return ValueRef{current};
}

// What a name is defined as: the value before changes.
Argument GraphReader::original(const Argument& argument) const {
  const auto* reference = argument.as<ValueRef>();
  if (reference == nullptr) return argument;
  const auto found = originals_.find(reference->value);
  return found == originals_.end() ? argument : Argument(ValueRef{found->second});
}

// Numbers beyond those of JSON are strings.
double GraphReader::real(const json& value) const {
  if (value.is_number()) return value.get<double>();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw InputError("{}: found {}: expected a number", where_, show(value));
}

bool GraphReader::flag(const json& value) const {
  if (!value.is_boolean()) throw InputError("{}: found {}: expected a bool", where_, show(value));
  return value.get<bool>();
}

// One item of a list, or one argument, by the kind that its key says.
Argument GraphReader::read_one(const std::string& kind, const json& value, const Scope& scope) {
  if (kind == "tensor") return named(text(field(value, "name", where_), where_), scope);
  if (kind == "int") return integer(value, where_);
  if (kind == "float") return real(value);
  if (kind == "bool") return flag(value);
  if (kind == "string" || kind == "operator") return std::string(text(value, where_));
  if (kind == "scalar_type") return element_type(value, where_);
  if (kind == "memory_format" || kind == "layout" || kind == "device") return Placement{};
  if (kind == "none") return {};
  if (kind == "complex") {
    return std::complex<double>(real(field(value, "real", where_)),
                                real(field(value, "imag", where_)));
  }
  if (kind == "optional_tensor") {
    return value.is_object() && value.contains("as_none") ? Argument()
                                                          : read_argument(value, scope);
  }
  if (kind == "sym_int" || kind == "sym_float" || kind == "sym_bool") {
    if (value.is_object() && value.contains("as_name")) {
      return named(text(value["as_name"], where_), scope);
    }
    return read_argument(value, scope);
  }
  throw InputError("{}: an argument of the kind {} is not read", where_, quote(kind));
}

Argument GraphReader::read_argument(const json& argument, const Scope& scope) {
  constexpr std::string_view kPrefix = "as_";
  if (!argument.is_object() || argument.size() != 1 ||
      !argument.begin().key().starts_with(kPrefix)) {
    throw InputError("{}: found {}: expected an argument", where_, show(argument));
  }
  std::string kind = argument.begin().key().substr(kPrefix.size());
  const json& value = argument.begin().value();
  if (!kind.ends_with('s') || kind.ends_with("lists")) return read_one(kind, value, scope);
  kind.pop_back();
  if (!value.is_array()) {
    throw InputError("{}: found {}: expected a list", where_, show(argument));
  }
  Argument::List list;
  list.reserve(value.size());
  for (const json& item : value) list.push_back(read_one(kind, item, scope));
  return list;
}

std::string GraphReader::innermost_module(const std::string& stack) {
  const size_t last = stack.rfind(';');
  const std::string entry = last == std::string::npos ? stack : stack.substr(last + 1);
  const size_t first = entry.find(',');
  const size_t second = first == std::string::npos ? first : entry.find(',', first + 1);
  if (second == std::string::npos || entry.starts_with("_empty")) return "";
  return entry.substr(first + 1, second - first - 1);
}

void GraphReader::read_symbols() {
  const auto ranges = archive_.model.find("range_constraints");
  if (ranges == archive_.model.end() || !ranges->is_object()) return;
  for (const auto& entry : ranges->items()) {
    const std::string& name = entry.key();
    const json& range = entry.value();
    SymbolRange& added = program_.symbols[name];
    const auto bound = [&](const char* key) -> std::optional<int64_t> {
      const auto found = range.find(key);
      if (!range.is_object() || found == range.end() || found->is_null()) return std::nullopt;
      return integer(*found, fmt::format("{}, {}", where_, quote(name)));
    };
    added.min = bound("min_val").value_or(0);
    added.max = bound("max_val");
    if (added.max > kBoundMax) added.max.reset();
  }
}

void GraphReader::read_input(const json& spec, Scope& scope) {
  if (!spec.is_object() || spec.size() != 1) {
    throw InputError("{}: an input is {}", where_, show(spec));
  }
  const std::string& kind = spec.begin().key();
  const json& described = spec.begin().value();
  if (kind == "constant_input" || kind == "token") return;
  ExportedInput input;
  const json& argument = field(described, "arg", where_);
  if (kind == "user_input") {
    if (!argument.contains("as_tensor")) {
      const auto number = argument.find("as_sym_int");
      if (number == argument.end() || !number->contains("as_name")) return;  // a constant
      throw InputError("{}: an input of the model is a number: give tensors alone", where_);
    }
    input.name = text(field(argument["as_tensor"], "name", where_), where_);
    input.value = add_value(input.name, ValueKind::kTensor, scope);
    depends_[input.value] = true;
    define(scope, input.name, ValueRef{input.value});
    program_.inputs.push_back(std::move(input));
    return;
  }
  const char* key = kind == "parameter"         ? "parameter_name"
                    : kind == "buffer"          ? "buffer_name"
                    : kind == "tensor_constant" ? "tensor_constant_name"
                                                : nullptr;
  if (key == nullptr) {
    throw InputError("{}: an input is a {}: only tensors are read", where_, quote(kind));
  }
  input.kind = kind == "parameter" ? InputKind::kParameter
               : kind == "buffer"  ? InputKind::kBuffer
                                   : InputKind::kConstant;
  input.name = text(field(described, key, where_), where_);
  const auto tensor = archive_.by_name.find(input.name);
  if (tensor == archive_.by_name.end()) {
    throw InputError("{}: the archive has no tensor {}: the file is damaged", where_,
                     quote(input.name));
  }
  input.tensor = tensor->second.index;
  input.storage = tensor->second.storage;
  const std::string name = text(field(argument, "name", where_), where_);
  input.value = add_value(name, ValueKind::kTensor, scope);
  // What is stored counts, whatever the graph says of it.
  ExportedValue& value = program_.values[input.value];
  value.type = tensor->second.type;
  value.sizes.clear();
  for (const int64_t size : tensor->second.shape) value.sizes.push_back({.size = size});
  define(scope, name, ValueRef{input.value});
  program_.inputs.push_back(std::move(input));
}

void GraphReader::read_outputs(const json& signature, const Scope& scope) {
  const json& specs = field(signature, "output_specs", where_);
  if (!specs.is_array()) throw InputError("{}: its outputs are no list", where_);
  for (const json& spec : specs) {
    if (!spec.is_object() || spec.size() != 1) {
      throw InputError("{}: an output is {}", where_, show(spec));
    }
    const json& described = spec.begin().value();
    if (spec.begin().key() == "user_output") {
      Argument output = read_argument(field(described, "arg", where_), scope);
      if (const auto* list = output.as<Argument::List>()) {
        program_.outputs.insert(program_.outputs.end(), list->begin(), list->end());
      } else {
        program_.outputs.push_back(std::move(output));
      }
    } else if (spec.begin().key() == "buffer_mutation") {
      program_.mutated_buffers.push_back(text(field(described, "buffer_name", where_), where_));
    }
  }
}

GraphReader::GraphReader(const Pt2Archive& archive, const std::string& file_name)
    : archive_(archive), where_(quote(file_name)), aliases_(program_) {
  program_.source = file_name;
}

ExportedProgram GraphReader::run() {
  const json& module = field(archive_.model, "graph_module", where_);
  const json& signature = field(module, "signature", where_);
  Scope scope{.graph = &field(module, "graph", where_)};
  if (!scope.graph->is_object()) throw InputError("{}: it has no graph", where_);
  if (const auto version = archive_.model.find("torch_version");
      version != archive_.model.end() && version->is_string()) {
    program_.torch_version = printable(version->get_ref<const std::string&>());
  }
  read_symbols();
  const json& specs = field(signature, "input_specs", where_);
  if (!specs.is_array()) throw InputError("{}: its inputs are no list", where_);
  for (const json& spec : specs) read_input(spec, scope);
  read_nodes(scope);
  read_outputs(signature, scope);
  program_.tensors = archive_.tensors;
  program_.sample_inputs = archive_.sample_inputs;
  if (program_.sample_inputs.size() != program_.user_inputs().size()) {
    program_.sample_inputs.clear();
  }
  return std::move(program_);
}

// Makes changes in place new values: views of what changed are taken anew, and what a changed view
// is a view of gets the new elements at their places.

namespace {

constexpr size_t kViewDepthMax = 512;
constexpr uint64_t kCopiedPartsMax = uint64_t{1} << 22;

}  // namespace

uint32_t Aliases::root(uint32_t value) const {
  const auto found = roots_.find(value);
  return found == roots_.end() ? value : found->second;
}

void Aliases::add_view(uint32_t value, uint32_t parent, Call call, int64_t part) {
  const auto above = views_.find(parent);
  const size_t depth = above == views_.end() ? 1 : above->second.depth + 1;
  if (depth > kViewDepthMax) {
    throw InputError("{}, {}: more than {} views of views", quote(program_.source), call.describe(),
                     kViewDepthMax);
  }
  take_copy(call);
  views_.emplace(value, View{parent, std::move(call), part, depth});
  roots_[value] = root(parent);
  // Taken of what the parent is now, it is as new as that.
  const auto version = versions_.find(root(parent));
  if (version != versions_.end()) states_[value] = {value, version->second};
}

// Calls are kept once more for each view: a file may not make much of few bytes so.
void Aliases::take_copy(const Call& call) {
  copied_ += 1 + call.stack_trace.size() / sizeof(Argument);
  for (const NamedArgument& argument : call.arguments) {
    const auto* list = argument.value.as<Argument::List>();
    copied_ += 1 + (list == nullptr ? 0 : list->size());
  }
  if (copied_ > kCopiedPartsMax) {
    throw InputError("{}: views and changes in place make more of it than of any model",
                     quote(program_.source));
  }
}

uint32_t Aliases::append(Call call, uint32_t like, int64_t part) {
  if (program_.nodes.size() >= kExportedNodesMax || program_.values.size() >= kExportedValuesMax) {
    throw InputError("{}: changes in place make more than {} nodes of it", quote(program_.source),
                     kExportedNodesMax);
  }
  take_copy(call);
  // Results that stand before the one that is asked for have no readers.
  std::vector<uint32_t> outputs;
  for (int64_t i = 0; i <= part; ++i) {
    outputs.push_back(static_cast<uint32_t>(program_.values.size()));
    program_.values.push_back(i == part ? program_.values[like] : ExportedValue());
  }
  const uint32_t value = outputs.back();
  program_.values[value].name += "_changed";
  call.outputs = std::move(outputs);
  call.module_path.clear();
  program_.nodes.push_back(std::move(call));
  return value;
}

uint32_t Aliases::current(uint32_t value) {
  const auto version = versions_.find(root(value));
  if (version == versions_.end()) return value;
  const auto state = states_.find(value);
  if (state != states_.end() && state->second.version == version->second) {
    return state->second.value;
  }
  const View& view = views_.at(value);  // a root is always current
  Call again = view.call;
  const uint32_t parent = current(view.parent);
  for (NamedArgument& argument : again.arguments) {
    if (argument.name == "self") argument.value = ValueRef{parent};
  }
  const uint32_t taken = append(std::move(again), value, view.part);
  states_[value] = {taken, version->second};
  return taken;
}

void Aliases::change(uint32_t value, uint32_t changed) {
  std::vector<std::pair<uint32_t, uint32_t>> now = {{value, changed}};
  for (auto view = views_.find(value); view != views_.end(); view = views_.find(value)) {
    Call scatter = view->second.call;
    scatter.view = std::exchange(scatter.op, "view_scatter");
    const uint32_t parent = view->second.parent;
    for (NamedArgument& argument : scatter.arguments) {
      if (argument.name == "self") argument.value = ValueRef{current(parent)};
    }
    scatter.arguments.push_back({"src", ValueRef{changed}});
    if (view->second.part != 0) scatter.arguments.push_back({"view_output", view->second.part});
    changed = append(std::move(scatter), parent, 0);
    value = parent;
    now.emplace_back(value, changed);
  }
  const uint64_t version = ++versions_[value];
  for (const auto& [old_value, new_value] : now) states_[old_value] = {new_value, version};
}

ExportedProgram read_graph(const Pt2Archive& archive, const std::string& file_name) {
  return GraphReader(archive, file_name).run();
}

}  // namespace arenite::convert
