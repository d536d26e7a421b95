// SPDX-License-Identifier: Apache-2.0
// Builds an ExportedProgram from the graph's JSON. Every name must be defined once, before its
// first use. In-place ops become functional ones, and views of a changed tensor are recomputed.
//
//   y = x[0]; y.add_(1); return x
//   ->  y = select(x, 0); y1 = add(y, 1); x1 = view_scatter(x, y1); outputs: x1
#include "convert/exported/read/join_parts.h"
#include "convert/exported/read/pt2_archive.h"

#include <algorithm>
#include <array>
#include <limits>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// Ops whose result is a view of "self". The second list applies only if "self" is contiguous.
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
constexpr const char* kReadsNumbers =
    "the result depends on the values of the model's input, not on its shape alone: use "
    "torch.where or a mask instead";
constexpr int64_t kBoundMax = int64_t{1} << 31;  // larger bounds of an extent count as none
constexpr std::string_view kWrappers[] = {"wrap_with_set_grad_enabled", "wrap_with_autocast",
                                          "tag_activation_checkpoint", "invoke_subgraph",
                                          "hints_wrapper"};

// Kinds of graph inputs, and the field with the input's name.
struct InputRow {
  std::string_view kind;
  InputKind means;
  const char* name;
};
constexpr InputRow kInputRows[] = {
    {"user_input", InputKind::kUser, nullptr},
    {"parameter", InputKind::kParameter, "parameter_name"},
    {"buffer", InputKind::kBuffer, "buffer_name"},
    {"tensor_constant", InputKind::kConstant, "tensor_constant_name"}};

struct NumberOutput {
  std::string_view kind;
  ValueKind means;
};
constexpr NumberOutput kNumberOutputs[] = {{"as_sym_int", ValueKind::kInteger},
                                           {"as_sym_bool", ValueKind::kBool},
                                           {"as_sym_float", ValueKind::kReal}};

template <size_t kCount>
bool contains(const std::string_view (&list)[kCount], std::string_view text) {
  return std::ranges::find(list, text) != std::end(list);
}

// Synonyms, and overloads that count as separate ops.
struct SameOp {
  std::string_view op, overload;  // empty overload: any
  const char* means;
};
constexpr SameOp kSameOps[] = {{"multiply", "", "mul"},     {"subtract", "", "sub"},
                               {"divide", "", "div"},       {"true_divide", "", "div"},
                               {"max", "other", "maximum"}, {"min", "other", "minimum"}};

// Splits "torch.ops.aten.add.Tensor" into add and Tensor; "_operator.mul" is kept whole.
Call call_of(std::string target) {
  constexpr std::string_view kOps = "torch.ops.", kAten = "aten.";
  Call call{.op = std::move(target)};
  if (!call.op.starts_with(kOps)) return call;
  call.op.erase(0, kOps.size());
  const size_t last = call.op.rfind('.');
  if (!call.op.starts_with("higher_order.") && call.op.find('.') != last) {
    call.overload = call.op.substr(last + 1);
    call.op.resize(last);
  }
  if (call.op.starts_with(kAten)) call.op.erase(0, kAten.size());
  for (const SameOp& name : kSameOps) {
    const bool is_overload = name.overload.empty() || name.overload == call.overload;
    if (call.op == name.op && is_overload) call.op = name.means;
  }
  return call;
}

// Whether an op changes its first argument ("add_"). functional() returns the name of its
// functional form ("add").
bool is_in_place(const std::string& op) {
  return (op.ends_with('_') && !op.ends_with("__") && op.find('.') == std::string::npos) ||
         op == "__iand__" || op == "__ior__" || op == "__ixor__";
}

std::string functional(const std::string& op) {
  if (op.starts_with("__i")) return "__" + op.substr(3);
  if (op == "_index_put_impl_") return "index_put";
  return op.substr(0, op.size() - 1);
}

// ---- in-place changes become new values ----

constexpr size_t kViewDepthMax = 512;
constexpr uint64_t kCopiedPartsMax = uint64_t{1} << 22;

// Tracks which values share elements, so that an in-place change shows in all aliases: views are
// recomputed, and the base of a changed view gets the new elements by view_scatter. Callers name
// values as the file does; current() maps each to its value after changes.
class Aliases {
 public:
  explicit Aliases(ExportedProgram& program) : program_(program) {}

