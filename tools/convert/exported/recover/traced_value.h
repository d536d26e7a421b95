// SPDX-License-Identifier: Apache-2.0
// What is known of a tensor while its program is traced.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "convert/exported/read/call.h"
#include "convert/exported/recover/constant.h"
#include "convert/exported/recover/element_sum.h"
#include "convert/exported/recover/scores.h"

namespace arenite::convert {

// A function of one value that works on each of its rows by itself, kept as the op that the author
// wrote until somebody needs its values: the op's tensors are constants and functions of the same
// base.
struct Function {
  ElementSumRef base;                  // of one node
  std::shared_ptr<const Call> call{};  // null: the base itself
  Shape shape{};
  size_t depth = 0;    // of ops: kExportedLevelsMax at most, as a person writes a formula
  std::string name{};  // of the author's op that made it

  bool is_base() const { return call == nullptr; }
};

using FunctionRef = std::shared_ptr<const Function>;

struct ComplexPair {
  ElementSumRef real, imaginary;
};

// A constant, or how a tensor depends on the model's input.
struct TracedValue {
  using Value =
      std::variant<ConstantRef, ElementSumRef, FunctionRef, ScoresRef, ScoreRowRef, ComplexPair>;

  template <typename T>
  requires(std::is_constructible_v<Value, T> && !std::is_same_v<std::decay_t<T>, TracedValue>)
      TracedValue(T&& known, ElementType element_type = ElementType::kF32)
      : value(std::forward<T>(known)), type(element_type) {}

  Value value;
  ElementType type;  // that the author's tensor has, where it is no constant

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool is_constant() const { return as<ConstantRef>() != nullptr; }
};

Shape shape_of(const TracedValue& value);
ElementType type_of(const TracedValue& value);

// An argument, or a result, that is this value.
inline Argument traced(TracedValue value) {
  return std::make_shared<const TracedValue>(std::move(value));
}
// The argument of this name; null: it is no traced value.
const TracedValue* value_of(const Call& call, std::string_view name);
// All arguments that are traced values, those in lists, too.
std::vector<TracedValue> values_of(const Call& call);

// `call` with arrays in place of traced values, which have elements where these are small
// constants.
Call with_shapes(const Call& call);
// The same with all elements. REQUIRES: all are constants.
Call with_elements(const Call& call);

}  // namespace arenite::convert
