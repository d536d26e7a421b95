// SPDX-License-Identifier: Apache-2.0
// Moves nodes instead of copying them, and copies only changed nodes, so that restoring a program
// is fast.
#include "fuzz/program_changes.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace arenite::fuzz {
namespace {

using convert::Pt2Archive;

constexpr size_t kNodesMax = 80;  // of a changed one

constexpr int64_t kIntegers[] = {INT64_MIN, INT64_MAX, INT64_MAX - 1, INT32_MIN, INT32_MAX, -1, 0,
                                 1,         65,        65536};
constexpr int kBitsMax = 62;  // and each power of two up to this
const json kReals[] = {0.0,   -0.0, 1.0,    -1.0,   0.5,        2.0,         -2.0,  1e-45,
                       1e-30, 1e30, 3.5e38, -1e308, "Infinity", "-Infinity", "NaN", 1e-320};

template <typename T, size_t kCount>
const T& of(const T (&list)[kCount], int16_t number) {
  return list[static_cast<uint16_t>(number) % kCount];
}

int64_t other_integer(int64_t old, uint8_t choice, int16_t number) {
  const auto wrapped = [](uint64_t value) { return static_cast<int64_t>(value); };
  const auto unsigned_old = static_cast<uint64_t>(old);
  switch (choice % 8) {
    case 0:
      return wrapped(unsigned_old + 1);
    case 1:
      return wrapped(unsigned_old - 1);
    case 2:
      return wrapped(0 - unsigned_old);
    case 3:
      return wrapped(unsigned_old * 2);
    case 4:
      return old / 2;
    case 5:
      return number % 2 == 0 ? of(kIntegers, number / 2)
                             : int64_t{1} << static_cast<uint16_t>(number) % kBitsMax;
    case 6:
      return number % 17;
    default:
      return number;
  }
}

json& graph_of(Pt2Archive& archive) { return archive.model["graph_module"]["graph"]; }

}  // namespace

ChangedProgram::ChangedProgram(Pt2Archive& program, const SeedPrograms& seeds)
    : program_(program),
      seeds_(seeds),
      graph_(graph_of(program)),
      signature_(program.model["graph_module"]["signature"]),
      nodes_(graph_["nodes"].get_ref<Items&>()),
      nodes_before_(nodes_.size()) {
  for (size_t i = 0; i < nodes_.size(); ++i) origins_.push_back(i);
}

ChangedProgram::~ChangedProgram() {
  Items before(nodes_before_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (origins_[i] != SIZE_MAX) before[origins_[i]] = std::move(nodes_[i]);
  }
  for (auto& [origin, old] : nodes_as_they_were_) before[origin] = std::move(old);
  nodes_ = std::move(before);
  for (auto& [place, old] : parts_) *place = std::move(old);
  for (const std::string& name : described_) graph_["tensor_values"].erase(name);
}

void ChangedProgram::end_after(size_t count) {
  if (count == 0 || count >= nodes_.size()) return;
  const json& outputs = nodes_[count - 1]["outputs"];
  Items& specs = part(signature_["output_specs"]).get_ref<Items&>();
  if (outputs.size() != 1 || !outputs[0].contains("as_tensor") || specs.empty()) return;
  specs.erase(specs.begin() + 1, specs.end());
  specs[0] = {{"user_output", {{"arg", outputs[0]}}}};
  for (size_t i = count; i < nodes_.size(); ++i) {
    nodes_as_they_were_[origins_[i]] = std::move(nodes_[i]);
  }
  nodes_.resize(count);
  origins_.resize(count);
}

void ChangedProgram::apply(const ProgramChange& change) {
  using Change = void (ChangedProgram::*)(const ProgramChange&);
  // Those that stand here several times are made more often.
  constexpr Change kChanges[] = {&ChangedProgram::change_argument, &ChangedProgram::change_argument,
                                 &ChangedProgram::change_argument, &ChangedProgram::change_argument,
                                 &ChangedProgram::insert_node,     &ChangedProgram::insert_node,
                                 &ChangedProgram::insert_node,     &ChangedProgram::insert_node,
                                 &ChangedProgram::remove_node,     &ChangedProgram::change_target,
                                 &ChangedProgram::swap_arguments,  &ChangedProgram::drop_argument,
                                 &ChangedProgram::change_sizes,    &ChangedProgram::change_input,
                                 &ChangedProgram::change_output,   &ChangedProgram::change_symbol};
  if (nodes_.empty() || nodes_.size() > kNodesMax) return;
  (this->*kChanges[change.kind % std::size(kChanges)])(change);
}