  // Records that `value`, output `part` of `call`, is a view of `parent`.
  void add_view(uint32_t value, uint32_t parent, Call call, int64_t part) {
    const auto above = views_.find(parent);
    const size_t depth = above == views_.end() ? 1 : above->second.depth + 1;
    if (depth > kViewDepthMax) {
      throw InputError("{}, {}: found more than {} nested views: clone a tensor between them",
                       quote(program_.source), call.describe(), kViewDepthMax);
    }
    take_copy(call);
    views_.emplace(value, View{parent, std::move(call), part, depth});
    roots_[value] = root(parent);
    // A view of a changed parent is out of date, too.
    const auto version = versions_.find(root(parent));
    if (version != versions_.end()) states_[value] = {value, version->second};
  }

  // Returns the current value of `value`. Appends nodes if a view has to be recomputed.
  uint32_t current(uint32_t value) {
    const auto version = versions_.find(root(value));
    if (version == versions_.end()) return value;
    const auto state = states_.find(value);
    if (state != states_.end() && state->second.version == version->second) {
      return state->second.value;
    }
    const View& view = views_.at(value);  // roots are always current
    Call again = view.call;
    const uint32_t parent = current(view.parent);
    for (NamedArgument& argument : again.arguments) {
      if (argument.name == "self") argument.value = ValueRef{parent};
    }
    const uint32_t taken = append(std::move(again), value, view.part);
    states_[value] = {taken, version->second};
    return taken;
  }

