// SPDX-License-Identifier: Apache-2.0
// What is known of a tensor while its program is traced: a constant, or how its elements are made
// of those of the graph's nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "convert/exported/aten/movement.h"
#include "convert/exported/read/array.h"
#include "convert/exported/read/call.h"
#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/refusals.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// ---- constants: weights, and what ops make of them and of numbers ----

// Larger ones are read when somebody needs their numbers, and are not kept.
inline constexpr size_t kKeptElementsMax = size_t{1} << 20;

// Of constants that are no values of the program, and have no other length.
inline constexpr uint32_t kNoValue = UINT32_MAX;

class Constant {
 public:
  // An array that is there, and one that `load` gives.
  Constant(uint32_t value, Array array)
      : value_(value), shape_(array.shape()), type_(array.type()), array_(std::move(array)) {}
  Constant(uint32_t value, Shape shape, ElementType type, std::function<Array()> load)
      : value_(value), shape_(std::move(shape)), type_(type), load_(std::move(load)) {}

  uint32_t value() const { return value_; }  // of the program
  const Shape& shape() const { return shape_; }
  ElementType type() const { return type_; }
  size_t elements() const { return elements_of(shape_); }
  bool is_large() const { return !array_ && elements() > kKeptElementsMax; }
  Array array() const;

  // The input of the program that this is as it lies in the file, or null.
  const ExportedInput* stored = nullptr;
  // How many positions there are, of what was cut or looked up by position; 0: any number.
  int64_t positions_max = 0;
  size_t depth = 0;  // of large constants that it is made of: kExportedLevelsMax at most

 private:
  uint32_t value_ = 0;
  Shape shape_;
  ElementType type_ = ElementType::kF32;
  std::function<Array()> load_;
  mutable std::optional<Array> array_;
};

using ConstantRef = std::shared_ptr<const Constant>;

// The tighter of two limits, 0: none.
inline int64_t tighter(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return a == 0 ? b : a;
  return a < b ? a : b;
}

// What the program calls it; "constant" if it is no value of the program.
std::string name_of(const ExportedProgram& program, const Constant& constant);

// The same elements in another shape.
ConstantRef with_shape(const ConstantRef& constant, const Shape& shape);
// The elements that a movement takes, when somebody needs them.
ConstantRef moved(const Movement& movement, const ConstantRef& of);

// The constant as a matrix of weights [rows, columns], transposed before if asked.
WeightRef weight_of(const std::shared_ptr<const ExportedProgram>& program,
                    const ConstantRef& constant, bool transposed);

// Weights that `exact` computes when they are loaded.
void set_exact(WeightRef& weight, std::function<std::vector<double>()> exact);

// The weights with column c as column order[c]. REQUIRES: a permutation.
WeightRef with_columns(const WeightRef& weight, const std::vector<uint32_t>& order);

// ---- sums of elements of nodes, times constants: with them, every op that moves elements is one
// case, and so is every spelling of a rotation ----

// An element has the id producer * kProducerElements + its index in the producer. Producers are
// those of a GraphBuilder and count from 1, so that 0 is no element: what stands there is 0.
inline constexpr int64_t kProducerElements = int64_t{1} << 36;
inline constexpr int64_t kNoElement = 0;

constexpr uint32_t producer_of(int64_t number) {
  return static_cast<uint32_t>(number / kProducerElements);
}
constexpr int64_t index_of(int64_t number) { return number % kProducerElements; }
constexpr int64_t element_id(uint32_t producer, uint64_t index) {
  return int64_t{producer} * kProducerElements + static_cast<int64_t>(index);
}

// The number of each element of a value, in row-major order.
struct Places {
  uint32_t producer = 0;
  std::shared_ptr<const std::vector<int64_t>>
      element_ids{};  // null: element i is that of `producer`

  int64_t at(size_t i) const { return element_ids ? element_ids->at(i) : element_id(producer, i); }
  bool is_whole() const { return element_ids == nullptr; }
  friend bool operator==(const Places&, const Places&) = default;  // by identity
};

// What each element is multiplied by.
struct Factors {
  double uniform = 1.0;
  std::shared_ptr<const std::vector<double>> each{};  // null: all by `uniform`

  double at(size_t i) const { return each ? each->at(i) : uniform; }
  friend bool operator==(const Factors&, const Factors&) = default;
};

struct Term {
  Places places;
  Factors factors{};

  friend bool operator==(const Term&, const Term&) = default;
};

// Element i is the sum of factors.at(i) * element places.at(i) over the terms, of which there is at
// least one.
struct LinearExpr {
  Shape shape;
  std::vector<Term> terms;
  std::string name{};  // of the author's op that made it, of sums

