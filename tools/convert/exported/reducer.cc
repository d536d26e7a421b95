// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/interpret.h"
#include "convert/exported/refusals.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// The value with the name of what made it, for the op that it may become later.
Reduced named(const Reduced& value, const std::string& name) {
  if (const auto* function = std::get_if<FunctionRef>(&value);
      function && (*function)->name.empty()) {
    return std::make_shared<const Function>(
        Function{(*function)->base, (*function)->expression, name});
  }
  const auto* affine = std::get_if<AffineRef>(&value);
  if (affine == nullptr || (*affine)->is_plain() || !(*affine)->name.empty()) return value;
  return make_affine({(*affine)->shape, (*affine)->terms, name});
}

// What nodes without weights are called: by their module and op, numbered within the module.
// PyTorch numbers all ops of a program, among them those on symbolic sizes.
std::vector<std::string> own_names(const ExportedProgram& program) {
  std::map<std::string, size_t> times;
  std::vector<std::string> names;
  for (const ExportedNode& node : program.nodes) {
    names.emplace_back();
    if (node.outputs.empty()) continue;
    const ExportedValue& value = program.values[node.outputs[0]];
    const size_t end = value.name.find_last_not_of("0123456789");
    const bool is_numbered = end != std::string::npos && end > 0 && value.name[end] == '_';
    std::string name = is_numbered ? value.name.substr(0, end) : value.name;
    if (!node.module_path.empty()) name = node.module_path + "." + name;
    const size_t before = value.kind == ValueKind::kTensor ? times[name]++ : 0;
    names.back() = before == 0 ? name : fmt::format("{}_{}", name, before);
  }
  return names;
}

constexpr uint64_t kFollowedLive = 2;  // arrays of the largest size, at a time

uint64_t numbers_in(const AffineRef& affine) {
  uint64_t count = 0;
  for (const Term& term : affine->terms) {
    count += term.places.numbers ? term.places.numbers->size() : 0;
    count += term.factors.each ? term.factors.each->size() : 0;
  }
  return count;
}

uint64_t numbers_in(const Reduced& value) {
  if (const auto* affine = std::get_if<AffineRef>(&value)) return numbers_in(*affine);
  if (const auto* function = std::get_if<FunctionRef>(&value)) return numbers_in((*function)->base);
  if (const auto* pair = std::get_if<ComplexPair>(&value)) {
    return numbers_in(pair->real) + numbers_in(pair->imaginary);
  }
  const auto* constant = std::get_if<ConstantRef>(&value);
  return constant != nullptr && !(*constant)->is_large() ? (*constant)->elements() : 0;
}

// Why a value that an op made beside its result is not known.
std::string unread_result(const ExportedProgram& program, uint32_t value) {
  for (const ExportedNode& node : program.nodes) {
    const auto found = std::ranges::find(node.outputs, value);
    if (found == node.outputs.end()) continue;
    return fmt::format(
        "it uses result {} of {}, such as indices or statistics: the runtime gives result 0 alone",
        found - node.outputs.begin(), node.call.describe());
  }
  return "it uses an input of the model that has no meaning";
}

// Of one array: in proportion to the largest of the weights, and to what a row of the example can
// become.
uint64_t followed_elements_max(const ExportedProgram& program, const TraceSizes& sizes) {
  uint64_t widest = 0;
  for (const StoredTensor& tensor : program.tensors->tensors()) {
    for (const uint64_t extent : tensor.shape) widest = std::max(widest, extent);
  }
  const uint64_t outputs = uint64_t{sizes.rows()} * std::min(widest, kExportedElementsMax);
  const uint64_t largest = program.largest_weight();
  return std::min(std::max({kFollowedElementsBase, kFollowedPerWeight * largest, outputs}),
                  std::max(kExportedElementsMax, largest));
}

}  // namespace

bool is_dependent(const Reduced& value) {
  return std::holds_alternative<AffineRef>(value) || std::holds_alternative<FunctionRef>(value) ||
         std::holds_alternative<ScoresRef>(value) || std::holds_alternative<ScoreRowRef>(value) ||
         std::holds_alternative<ComplexPair>(value);
}

const Reduced* Operation::value(std::string_view name) const {
  const Argument* argument = call.find(name);
  const ValueRef* ref = argument != nullptr ? argument->as<ValueRef>() : nullptr;
  return ref != nullptr ? &inputs[ref->value] : nullptr;
}

Reducer::Reducer(std::shared_ptr<const ExportedProgram> program, const Lengths& lengths)
    : program_(std::move(program)),
      lengths_(lengths),
      builder_(program_, lengths.sizes()),
      budget_(interpreting_budget(*program_, elements_of(lengths.input_shape()))),
      elements_max_(followed_elements_max(*program_, lengths.sizes())),
      values_(program_->values.size()),
      own_names_(own_names(*program_)),
      costs_(program_->values.size(), 0) {}

