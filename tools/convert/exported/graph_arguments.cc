// SPDX-License-Identifier: Apache-2.0
// The arguments of nodes, the inputs and the outputs of the graph.
#include <algorithm>
#include <limits>

#include "convert/exported/graph_reader.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"

namespace arenite::convert {

using nlohmann::json;

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

}  // namespace arenite::convert