json& ChangedProgram::node(size_t index) {
  const size_t origin = origins_[index];
  if (origin != SIZE_MAX) nodes_as_they_were_.try_emplace(origin, nodes_[index]);
  return nodes_[index];
}

json& ChangedProgram::part(json& whole) {
  const bool is_kept = std::ranges::any_of(parts_, [&](auto& old) { return old.first == &whole; });
  if (!is_kept) parts_.emplace_back(&whole, whole);
  return whole;
}

std::string ChangedProgram::new_name() { return "new_" + std::to_string(names_++); }

// Values without sizes of their own are scalars.
void ChangedProgram::describe_as(const std::string& name, const std::string& like) {
  json& values = graph_["tensor_values"];
  const auto found = values.find(like);
  if (found == values.end()) return;
  json copy = *found;
  values[name] = std::move(copy);
  described_.push_back(name);
}

std::vector<ChangedProgram::Leaf> ChangedProgram::leaves_of(json& node) {
  std::vector<Leaf> leaves;
  const std::function<void(const std::string&, json&)> add = [&](std::string kind, json& value) {
    kind.erase(0, 3);  // "as_"
    const bool is_list = value.is_array();
    leaves.push_back({is_list ? "list" : kind, &value});
    if (!is_list) return;
    kind.pop_back();
    for (json& item : value) {
      const bool has_key = item.is_object() && item.size() == 1 && kind != "tensor";
      json& inner = has_key ? item.begin().value() : item;
      leaves.push_back({has_key ? item.begin().key().substr(3) : kind, &inner});
    }
  };
  for (json& input : node["inputs"]) {
    json& argument = input["arg"];
    if (argument.is_object() && argument.size() == 1) {
      add(argument.begin().key(), argument.begin().value());
    }
  }
  return leaves;
}

std::string ChangedProgram::earlier(size_t node, uint32_t number) {
  const json& specs = signature_["input_specs"];
  const size_t count = specs.size() + node;
  const size_t index = number % count;
  // Prefers outputs of nodes, because most values of a small program are inputs.
  if (index >= specs.size() || number % 4 != 0) {
    const json& outputs =
        nodes_[index >= specs.size() ? index - specs.size() : number % std::max<size_t>(1, node)]
              ["outputs"];
    std::vector<std::string> names;
    for (const json& output : outputs) {
      if (output.contains("as_tensor")) names.push_back(output["as_tensor"]["name"]);
      if (!output.contains("as_tensors")) continue;
      for (const json& item : output["as_tensors"]) names.push_back(item["name"]);
    }
    if (!names.empty() && node != 0) return names[number / 4 % names.size()];
  }
  const json& spec = specs[index % specs.size()];
  const json& argument = spec.begin().value()["arg"];
  const json& named = argument.contains("as_tensor") ? argument["as_tensor"] : argument;
  return named.value("name", std::string("none"));
}

void ChangedProgram::change_leaf(const Leaf& leaf, size_t node, const ProgramChange& change) {
  json& value = *leaf.value;
  const auto number = static_cast<uint16_t>(change.number);
  if (leaf.kind == "list") {
    Items& items = value.get_ref<Items&>();
    if (items.empty()) return;
    const size_t at = number % items.size();
    const size_t other = change.choice / 4u % items.size();
    json copy = items[at];
    switch (change.choice % 4) {
      case 0:
        items.erase(items.begin() + static_cast<ptrdiff_t>(at));
        return;
      case 1:
        items.insert(items.begin() + static_cast<ptrdiff_t>(other), std::move(copy));
        return;
      case 2:
        std::swap(items[at], items[other]);
        return;
      default:
        items.insert(items.end(), std::min<size_t>(number % 70, 66), copy);
    }
  } else if (leaf.kind == "int" && value.is_number_integer()) {
    value = other_integer(value.get<int64_t>(), change.choice, change.number);
  } else if (leaf.kind == "float") {
    value = of(kReals, change.number);
  } else if (leaf.kind == "bool") {
    value = !value.get<bool>();
  } else if (leaf.kind == "tensor" && value.contains("name")) {
    value["name"] = earlier(node, number);
  } else if (leaf.kind == "scalar_type") {
    value = 1 + number % 13;
  } else if (leaf.kind == "sym_int") {
    value = json{{"as_int", other_integer(7, change.choice, change.number)}};
  } else if (leaf.kind == "name") {  // of a symbolic number in a list
    value = value.get<std::string>() == "sym_size_int" ? "sym_size_int_1" : "sym_size_int";
  } else if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    std::string text = value;
    const size_t at = number % text.size();
    const size_t other = change.choice / 4u % text.size();
    if (change.choice % 4 == 0) text.erase(at, 1);
    if (change.choice % 4 == 1) text.insert(at, 1, text[other]);
    if (change.choice % 4 == 2) std::swap(text[at], text[other]);
    if (change.choice % 4 == 3) text[at] = static_cast<char>(' ' + number % 95);
    value = std::move(text);
  }
}