void Reducer::run(size_t index) {
  const ElementLimit limit(elements_max_);
  for (const ExportedInput& input : program_->inputs) read_input(input);
  std::vector<size_t> last_use(values_.size(), 0);
  for (size_t n = 0; n < program_->nodes.size(); ++n) {
    bind(program_->nodes[n].call, [&](uint32_t value) -> Argument {
      last_use[value] = n;
      return {};
    });
  }
  for (const Argument& output : program_->outputs) {
    if (const ValueRef* ref = output.as<ValueRef>()) last_use[ref->value] = SIZE_MAX;
  }
  for (const ExportedInput& input : program_->inputs) last_use[input.value] = SIZE_MAX;
  std::vector<std::vector<uint32_t>> dying(program_->nodes.size());
  for (uint32_t value = 0; value < last_use.size(); ++value) {
    if (last_use[value] < dying.size()) dying[last_use[value]].push_back(value);
  }
  for (size_t n = 0; n < program_->nodes.size(); ++n) {
    try {
      step(program_->nodes[n]);
    } catch (const InputError& error) {
      throw OpRefused(n, error.what());
    }
    for (const uint32_t value : dying[n]) keep(value, std::monostate{});
  }
  Graph& graph = builder_.graph();
  graph.prefix_rows = builder_.sizes().prefix;
  const ValueRef* ref = program_->outputs[index].as<ValueRef>();
  try {
    builder_.set_name("output");
    graph.output = builder_.output(as_affine(values_[ref->value]));
  } catch (const InputError& error) {
    if (std::string_view(error.what()).starts_with(quote(program_->source))) throw;
    const bool is_sum = dynamic_cast<const SumNotRecognised*>(&error) != nullptr;
    const ExportedNode* maker = maker_of(*program_, {ref->value}, is_sum);
    for (const ExportedNode& node : program_->nodes) {
      const bool gives = std::ranges::find(node.outputs, ref->value) != node.outputs.end();
      if (maker == nullptr && gives) maker = &node;
    }
    const std::string place =
        maker == nullptr ? program_->values[ref->value].name : maker->call.describe();
    throw InputError("{}: output {}, {}: {}", quote(program_->source), index, place, error.what());
  }
}

void Reducer::keep(uint32_t value, Reduced reduced) {
  live_numbers_ -= costs_[value];
  costs_[value] = numbers_in(reduced);
  live_numbers_ += costs_[value];
  values_[value] = std::move(reduced);
  if (live_numbers_ > kFollowedLive * elements_max_) {
    throw NotRecognised(
        "with it, the program repeats more elements than a model of this size has: export it for a "
        "shorter input");
  }
}

void Reducer::read_input(const ExportedInput& input) {
  if (input.kind != InputKind::kUser) {
    const ExportedValue& value = program_->values[input.value];
    auto constant = std::make_shared<Constant>(
        input.value, value.shape(), value.type,
        [program = program_, stored = &input] { return program->load(*stored); });
    constant->stored = &input;
    values_[input.value] = ConstantRef(std::move(constant));
    return;
  }
  if (const SideInput* side = lengths_.side(input.value)) {
    const ExportedValue& value = program_->values[input.value];
    if (side->role == SideRole::kTypes) {
      Shape sizes;
      for (const Extent& extent : value.sizes) sizes.push_back(lengths_.extent(extent));
      values_[input.value] = builder_.types_input(std::move(sizes));
    } else {
      values_[input.value] =
          std::make_shared<const Constant>(input.value, lengths_.side_constant(input.value));
    }
    return;
  }
  const Shape shape = lengths_.input_shape();
  if (lengths_.reads_images()) {
    values_[input.value] = builder_.images_input(shape, lengths_.patches());
    return;
  }
  values_[input.value] = lengths_.reads_tokens()
                             ? builder_.tokens_input(shape)
                             : builder_.features_input(shape, static_cast<uint32_t>(shape.back()));
}

// People know a layer by its weights, and an op by its place in the model.
std::string Reducer::name_of(const ExportedNode& node) const {
  for (const NamedArgument& argument : node.call.arguments) {
    const ValueRef* ref = argument.value.as<ValueRef>();
    const bool is_weight = is_one_of(argument.name, {"weight", "mat2", "other"});
    if (ref == nullptr || !is_weight) continue;
    const auto* constant = std::get_if<ConstantRef>(&values_[ref->value]);
    if (constant == nullptr || (*constant)->stored == nullptr) continue;
    const std::string& name = (*constant)->stored->name;
    return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  }
  return own_names_[static_cast<size_t>(&node - program_->nodes.data())];
}

Operation Reducer::operation_of(const ExportedNode& node) {
  Operation operation;
  operation.call = bind(node.call, [&](uint32_t value) -> Argument {
    if (const Argument* number = std::get_if<Argument>(&values_[value])) return *number;
    if (std::holds_alternative<std::monostate>(values_[value])) {
      throw NotRecognised(unread_result(*program_, value));
    }
    operation.inputs.push_back(values_[value]);
    operation.types.push_back(program_->values[value].type);
    return ValueRef{static_cast<uint32_t>(operation.inputs.size() - 1)};
  });
  return operation;
}