  size_t elements() const { return elements_of(shape); }
  // The number of an element of the first term.
  int64_t at(size_t i) const { return terms[0].places.at(i); }
  // The first element of the first term; kNoElement, too, where there is none.
  int64_t front() const { return elements() == 0 ? kNoElement : at(0); }
  // One term, and every factor is 1.
  bool is_plain() const {
    return terms.size() == 1 && !terms[0].factors.each && terms[0].factors.uniform == 1.0;
  }
  // Whether elements have factors of their own, as those of a rotation.
  bool has_own_factors() const;
};

using LinearExprRef = std::shared_ptr<const LinearExpr>;

// Every sum is made here, at its cost. Throws ShapeError unless each of its terms has as
// many places and factors as it has elements.
LinearExprRef make_sum(LinearExpr value);

LinearExprRef whole_producer(uint32_t producer, Shape shape);
LinearExprRef plain(Shape shape, std::vector<int64_t> element_ids);

// The parts that a movement takes, one after the other, moved.
LinearExprRef moved(const Movement& movement, std::span<const LinearExprRef> parts);
LinearExprRef moved(const Movement& movement, const LinearExprRef& part);

LinearExprRef with_shape(const LinearExprRef& value, Shape shape);
LinearExprRef permuted(const LinearExprRef& value, const std::vector<size_t>& order);
// What undoes a permutation.
std::vector<size_t> inverse_order(const std::vector<size_t>& order);
// Columns as rows. Throws NotRecognised where there are none.
LinearExprRef transposed(const LinearExprRef& value);
LinearExprRef stretched(const LinearExprRef& value, const Shape& shape);  // broadcast to `shape`
LinearExprRef sum(const LinearExprRef& a, const LinearExprRef& b, double factor_b);
LinearExprRef scaled(const LinearExprRef& value, double factor);
LinearExprRef scaled(const LinearExprRef& value, const Array& factors);

// The elements of `values`, stretched to `shape`, as real numbers.
std::vector<double> stretched_reals(const Array& values, const Shape& shape);

// Whether both are the same elements with the same factors in the same shape.
bool are_same(const LinearExpr& a, const LinearExpr& b);

// Element ids without their factors. REQUIRES: one term.
std::vector<int64_t> element_ids_of(const LinearExpr& value);

// ---- values ----

// A function of one value that works on each of its rows by itself, kept as the op that the author
// wrote until somebody needs its values: the op's tensors are constants and functions of the same
// base.
struct Function {
  LinearExprRef base;                  // of one node
  std::shared_ptr<const Call> call{};  // null: the base itself
  Shape shape{};
  size_t depth = 0;    // of ops: kExportedLevelsMax at most, as a person writes a formula
  std::string name{};  // of the author's op that made it

  bool is_base() const { return call == nullptr; }
};

using FunctionRef = std::shared_ptr<const Function>;

struct Scores;  // scores.h
struct ScoreRow;
using ScoresRef = std::shared_ptr<const Scores>;
using ScoreRowRef = std::shared_ptr<const ScoreRow>;

struct ComplexPair {
  LinearExprRef real, imaginary;
};

// A constant, or how a tensor depends on the model's input.
struct TracedValue {
  using Value =
      std::variant<ConstantRef, LinearExprRef, FunctionRef, ScoresRef, ScoreRowRef, ComplexPair>;

  template <typename T>
  requires(std::is_constructible_v<Value, T> && !std::is_same_v<std::decay_t<T>, TracedValue>)
      TracedValue(T&& known, ElementType element_type = ElementType::kF32)
      : value(std::forward<T>(known)), type(element_type) {}

  Value value;
  ElementType type;  // that the author's tensor has, where it is no constant

  // What it is, if it is of this kind; else a T that is empty.
  template <typename T>
  const T& as() const {
    static const T kNone{};
    const T* known = std::get_if<T>(&value);
    return known != nullptr ? *known : kNone;
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(value);
  }
  bool is_constant() const { return is<ConstantRef>(); }
};

Shape shape_of(const TracedValue& value);
ElementType type_of(const TracedValue& value);

// An argument, or a result, that is this value.
inline Argument traced(TracedValue value) {
  return std::make_shared<const TracedValue>(std::move(value));
}
// The argument of this name; null: it is no traced value.
const TracedValue* value_of(const Call& call, std::string_view name);
// The same as a value of this kind, or null.
template <typename T>
T value_as(const Call& call, std::string_view name) {
  const TracedValue* value = value_of(call, name);
  return value != nullptr ? value->as<T>() : T{};
}
// All arguments that are traced values, those in lists, too.
std::vector<TracedValue> values_of(const Call& call);

// `call` with arrays in place of traced values, which have elements where these are small
// constants.
Call with_shapes(const Call& call);
// The same with all elements. REQUIRES: all are constants.
Call with_elements(const Call& call);

}  // namespace arenite::convert