void ChangedProgram::change_argument(const ProgramChange& change) {
  const size_t at = change.node % nodes_.size();
  const std::vector<Leaf> leaves = leaves_of(node(at));
  if (!leaves.empty()) change_leaf(leaves[change.place % leaves.size()], at, change);
}

// Consumers of the old value read the new node's result.
void ChangedProgram::insert_node(const ProgramChange& change) {
  const size_t after = change.node % nodes_.size();
  json& outputs = nodes_[after]["outputs"];
  if (outputs.empty() || !outputs[0].contains("as_tensor")) return;
  const auto number = static_cast<uint16_t>(change.number);
  json added = change.choice % 4 == 0 ? nodes_[number % nodes_.size()]
                                      : seeds_.call(number, change.choice / 4u);
  const std::string before = new_name();
  const std::string name = outputs[0]["as_tensor"]["name"];
  node(after)["outputs"][0]["as_tensor"]["name"] = before;
  describe_as(before, name);
  uint32_t tensors = 0;
  for (const Leaf& leaf : leaves_of(added)) {
    if (leaf.kind == "tensor" && leaf.value->contains("name")) {
      (*leaf.value)["name"] = tensors == 0 ? before : earlier(after, change.place + 7919 * tensors);
      ++tensors;
    }
  }
  size_t given = 0;
  const auto give = [&](json& output) {
    if (!output.is_object() || !output.contains("name")) return;
    const bool is_read = given++ == 0;
    output["name"] = is_read ? name : new_name();
  };
  for (json& output : added["outputs"]) {
    if (!output.is_object() || output.empty()) continue;
    json& value = output.begin().value();
    if (value.is_array()) {
      for (json& item : value) give(item);
    } else {
      give(value);
    }
  }
  nodes_.insert(nodes_.begin() + static_cast<ptrdiff_t>(after) + 1, std::move(added));
  origins_.insert(origins_.begin() + static_cast<ptrdiff_t>(after) + 1, SIZE_MAX);
}

// Consumers of the removed node's result read its first argument.
void ChangedProgram::remove_node(const ProgramChange& change) {
  json& changed = node(change.node % nodes_.size());
  for (const Leaf& leaf : leaves_of(changed)) {
    if (leaf.kind != "tensor") continue;
    json self = {{"name", "self"}, {"arg", {{"as_tensor", *leaf.value}}}, {"kind", 1}};
    changed["inputs"] = json::array({std::move(self)});
    changed["target"] = "torch.ops.aten.clone.default";
    return;
  }
}

void ChangedProgram::change_target(const ProgramChange& change) {
  node(change.node % nodes_.size())["target"] = seeds_.target(static_cast<uint16_t>(change.number));
}

void ChangedProgram::swap_arguments(const ProgramChange& change) {
  json& changed = node(change.node % nodes_.size());
  Items& inputs = changed["inputs"].get_ref<Items&>();
  if (inputs.size() < 2) return;
  json& first = inputs[change.place % inputs.size()];
  json& second = inputs[(change.place + 1u) % inputs.size()];
  std::swap(first["arg"], second["arg"]);
}

void ChangedProgram::drop_argument(const ProgramChange& change) {
  json& changed = node(change.node % nodes_.size());
  Items& inputs = changed["inputs"].get_ref<Items&>();
  if (inputs.empty()) return;
  const auto at = static_cast<ptrdiff_t>(change.place % inputs.size());
  if (change.choice % 2 == 0) {
    inputs.erase(inputs.begin() + at);
    return;
  }
  // Or one that another op is called with is given besides.
  const json& call = seeds_.call(static_cast<uint16_t>(change.number), change.place);
  for (const json& input : call["inputs"]) {
    if (input["arg"].contains("as_tensor") || input["arg"].contains("as_tensors")) continue;
    inputs.insert(inputs.begin() + at, input);
    return;
  }
}