Shape Reducer::shape_of(const Reduced& value) const {
  if (const auto* constant = std::get_if<ConstantRef>(&value)) return (*constant)->shape();
  if (const auto* affine = std::get_if<AffineRef>(&value)) return (*affine)->shape;
  if (const auto* function = std::get_if<FunctionRef>(&value))
    return (*function)->expression->shape;
  if (const auto* scores = std::get_if<ScoresRef>(&value)) return (*scores)->shape;
  if (const auto* pair = std::get_if<ComplexPair>(&value)) return pair->real->shape;
  if (const auto* row = std::get_if<ScoreRowRef>(&value)) {
    Shape shape = (*row)->of->shape;
    shape.back() = 1;
    return shape;
  }
  return {};
}

OpCall Reducer::with_arrays(const Operation& operation) const {
  return bind(operation.call, [&](uint32_t index) -> Argument {
    const Reduced& value = operation.inputs[index];
    const auto* constant = std::get_if<ConstantRef>(&value);
    if (constant != nullptr && !(*constant)->is_large()) return (*constant)->array();
    return Array::of_shape(shape_of(value), operation.types[index]);
  });
}

// The op that made what `node` cannot read, or the node itself.
std::string Reducer::describe_cause(const ExportedNode& node, bool is_sum) const {
  std::vector<uint32_t> inputs;
  bind(node.call, [&](uint32_t value) -> Argument {
    inputs.push_back(value);
    return {};
  });
  const ExportedNode* maker = maker_of(*program_, inputs, is_sum);
  return maker == nullptr ? node.call.describe() : maker->call.describe();
}

void Reducer::step(const ExportedNode& node) {
  if (node.call.op.starts_with("_assert") || node.outputs.empty()) return;
  try {
    const Operation operation = operation_of(node);
    builder_.set_name(name_of(node));
    std::vector<Reduced> results;
    if (!is_about_shapes(operation, results)) {
      const bool depends = std::ranges::any_of(operation.inputs, is_dependent);
      results = depends ? dependent(operation) : constants_of(operation, node);
    }
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
      if (const Argument* number = std::get_if<Argument>(&results[i]);
          number && number->as<Array>()) {
        results[i] = std::make_shared<const Constant>(node.outputs[i], *number->as<Array>());
      }
      keep(node.outputs[i], named(results[i], builder_.name()));
    }
  } catch (const InputNotRecognised& error) {
    const bool is_sum = dynamic_cast<const SumNotRecognised*>(&error) != nullptr;
    throw InputError("{}: {}: {}", quote(program_->source), describe_cause(node, is_sum),
                     error.what());
  } catch (const NotRecognised& error) {
    throw InputError("{}: {}: {}", quote(program_->source), node.call.describe(), error.what());
  } catch (const std::logic_error&) {
    throw InputError("{}: {}: its arguments are none that PyTorch gives it: the file is damaged",
                     quote(program_->source), node.call.describe());
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.starts_with(quote(program_->source))) throw;
    const bool says_op = what.find(node.call.target()) != std::string::npos;
    throw InputError("{}: {}{}", quote(program_->source),
                     says_op ? "" : node.call.describe() + ": ", what);
  }
}

// Of two values, the one that a constant chooses everywhere: what is hidden as padding is nothing,
// as long as sequences have none. Null: it chooses some of each.
const Reduced* chosen_everywhere(const Operation& operation) {
  const bool fills = operation.call.op == "masked_fill";
  if (!fills && operation.call.op != "where") return nullptr;
  const Reduced* mask = operation.value(fills ? "mask" : "condition");
  const auto* constant = mask != nullptr ? std::get_if<ConstantRef>(mask) : nullptr;
  if (constant == nullptr) return nullptr;
  const Array::Bools flags = (*constant)->array().to_bools();
  if (flags.empty() || std::ranges::adjacent_find(flags, std::not_equal_to{}) != flags.end()) {
    return nullptr;
  }
  if (fills) return flags[0] == 0 ? operation.value("self") : nullptr;
  return operation.value(flags[0] != 0 ? "self" : "other");
}

std::vector<Reduced> Reducer::dependent(const Operation& operation) {
  if (const Reduced* chosen = chosen_everywhere(operation)) {
    Shape shape;
    for (const Reduced& input : operation.inputs) shape = broadcast(shape, shape_of(input));
    if (shape_of(*chosen) == shape) return {*chosen};
  }
  const Level level;
  if (auto result = complex_op(operation)) return {*result};
  if (auto results = move(operation)) return *results;
  const bool has_nothing = std::ranges::any_of(
      operation.inputs, [&](const Reduced& input) { return elements_of(shape_of(input)) == 0; });
  if (has_nothing) {
    throw NotRecognised(
        "it computes with a tensor that has no elements, as of a slice that begins where it ends: "
        "leave it out of the model");
  }
  if (auto result = matrix_op(operation)) return {*result};
  if (auto result = convolution_op(operation)) return {*result};
  if (auto result = written_softmax(operation)) return {*result};
  if (auto result = score_op(operation)) return {*result};
  if (auto result = norm_op(operation)) return {*result};
  if (auto result = sum_op(operation)) return {*result};
  if (auto result = pooling_op(operation)) return {*result};
  return {function_op(operation)};
}

}  // namespace arenite::convert
