// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/interpret.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

Array zeros(const Shape& shape, ElementType type) {
  return Array::boolean(shape, Array::Bools(elements_of(shape), 0)).to(type);
}

// How many positions a constant has that is cut or looked up by them.
int64_t positions_of(const OpCall& call, const Array& result, const Lengths& lengths) {
  if (call.op == "slice") {
    const CallArguments arguments(call);
    const Array& self = arguments.array("self");
    const size_t dim = arguments.dimension("dim", 0, self.rank());
    const int64_t start = arguments.integer("start", 0);
    // A part that begins at 0, is as long as the input, and is not all of it.
    const int64_t extent = result.shape()[dim];
    const bool is_cut = extent == lengths.tokens() || extent == lengths.rows();
    return start == 0 && is_cut && extent < self.shape()[dim] ? self.shape()[dim] : 0;
  }
  return 0;
}

// The rows that positions look up: consecutive ones.
int64_t positions_of_rows(const Array& table, const Array& ids) {
  const Array::Integers rows = ids.to_integers();
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return 0;
  }
  return rows.size() < 2 ? 0 : table.shape()[0] - rows[0];
}

// The value with the name of what made it, for the op that it may become later.
Reduced named(const Reduced& value, const std::string& name) {
  if (const auto* function = std::get_if<FunctionRef>(&value);
      function && (*function)->name.empty()) {
    return std::make_shared<const Function>(
        Function{(*function)->base, (*function)->expression, name});
  }
  const auto* affine = std::get_if<AffineRef>(&value);
  if (affine == nullptr || (*affine)->is_plain() || !(*affine)->name.empty()) return value;
  return std::make_shared<const Affine>(Affine{(*affine)->shape, (*affine)->terms, name});
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
      values_(program_->values.size()) {}

void Reducer::run(size_t index) {
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
    step(program_->nodes[n]);
    for (const uint32_t value : dying[n]) values_[value] = std::monostate{};
  }
  Graph& graph = builder_.graph();
  graph.prefix_rows = builder_.sizes().prefix;
  const ValueRef* ref = program_->outputs[index].as<ValueRef>();
  try {
    builder_.set_name("output");
    graph.output = builder_.output(as_affine(values_[ref->value]));
  } catch (const NotRecognised& error) {
    throw InputError("{}: output {} ({}): {}", quote(program_->source), index,
                     program_->values[ref->value].name, error.what());
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
  const std::string own = node.outputs.empty() ? "" : program_->values[node.outputs[0]].name;
  return node.module_path.empty() ? own : node.module_path + "." + own;
}

Operation Reducer::operation_of(const ExportedNode& node) {
  Operation operation;
  operation.call = bind(node.call, [&](uint32_t value) -> Argument {
    if (const Argument* number = std::get_if<Argument>(&values_[value])) return *number;
    operation.inputs.push_back(values_[value]);
    operation.types.push_back(program_->values[value].type);
    return ValueRef{static_cast<uint32_t>(operation.inputs.size() - 1)};
  });
  std::optional<size_t> elements;
  if (!operation.inputs.empty()) elements = elements_of(shape_of(operation.inputs[0]));
  operation.call = lengths_.adapted(operation.call, elements);
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

Array Reducer::array_of(const Reduced& value) {
  const auto* constant = std::get_if<ConstantRef>(&value);
  if (constant == nullptr) throw NotRecognised("it needs a constant where the model's numbers are");
  return (*constant)->array();
}

// Ops whose result depends on nothing but shapes and types.
bool Reducer::is_about_shapes(const Operation& operation, std::vector<Reduced>& results) {
  const OpCall& call = operation.call;
  const CallArguments arguments(call);
  if (is_one_of(call.op, {"sym_size", "size"}) && call.find("dim") != nullptr) {
    const Shape shape = shape_of(operation.inputs.at(0));
    const size_t dim = arguments.dimension("dim", 0, shape.size());
    results = {Argument(shape[dim])};
    return true;
  }
  if (call.op == "sym_numel" || call.op == "numel") {
    results = {Argument(static_cast<int64_t>(elements_of(shape_of(operation.inputs.at(0)))))};
    return true;
  }
  if (!call.op.starts_with("new_") &&
      !is_one_of(call.op, {"zeros_like", "ones_like", "full_like", "empty_like"})) {
    return false;
  }
  const OpCall dummy = bind(call, [&](uint32_t index) -> Argument {
    return zeros(shape_of(operation.inputs[index]), operation.types[index]);
  });
  budget_.live_elements = OpBudget{}.live_elements;
  for (const Argument& result : apply_op(dummy, budget_)) results.emplace_back(result);
  return true;
}

std::vector<Reduced> Reducer::constants_of(const Operation& operation, const ExportedNode& node) {
  const OpCall call = with_arrays(operation);
  int64_t positions_max = 0;
  bool is_large = false;
  size_t depth = 0;
  for (const Reduced& input : operation.inputs) {
    const auto* constant = std::get_if<ConstantRef>(&input);
    if (constant == nullptr) continue;
    positions_max = tighter(positions_max, (*constant)->positions_max);
    is_large = is_large || (*constant)->is_large();
    depth = std::max(depth, (*constant)->depth + 1);
  }
  const auto movements = is_large ? movements_of(call) : std::nullopt;
  if (is_large && depth > kConstantDepthMax) {
    throw NotRecognised("so many ops on large constants, one within the other, are not supported");
  }
  std::vector<Reduced> results;
  for (size_t i = 0; i < node.outputs.size() && is_large; ++i) {
    const ExportedValue& value = program_->values[node.outputs[i]];
    const Shape shape = movements ? movements->at(i).shape : value.shape();
    auto constant =
        std::make_shared<Constant>(node.outputs[i], shape, value.type, [operation, i]() -> Array {
          const OpCall whole = bind(operation.call, [&](uint32_t index) -> Argument {
            return std::get<ConstantRef>(operation.inputs[index])->array();
          });
          OpBudget budget;
          return *apply_op(whole, budget).at(i).as<Array>();
        });
    if (call.op == "slice" && !shape.empty()) {
      positions_max =
          tighter(positions_max, positions_of(call, Array::of_shape(shape, value.type), lengths_));
    }
    constant->positions_max = positions_max;
    constant->depth = depth;
    results.emplace_back(ConstantRef(std::move(constant)));
  }
  if (is_large) {
    if (const Reduced* table = operation.value("weight"); table && call.op == "embedding") {
      const auto& rows = std::get<ConstantRef>(results[0]);
      const int64_t limit = positions_of_rows(Array::of_shape(shape_of(*table), ElementType::kF32),
                                              array_of(*operation.value("indices")));
      const_cast<Constant&>(*rows).positions_max = tighter(rows->positions_max, limit);
    }
    return results;
  }
  budget_.live_elements = OpBudget{}.live_elements;
  for (const Argument& result : apply_op(call, budget_)) {
    const Array* array = result.as<Array>();
    if (array == nullptr) {
      results.emplace_back(result);
      continue;
    }
    int64_t limit = tighter(positions_max, positions_of(call, *array, lengths_));
    if (call.op == "embedding") {
      limit = tighter(limit, positions_of_rows(*call.find("weight")->as<Array>(),
                                               *call.find("indices")->as<Array>()));
    }
    auto constant = std::make_shared<Constant>(node.outputs.at(results.size()), *array);
    constant->positions_max = limit;
    results.emplace_back(ConstantRef(std::move(constant)));
  }
  return results;
}

void Reducer::step(const ExportedNode& node) {
  try {
    const Operation operation = operation_of(node);
    builder_.set_name(name_of(node));
    std::vector<Reduced> results;
    if (node.call.op.starts_with("_assert") || node.outputs.empty()) return;
    if (!is_about_shapes(operation, results)) {
      const bool depends = std::ranges::any_of(operation.inputs, is_dependent);
      results = depends ? dependent(operation) : constants_of(operation, node);
    }
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
      if (const Argument* number = std::get_if<Argument>(&results[i]);
          number && number->as<Array>()) {
        results[i] = std::make_shared<const Constant>(node.outputs[i], *number->as<Array>());
      }
      values_[node.outputs[i]] = named(results[i], builder_.name());
    }
  } catch (const NotRecognised& error) {
    throw InputError("{}: {}: {}", quote(program_->source), node.call.describe(), error.what());
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.starts_with(quote(program_->source))) throw;
    const bool says_op = what.find(node.call.target()) != std::string::npos;
    throw InputError("{}: {}{}", quote(program_->source),
                     says_op ? "" : node.call.describe() + ": ", what);
  }
}

