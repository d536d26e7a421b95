// SPDX-License-Identifier: Apache-2.0
// Arrays stand for traced values where an op asks for shapes, or for the numbers of constants.
#include "convert/exported/recover/traced_value.h"

namespace arenite::convert {

Shape shape_of(const TracedValue& value) {
  if (const auto* constant = value.as<ConstantRef>()) return (*constant)->shape();
  if (const auto* elements = value.as<ElementSumRef>()) return (*elements)->shape;
  if (const auto* function = value.as<FunctionRef>()) return (*function)->shape;
  if (const auto* scores = value.as<ScoresRef>()) return (*scores)->shape;
  if (const auto* pair = value.as<ComplexPair>()) return pair->real->shape;
  Shape shape = (*value.as<ScoreRowRef>())->of->shape;
  shape.back() = 1;
  return shape;
}

ElementType type_of(const TracedValue& value) {
  const auto* constant = value.as<ConstantRef>();
  return constant != nullptr ? (*constant)->type() : value.type;
}

const TracedValue* value_of(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  const TracedRef* ref = argument != nullptr ? argument->as<TracedRef>() : nullptr;
  return ref != nullptr ? ref->get() : nullptr;
}

std::vector<TracedValue> values_of(const Call& call) {
  std::vector<TracedValue> values;
  for_each<TracedRef>(call, [&](const TracedRef& ref) { values.push_back(*ref); });
  return values;
}

Call with_shapes(const Call& call) {
  return bind<TracedRef>(call, [](const TracedRef& ref) -> Argument {
    const auto* constant = ref->as<ConstantRef>();
    if (constant != nullptr && !(*constant)->is_large()) return (*constant)->array();
    return Array::of_shape(shape_of(*ref), type_of(*ref));
  });
}

Call with_elements(const Call& call) {
  return bind<TracedRef>(call, [](const TracedRef& ref) -> Argument {
    const auto* constant = ref->as<ConstantRef>();
    if (constant == nullptr) throw NotRecognised("it depends on the model's input");
    return (*constant)->array();
  });
}

}  // namespace arenite::convert
