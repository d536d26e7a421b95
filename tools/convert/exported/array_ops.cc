// SPDX-License-Identifier: Apache-2.0
// Finds the rule of an op and pays for its results.
#include "convert/exported/array_ops.h"

#include <algorithm>

#include "convert/exported/movement_rules.h"
#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kElementsPerResult = 64;  // what a result costs without its elements
constexpr uint64_t kStepsPerElement = 12;
constexpr uint64_t kStepsPerOp = 4096;  // for its arguments by their names

OpRules all_op_rules() {
  OpRules rules;
  for (OpRules part :
       {unary_rules(), binary_rules(), choosing_rules(), complex_rules(), reduction_rules(),
        softmax_rules(), norm_rules(), product_rules(), attention_rules(), batched_rules(),
        convolution_rules(), creation_rules(), symbol_rules()}) {
    rules.merge(part);
  }
  return rules;
}

const OpRules& rules() {
  static const OpRules kRules = all_op_rules();
  return kRules;
}

void refuse_unknown(const CallArguments& call) {
  const std::string_view op = call.call().op;
  for (const std::string_view random :
       {"rand", "bernoulli", "multinomial", "normal", "uniform", "exponential"}) {
    if (op.starts_with(random)) {
      call.refuse(
          "it makes random numbers, so that every call of the model gives something else: leave it "
          "out when the model is in eval mode");
    }
  }
  call.refuse(
      "there is no rule for this op: write it with ops that there are rules for, such as linear, "
      "matmul, softmax and functions of single numbers, or leave it out of the model");
}

// What arrays stretched to each other come to, at least where the op is one of single numbers.
uint64_t elements_expected(const OpCall& call) {
  Shape shape;
  try {
    for (const NamedArgument& argument : call.arguments) {
      if (const auto* array = argument.value.as<Array>()) shape = broadcast(shape, array->shape());
    }
    return elements_of(shape);
  } catch (const ShapeError&) {
    return 0;  // so the op does something else
  }
}

Array gathered(const std::vector<Array>& moved, const Movement& movement, ElementType type) {
  if (moved.size() == 1 && movement.keeps_order(moved[0].elements())) {
    return moved[0].with_shape(movement.shape).to(type);
  }
  const auto apply = [&](auto elements_of_array) {
    using Vector = std::remove_cvref_t<decltype(elements_of_array(moved[0]))>;
    using Element = typename Vector::value_type;
    Vector joined;
    if (moved.size() == 1) {
      const Vector& only = elements_of_array(moved[0]);
      return movement.apply<Element>(std::span<const Element>(only));
    }
    for (const Array& array : moved) {
      const Vector& part = elements_of_array(array);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return movement.apply<Element>(std::span<const Element>(joined));
  };
  const Shape& shape = movement.shape;
  if (moved.size() == 1 && moved[0].floats() != nullptr) {
    const std::span<const float> from(*moved[0].floats());
    return Array::of_floats(shape, movement.apply<float>(from), type);
  }
  if (is_real(type)) {
    return Array::real(shape, apply([](const Array& a) -> const auto& { return a.reals(); }), type);
  }
  if (is_complex(type)) {
    return Array::complex(shape, apply([](const Array& a) -> const auto& { return a.complexes(); }),
                          type);
  }
  if (is_integer(type)) {
    return Array::integer(shape, apply([](const Array& a) -> const auto& { return a.integers(); }),
                          type);
  }
  return Array::boolean(shape, apply([](const Array& a) -> const auto& { return a.bools(); }));
}

// Of conversions, and of what is copied into a tensor, the type that they convert to.
std::optional<ElementType> converted_type(const CallArguments& call) {
  const std::string& op = call.call().op;
  if (op == "copy") return call.array("self").type();
  if (op != "to" && op != "_to_copy" && op != "type_as") return std::nullopt;
  if (const Argument* other = call.call().find("other"); other && other->as<Array>()) {
    return other->as<Array>()->type();
  }
  return call.type("dtype");
}

Results move(const CallArguments& call, const std::vector<Movement>& movements, OpBudget& budget) {
  std::vector<Array> moved = moved_arrays(call.call());
  if (moved.empty()) call.refuse("it moves nothing");
  ElementType type = moved[0].type();
  // What is put into a tensor takes its type; tensors that are joined take the common one.
  const bool keeps_first = call.call().op.find("scatter") != std::string::npos ||
                           call.call().op.find("index_put") != std::string::npos;
  for (const Array& array : moved) type = keeps_first ? type : promote(type, array.type());
  for (Array& array : moved) array = array.to(type);
  uint64_t elements = 0;
  for (const Movement& movement : movements) {
    elements += elements_of(movement.shape) + kElementsPerResult;
  }
  budget.take_elements(elements);
  const ElementType given = converted_type(call).value_or(type);
  Results results;
  for (const Movement& movement : movements) {
    results.push_back(gathered(moved, movement, type).to(given));
  }
  return results;
}

Results compute(const CallArguments& call, OpBudget& budget) {
  if (const auto movements = movements_of(call.call())) return move(call, *movements, budget);
  const auto rule = rules().find(call.call().op);
  if (rule == rules().end()) refuse_unknown(call);
  const uint64_t expected = elements_expected(call.call());
  budget.take_elements(expected);
  Results results = rule->second(call, budget);
  uint64_t elements = 0;
  for (const Argument& result : results) {
    if (const auto* array = result.as<Array>()) {
      elements += array->elements() + kElementsPerResult;
    }
  }
  budget.take_elements(elements);
  budget.give_back(expected);
  return results;
}

}  // namespace

void OpBudget::take_elements(uint64_t count) {
  if (count > elements || count > live_elements) {
    throw ShapeError(
        "its results are larger than those of a model of this size: export the model for a shorter "
        "input");
  }
  WorkBudget::take(kStepsPerElement * count);
  elements -= count;
  live_elements -= count;
}

void OpBudget::take_multiplications(uint64_t count) {
  if (count > multiplications) {
    throw ShapeError(
        "the products up to it take longer than those of a model of this size: export the model "
        "for a shorter input");
  }
  WorkBudget::take(count);
  multiplications -= count;
}

std::vector<Argument> apply_op(const OpCall& call, OpBudget& budget) {
  const CallArguments arguments(call);
  try {
    WorkBudget::take(kStepsPerOp);
    return compute(arguments, budget);
  } catch (const ShapeError& error) {
    arguments.refuse("{}", error.what());
  }
}

Array apply_for_array(const OpCall& call, OpBudget& budget, size_t result) {
  const std::vector<Argument> results = apply_op(call, budget);
  const Array* array = result < results.size() ? results[result].as<Array>() : nullptr;
  if (array == nullptr) CallArguments(call).refuse("it has no result {} that is a tensor", result);
  return *array;
}

bool has_rule(std::string_view op) { return rules().contains(op) || moves_elements(op); }

}  // namespace arenite::convert