std::vector<Reduced> Reducer::dependent(const Operation& operation) {
  if (auto result = complex_op(operation)) return {*result};
  if (auto results = move(operation)) return *results;
  if (auto result = matrix_op(operation)) return {*result};
  if (auto result = convolution_op(operation)) return {*result};
  if (auto result = written_softmax(operation)) return {*result};
  if (auto result = score_op(operation)) return {*result};
  if (auto result = norm_op(operation)) return {*result};
  if (auto result = sum_op(operation)) return {*result};
  if (auto result = pooling_op(operation)) return {*result};
  return {function_op(operation)};
}

// Whether any number of the model is in the sum.
bool Reducer::is_of_model(const Affine& value) const {
  return std::ranges::any_of(value.terms, [&](const Term& term) {
    const int64_t number = term.places.at(0);
    return number != kNoElement && builder_.source(number).kind == Source::Kind::kNode;
  });
}

AffineRef Reducer::as_affine(const Reduced& value) {
  if (const auto* affine = std::get_if<AffineRef>(&value)) return *affine;
  if (const auto* function = std::get_if<FunctionRef>(&value)) return materialise(*function);
  if (const auto* constant = std::get_if<ConstantRef>(&value)) {
    return builder_.of_constant(*constant);
  }
  if (std::holds_alternative<ScoresRef>(value)) {
    throw NotRecognised(
        "it uses scores of attention otherwise than for the softmax and the product with values");
  }
  if (std::holds_alternative<ComplexPair>(value)) {
    throw NotRecognised("it uses complex numbers otherwise than for a rotation");
  }
  throw NotRecognised("it uses a value that nothing is known of");
}

}  // namespace arenite::convert