// Changes a traced value's metadata: the size of a dimension, a symbol, the number of dimensions,
// or a type.
void ChangedProgram::change_sizes(const ProgramChange& change) {
  json& values = graph_["tensor_values"];
  const json& specs = signature_["input_specs"];
  const std::string name =
      change.choice % 2 == 0
          ? earlier(nodes_.size(), change.node)
          : specs[specs.size() - 1 - change.node % std::min<size_t>(specs.size(), 4)]
                .begin()
                .value()["arg"]
                .value("/as_tensor/name"_json_pointer, std::string("none"));
  const auto found = values.find(name);
  if (found == values.end()) return;
  json& value = part(*found);
  Items& sizes = value["sizes"].get_ref<Items&>();
  const auto number = static_cast<uint16_t>(change.number);
  if (sizes.empty() || change.choice % 8 == 7) {
    value["dtype"] = 1 + number % 13;
    return;
  }
  const size_t at = change.place % sizes.size();
  json size = sizes[at];
  if (change.choice / 2 % 8 == 7) {
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(at));
  } else if (change.choice / 2 % 8 == 6) {
    sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(at), size);
  } else if (size.contains("as_int")) {
    sizes[at]["as_int"] = other_integer(size["as_int"], change.choice / 16, change.number);
  } else if (change.choice / 16 % 2 == 0) {
    sizes[at] = {{"as_int", number % 16}};
  } else {
    std::string text = size["as_expr"]["expr_str"];
    constexpr const char* kOuter[] = {"Add", "Mul", "Pow", "Mod", "FloorDiv", "Max", "Min"};
    const int64_t operand = change.choice / 32 % 2 == 0
                                ? change.place % 8
                                : of(kIntegers, static_cast<int16_t>(change.place));
    sizes[at]["as_expr"]["expr_str"] = std::string(of(kOuter, change.number)) + "(" + text +
                                       ", Integer(" + std::to_string(operand) + "))";
  }
}

// Other weights under the same name, mostly of another shape; seldom another kind of input.
void ChangedProgram::change_input(const ProgramChange& change) {
  Items& specs = part(signature_["input_specs"]).get_ref<Items&>();
  if (specs.empty()) return;
  const auto number = static_cast<uint16_t>(change.number);
  const size_t at = change.node % specs.size();
  if (change.choice % 8 == 0) {
    std::swap(specs[at], specs[change.place % specs.size()]);
    return;
  }
  const std::string kind = specs[at].begin().key();
  if (kind == "user_input" || program_.by_name.empty()) return;
  json& spec = specs[at].begin().value();
  auto other = program_.by_name.begin();
  std::advance(other, number % program_.by_name.size());
  for (auto& [key, value] : spec.items()) {
    if (key.ends_with("_name")) value = other->first;
  }
}

void ChangedProgram::change_output(const ProgramChange& change) {
  Items& specs = part(signature_["output_specs"]).get_ref<Items&>();
  if (specs.empty()) return;
  const size_t at = change.place % specs.size();
  json& spec = specs[at].begin().value();
  if (!spec.contains("arg") || !spec["arg"].contains("as_tensor")) return;
  if (change.choice % 4 == 0) {
    json copy = specs[at];
    specs.insert(specs.begin(), std::move(copy));
  }
  specs[at].begin().value()["arg"]["as_tensor"]["name"] =
      earlier(nodes_.size(), change.node + uint32_t{4} * static_cast<uint16_t>(change.number));
}

void ChangedProgram::change_symbol(const ProgramChange& change) {
  const auto found = program_.model.find("range_constraints");
  if (found == program_.model.end() || !found->is_object() || found->empty()) {
    return change_sizes(change);
  }
  json& range = part(*found).begin().value();
  json& bound = range[change.choice % 2 == 0 ? "min_val" : "max_val"];
  const int64_t old = bound.is_number_integer() ? bound.get<int64_t>() : 0;
  bound = other_integer(old, change.choice / 2, change.number);
}

}  // namespace arenite::fuzz