  // Replaces `value` by `changed`, and updates everything that shares its elements.
  void change(uint32_t value, uint32_t changed) {
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

 private:
  struct View {
    uint32_t parent;
    Call call;
    int64_t part;
    size_t depth;  // of nested views
  };
  struct State {
    uint32_t value;
    uint64_t version;
  };

  uint32_t root(uint32_t value) const {
    const auto found = roots_.find(value);
    return found == roots_.end() ? value : found->second;
  }

  // Limits how many copies of calls, one for each view, a small file can demand.
  void take_copy(const Call& call) {
    copied_ += 1 + call.stack_trace.size() / sizeof(Argument);
    for (const NamedArgument& argument : call.arguments) {
      const auto* list = argument.value.as<Argument::List>();
      copied_ += 1 + (list == nullptr ? 0 : list->size());
    }
    if (copied_ > kCopiedPartsMax) {
      throw InputError(
          "{}: views and changes in place expand beyond any model: write results to new tensors",
          quote(program_.source));
    }
  }

  uint32_t append(Call call, uint32_t like, int64_t part) {
    if (program_.nodes.size() >= kExportedNodesMax ||
        program_.values.size() >= kExportedValuesMax) {
      throw InputError(
          "{}: changes in place expand to more than {} nodes: write results to new tensors",
          quote(program_.source), kExportedNodesMax);
    }
    take_copy(call);
    // Outputs before the requested one have no readers.
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

  ExportedProgram& program_;
  std::map<uint32_t, View> views_;
  std::map<uint32_t, uint32_t> roots_;     // of each view
  uint64_t copied_ = 0;                    // parts of copied calls
  std::map<uint32_t, uint64_t> versions_;  // of changed roots
  std::map<uint32_t, State> states_;
};

// ---- the graph ----

class GraphReader {
 public:
  // REQUIRES: the archive outlives the reader.
  GraphReader(const Pt2Archive& archive, const std::string& file_name)
      : archive_(archive), where_(quote(file_name)), aliases_(program_) {
    program_.source = file_name;
  }

  ExportedProgram run() {
    const json& module = field(archive_.model, "graph_module", where_);
    const json& signature = field(module, "signature", where_);
    Scope scope{.graph = &field(module, "graph", where_)};
    if (!scope.graph->is_object()) refuse("the graph is missing: the file is damaged");
    read_symbols();
    for (const json& spec : list(signature, "input_specs")) read_input(spec, scope);
    read_guards();
    read_nodes(scope);
    for (const json& spec : list(signature, "output_specs")) {
      if (only_field(spec).key() != "user_output") continue;  // a mutated buffer
      read_flattened(field(spec.begin().value(), "arg", where_), scope, program_.outputs);
    }
    if (has_items_) drop_unread();
    join_parts(program_);
    program_.tensors = archive_.tensors;
    program_.sample_inputs = archive_.sample_inputs;
    if (program_.sample_inputs.size() != program_.user_inputs().size()) {
      program_.sample_inputs.clear();
    }
    return std::move(program_);
  }

 private:
  struct Scope {
    const json* graph = nullptr;
    std::map<std::string, Argument, std::less<>> names{};
    size_t depth = 0;
  };
  struct Output {
    std::string name;
    ValueKind kind;
  };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw InputError("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] void refuse_call(const Call& call, const char* why) const {
    throw InputError("{}, {}: {}", where_, call.describe(), why);
  }

  const json& list(const json& object, const char* key) const {
    const json& found = field(object, key, where_);
    if (!found.is_array()) refuse("field '{}': expected a list", key);
    return found;
  }

  std::string text_of(const json& object, const char* key) const {
    return text(field(object, key, where_), where_);
  }

  static std::string text_or_empty(const json& object, const char* key) {
    const json* found = find_field(object, key);
    return found != nullptr && found->is_string() ? found->get<std::string>() : "";
  }

  // Returns the only field of an object; its key names the kind.
  json::const_iterator only_field(const json& object) const {
    if (!object.is_object() || object.size() != 1) {
      refuse("found {}: expected an object of one field", show(object));
    }
    return object.begin();
  }

  void read_symbols() {
    const json* ranges = find_field(archive_.model, "range_constraints");
    if (ranges == nullptr || !ranges->is_object()) return;
    for (const auto& entry : ranges->items()) {
      const auto bound = [&](const char* key) -> std::optional<int64_t> {
        const json* found = find_field(entry.value(), key);
        if (found == nullptr || found->is_null()) return std::nullopt;
        return integer(*found, fmt::format("{}, {}", where_, quote(entry.key())));
      };
      SymbolRange& added = program_.symbols[entry.key()];
      added = {.min = bound("min_val").value_or(0), .max = bound("max_val")};
      if (added.max > kBoundMax) added.max.reset();
    }
  }

  void read_guards() {
    const json* guards = find_field(archive_.model, "guards_code");
    if (guards == nullptr || !guards->is_array()) return;
    for (const json& guard : *guards) {
      program_.guards.push_back(read_guard(text(guard, where_), program_));
    }
  }

  void read_input(const json& spec, Scope& scope) {
    const std::string& kind = only_field(spec).key();
    const json& described = spec.begin().value();
    if (kind == "constant_input" || kind == "token") return;
    const json* argument = &field(described, "arg", where_);
    const auto* row = std::ranges::find(kInputRows, kind, &InputRow::kind);
    if (row == std::end(kInputRows))
      refuse("found an input of kind {}: expected tensors only", quote(kind));
    ExportedInput input{.kind = row->means};
    const Pt2Tensor* stored = nullptr;
    if (input.kind != InputKind::kUser) {
      input.name = text_of(described, row->name);
      const auto tensor = archive_.by_name.find(input.name);
      if (tensor == archive_.by_name.end()) {
        refuse("the archive has no tensor {}: the file is damaged", quote(input.name));
      }
      stored = &tensor->second;
      input.tensor = stored->index;
      input.storage = stored->storage;
    } else if (const json* tensor = find_field(*argument, "as_tensor")) {
      argument = tensor;
      input.name = text_of(*tensor, "name");
    } else if (const json* number = find_field(*argument, "as_sym_int");
               number != nullptr && find_field(*number, "as_name") != nullptr) {
      refuse("found an input of the model that is a number: expected tensors only");
    } else {
      return;  // a constant
    }
    const std::string name = text_of(*argument, "name");
    input.value = add_value(name, ValueKind::kTensor, scope);
    depends_[input.value] = stored == nullptr;
    // The stored type and shape override those of the graph.
    if (stored != nullptr) {
      ExportedValue& value = program_.values[input.value];
      value.type = stored->type;
      value.sizes.clear();
      for (const int64_t size : stored->shape) value.sizes.push_back({.size = size});
    }
    define(scope, name, ValueRef{input.value});
    program_.inputs.push_back(std::move(input));
  }

  // Appends one argument, or all items of a list.
  void read_flattened(const json& argument, const Scope& scope, std::vector<Argument>& to) {
    Argument value = read_argument(argument, scope);
    if (const auto* items = value.as<Argument::List>()) {
      to.insert(to.end(), items->begin(), items->end());
    } else {
      to.push_back(std::move(value));
    }
  }

  void read_nodes(Scope& scope) {
    for (const json& node : list(*scope.graph, "nodes")) {
      if (program_.nodes.size() >= kExportedNodesMax) {
        refuse("found more than {} nodes: no model has as many", kExportedNodesMax);
      }
      read_node(node, scope);
    }
  }

  void read_node(const json& node, Scope& scope) {
    Call call = call_of(text_of(node, "target"));
    if (const json* metadata = find_field(node, "metadata")) {
      call.stack_trace = text_or_empty(*metadata, "stack_trace");
      call.module_path = innermost_module(text_or_empty(*metadata, "nn_module_stack"));
    }
    if (call.op.starts_with("higher_order.")) return inline_subgraph(call, node, scope);
    for (const json& input : list(node, "inputs")) {
      call.arguments.push_back(
          {text_of(input, "name"), read_argument(field(input, "arg", where_), scope)});
    }
    const bool depends = depends_on_input(call);
    const bool is_item = call.op == "item" || call.op == "_local_scalar_dense";
    if (contains(kDataDependent, call.op)) refuse_call(call, kReadsNumbers);
    if (is_item && depends) has_items_ = true;
    const std::vector<Output> outputs = outputs_of(node);
    if (is_in_place(call.op)) return add_change(std::move(call), outputs, scope);
    for (const Output& output : outputs) {
      const uint32_t value = add_value(output.name, output.kind, scope);
      depends_[value] = depends;
      call.outputs.push_back(value);
      if (!output.name.empty()) define(scope, output.name, ValueRef{value});
    }
    program_.nodes.push_back(std::move(call));
    note_view(program_.nodes.back());
  }

  // Drops nodes that no output depends on, such as assertions about input values. Refuses item() of
  // an input value if an output depends on it.
  void drop_unread() {
    std::vector<bool> is_read(program_.values.size(), false);
    const auto read = [&](ValueRef ref) { is_read[ref.value] = true; };
    for (const Argument& output : program_.outputs) for_each<ValueRef>(output, read);
    std::vector<Call> kept;
    for (auto node = program_.nodes.rbegin(); node != program_.nodes.rend(); ++node) {
      const auto is_needed = [&](uint32_t value) { return is_read[value]; };
      if (std::ranges::none_of(node->outputs, is_needed)) continue;
      const bool is_item = node->op == "item" || node->op == "_local_scalar_dense";
      if (is_item && depends_[node->outputs[0]]) refuse_call(*node, kReadsNumbers);
      for_each<ValueRef>(*node, read);
      kept.push_back(std::move(*node));
    }
    program_.nodes.assign(std::make_move_iterator(kept.rbegin()),
                          std::make_move_iterator(kept.rend()));
  }

  // Inlines a subgraph that only sets a mode, such as torch.no_grad.
  void inline_subgraph(const Call& call, const json& node, Scope& scope) {
    const json* graph = nullptr;
    std::vector<Argument> arguments;
    for (const json& input : list(node, "inputs")) {
      const json& argument = field(input, "arg", where_);
      if (const json* found = find_field(argument, "as_graph")) {
        graph = &field(*found, "graph", where_);
        arguments.clear();
      } else if (graph != nullptr) {
        arguments.push_back(read_argument(argument, scope));
      }
    }
    if (!contains(kWrappers, call.op.substr(call.op.find('.') + 1)) || graph == nullptr) {
      refuse_call(call, "data-dependent control flow is not supported: write the model without it");
    }
    if (scope.depth == kExportedSubgraphDepthMax) {
      refuse("found subgraphs nested more than {} deep", scope.depth);
    }
    Scope inner{.graph = graph, .depth = scope.depth + 1};
    const json& parameters = list(*graph, "inputs");
    if (arguments.size() < parameters.size())
      refuse_call(call, "the subgraph takes other arguments than it is given: the file is damaged");
    const size_t first = arguments.size() - parameters.size();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const json& parameter = *only_field(parameters[i]);
      const bool is_tensor = parameters[i].contains("as_tensor");
      const json* name = find_field(parameter, is_tensor ? "name" : "as_name");
      if (name == nullptr) continue;  // a constant
      define(inner, text(*name, where_), original(arguments[first + i]));
    }
    read_nodes(inner);
    const std::vector<Output> outputs = outputs_of(node);
    std::vector<Argument> given;
    for (const json& result : list(*graph, "outputs")) read_flattened(result, inner, given);
    if (outputs.size() != given.size())
      refuse_call(call, "the subgraph's outputs are not those that are read: the file is damaged");
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].name.empty()) define(scope, outputs[i].name, original(given[i]));
    }
  }

  void add_change(Call call, const std::vector<Output>& outputs, Scope& scope) {
    const ValueRef* self =
        call.arguments.empty() ? nullptr : call.arguments[0].value.as<ValueRef>();
    if (self == nullptr || outputs.size() > 1)
      refuse_call(call, "it changes no tensor: expected one as its first argument");
    // The op reads the current value of `self`; the change applies to the value that the name was
    // defined as.
    const uint32_t named_value = original(self->value);
    call.op = functional(call.op);
    if (call.op.ends_with("dropout")) call.arguments[0].name = "input";  // in place: "self"
    call.module_path.clear();  // it is where its operand is computed
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
    if (!outputs.empty() && !outputs[0].name.empty()) {
      define(scope, outputs[0].name, ValueRef{named_value});
    }
  }

  void note_view(const Call& node) {
    const bool is_view = contains(kViews, node.op) && node.overload != "dtype";
    const Argument* self = node.find("self");
    if (self == nullptr || self->as<ValueRef>() == nullptr) return;
    const uint32_t read = self->as<ValueRef>()->value;
    const bool is_same_type = (node.op == "to" || node.op == "type_as") && !node.outputs.empty() &&
                              program_.values[node.outputs[0]].type == program_.values[read].type &&
                              !node.find("copy");
    const bool is_in_order = contains(kViewsOfContiguous, node.op) && is_contiguous_[read];
    if (!is_view && !is_in_order && !is_same_type) return;
    const uint32_t parent = original(read);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      aliases_.add_view(node.outputs[i], parent, node, static_cast<int64_t>(i));
    }
  }

  bool depends_on_input(const Call& call) const {
    if (call.op == "sym_size" || call.op == "sym_numel") return false;
    bool depends = false;
    for_each<ValueRef>(call, [&](ValueRef ref) { depends = depends || depends_[ref.value]; });
    return depends;
  }

  uint32_t add_value(const std::string& name, ValueKind kind, const Scope& scope) {
    ExportedValue value{.name = name, .kind = kind};
    bool is_contiguous = true;
    const json* metas = find_field(*scope.graph, "tensor_values");
    const json* meta = metas == nullptr ? nullptr : find_field(*metas, name);
    if (kind == ValueKind::kTensor && meta != nullptr) {
      const std::string where = fmt::format("{}, tensor {}", where_, quote(name));
      value.type = element_type(field(*meta, "dtype", where), where);
      const json& sizes = field(*meta, "sizes", where);
      const json& strides = field(*meta, "strides", where);
      if (!sizes.is_array() || sizes.size() > kExportedRankMax) {
        throw InputError("{}: found {}: expected its sizes", where, show(sizes));
      }
      for (const json& size : sizes) value.sizes.push_back(extent(size, where));
      is_contiguous = sizes.empty() || (strides.is_array() && strides.size() == sizes.size());
      int64_t expected = 1;
      for (size_t d = value.sizes.size(); d > 0; --d) {
        const int64_t size = value.sizes[d - 1].size;
        is_contiguous =
            is_contiguous && (size == 1 || extent(strides[d - 1], where).size == expected);
        if (__builtin_mul_overflow(expected, std::max<int64_t>(size, 1), &expected) ||
            expected > kExportedDeclaredMax) {
          throw InputError("{}: its sizes exceed those of any tensor", where);
        }
      }
    }
    program_.values.push_back(std::move(value));
    grow();
    is_contiguous_.back() = is_contiguous;
    return static_cast<uint32_t>(program_.values.size() - 1);
  }

  static Extent extent(const json& size, const std::string& where) {
    if (const json* fixed = find_field(size, "as_int")) {
      const int64_t number = integer(*fixed, where);
      if (number < 0) throw InputError("{}: found size {}: expected at least 0", where, number);
      return {.size = number};
    }
    const json& expression = field(size, "as_expr", where);
    Extent found{.symbol = text(field(expression, "expr_str", where), where)};
    constexpr std::string_view kSymbol = "Symbol('";
    const size_t end = found.symbol.find('\'', kSymbol.size());
    if (found.symbol.starts_with(kSymbol) && end != std::string::npos &&
        found.symbol.find("Symbol(", 1) == std::string::npos) {
      found.symbol = found.symbol.substr(kSymbol.size(), end - kSymbol.size());
    }
    const json* hint = find_field(expression, "hint");
    const json* number = hint == nullptr ? nullptr : find_field(*hint, "as_int");
    if (number != nullptr) found.size = std::max<int64_t>(0, integer(*number, where));
    return found;
  }

  // Resizes the lists that are indexed by value.
  void grow() {
    depends_.resize(program_.values.size(), false);
    is_contiguous_.resize(program_.values.size(), false);
  }

  void define(Scope& scope, const std::string& name, Argument value) const {
    if (name.empty() || !scope.names.emplace(name, std::move(value)).second) {
      refuse("name {} is empty, or defined twice: the file is damaged", quote(name));
    }
  }

  std::vector<Output> outputs_of(const json& node) const {
    std::vector<Output> outputs;
    for (const json& output : list(node, "outputs")) {
      const std::string& kind = only_field(output).key();
      const json& value = output.begin().value();
      const auto* number = std::ranges::find(kNumberOutputs, kind, &NumberOutput::kind);
      if (kind == "as_tensor") {
        outputs.push_back({text_of(value, "name"), ValueKind::kTensor});
      } else if (kind == "as_tensors") {
        for (const json& item : list(output, "as_tensors")) {
          outputs.push_back({text_of(item, "name"), ValueKind::kTensor});
        }
      } else if (number != std::end(kNumberOutputs)) {
        outputs.push_back({text_of(value, "as_name"), number->means});
      } else if (kind == "as_none") {
        outputs.push_back({"", ValueKind::kTensor});
      } else {
        refuse("found output {}: expected tensors or numbers", show(output));
      }
    }
    return outputs;
  }

  static std::string innermost_module(const std::string& stack) {
    const size_t last = stack.rfind(';');
    const std::string entry = last == std::string::npos ? stack : stack.substr(last + 1);
    const size_t first = entry.find(',');
    const size_t second = first == std::string::npos ? first : entry.find(',', first + 1);
    if (second == std::string::npos || entry.starts_with("_empty")) return "";
    return entry.substr(first + 1, second - first - 1);
  }

  Argument named(const std::string& name, const Scope& scope) {
    const auto found = scope.names.find(name);
    if (found == scope.names.end()) {
      refuse("{} is read before it is computed: the file is damaged", quote(name));
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

  uint32_t original(uint32_t value) const {
    const auto found = originals_.find(value);
    return found == originals_.end() ? value : found->second;
  }

  // Returns the value that a name was defined as, before changes.
  Argument original(const Argument& argument) const {
    const auto* reference = argument.as<ValueRef>();
    return reference == nullptr ? argument : Argument(ValueRef{original(reference->value)});
  }

  // JSON writes infinities and NaN as strings.
  double real(const json& value) const {
    if (value.is_number()) return value.get<double>();
    if (value == "Infinity") return std::numeric_limits<double>::infinity();
    if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
    refuse("found {}: expected a number", show(value));
  }

  bool flag(const json& value) const {
    if (!value.is_boolean()) refuse("found {}: expected a bool", show(value));
    return value.get<bool>();
  }

  // Reads an argument or an item of a list; its key names its kind.
  Argument read_one(const std::string& kind, const json& value, const Scope& scope) {
    if (kind == "tensor") return named(text_of(value, "name"), scope);
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
      return find_field(value, "as_none") != nullptr ? Argument() : read_argument(value, scope);
    }
    if (kind == "sym_int" || kind == "sym_float" || kind == "sym_bool") {
      const json* name = find_field(value, "as_name");
      return name != nullptr ? named(text(*name, where_), scope) : read_argument(value, scope);
    }
    refuse("arguments of kind {} are not supported", quote(kind));
  }

  Argument read_argument(const json& argument, const Scope& scope) {
    constexpr std::string_view kPrefix = "as_";
    const std::string& key = only_field(argument).key();
    if (!key.starts_with(kPrefix)) refuse("found {}: expected an argument", show(argument));
    std::string kind = key.substr(kPrefix.size());
    if (!kind.ends_with('s') || kind.ends_with("lists")) {
      return read_one(kind, argument.begin().value(), scope);
    }
    kind.pop_back();
    Argument::List items;
    for (const json& item : list(argument, key.c_str())) {
      items.push_back(read_one(kind, item, scope));
    }
    return items;
  }

  const Pt2Archive& archive_;
  std::string where_;  // for messages
  ExportedProgram program_;
  Aliases aliases_;
  std::map<uint32_t, uint32_t> originals_;  // current value to the one that the file names
  std::vector<bool> depends_;               // by value: depends on the user's inputs
  std::vector<bool> is_contiguous_;         // by value, when traced
  bool has_items_ = false;                  // item() of the user's inputs occurs
};

}  // namespace

ExportedProgram read_graph(const Pt2Archive& archive, const std::string& file_name) {
  return GraphReader(archive, file_name).run();
}

}  // namespace arenite::convert
