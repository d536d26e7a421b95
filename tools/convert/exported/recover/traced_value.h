// SPDX-License-Identifier: Apache-2.0
// The traced value of a tensor. It is a constant, a linear expression over elements of graph nodes,
// a function of one node, attention scores, or a complex pair.
//
// Example, with node A [1, 2, 3] as a producer of elements A0 .. A5:
//   2 * x.transpose(1, 2)  ->  LinearExpr{[1, 3, 2], ids A0 A3 A1 A4 A2 A5, factor 2}
//   x + y                  ->  LinearExpr{[1, 2, 3], two terms: ids of A and ids of B}
//
// Ops that move, add or scale elements add no nodes: they rewrite element ids and factors.
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

// ---- constants: weights, and results of ops on constants alone ----

// Larger constants are loaded at each read, and are not cached.
inline constexpr size_t kKeptElementsMax = size_t{1} << 20;

// Value id of a constant that the tracer made. It cannot be recomputed at another length.
inline constexpr uint32_t kNoValue = UINT32_MAX;

class Constant {
 public:
  // Wraps an array in memory, or one that `load` reads on demand.
  Constant(uint32_t value, Array array)
      : value_(value), shape_(array.shape()), type_(array.type()), array_(std::move(array)) {}
  Constant(uint32_t value, Shape shape, ElementType type, std::function<Array()> load)
      : value_(value), shape_(std::move(shape)), type_(type), load_(std::move(load)) {}

  uint32_t value() const { return value_; }  // in the program, or kNoValue
  const Shape& shape() const { return shape_; }
  ElementType type() const { return type_; }
  size_t elements() const { return elements_of(shape_); }
  bool is_large() const { return !array_ && elements() > kKeptElementsMax; }
  Array array() const;

  // The stored input of the program with exactly these elements, or null.
  const ExportedInput* stored = nullptr;
  // Number of positions, if the constant is a slice of a position table; 0: no limit.
  int64_t positions_max = 0;
  size_t depth = 0;  // nesting of ops on large constants, at most kExportedLevelsMax

 private:
  uint32_t value_ = 0;
  Shape shape_;
  ElementType type_ = ElementType::kF32;
  std::function<Array()> load_;
  mutable std::optional<Array> array_;
};

using ConstantRef = std::shared_ptr<const Constant>;

// Returns the tighter of two limits, where 0 is no limit.
inline int64_t tighter(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return a == 0 ? b : a;
  return a < b ? a : b;
}

// Returns the program's name of the constant, or "constant" for kNoValue.
std::string name_of(const ExportedProgram& program, const Constant& constant);

// Return a reshaped or moved constant, without loading its elements.
ConstantRef with_shape(const ConstantRef& constant, const Shape& shape);
ConstantRef moved(const Movement& movement, const ConstantRef& of);

// Returns a constant [rows, columns] as a weight; with `transposed`, its transpose.
WeightRef weight_of(const std::shared_ptr<const ExportedProgram>& program,
                    const ConstantRef& constant, bool transposed);

// Makes `exact` the loader of the weight, in float32 and in double.
void set_exact(WeightRef& weight, std::function<std::vector<double>()> exact);

// Permutes the columns: column c becomes column order[c]. REQUIRES: a permutation.
WeightRef with_columns(const WeightRef& weight, const std::vector<uint32_t>& order);

// ---- linear expressions: sums of node elements times constants. With them, every op that moves
// elements is one case, and so is every spelling of a rotation ----

// An element id is producer * kProducerElements + the index in the producer. Producers belong to a
// GraphBuilder and count from 1. Id 0 is kNoElement, which reads as 0.
inline constexpr int64_t kProducerElements = int64_t{1} << 36;
inline constexpr int64_t kNoElement = 0;

constexpr uint32_t producer_of(int64_t number) {
  return static_cast<uint32_t>(number / kProducerElements);
}
constexpr int64_t index_of(int64_t number) { return number % kProducerElements; }
constexpr int64_t element_id(uint32_t producer, uint64_t index) {
  return int64_t{producer} * kProducerElements + static_cast<int64_t>(index);
}

// The element ids of a value, in row-major order.
struct Places {
  uint32_t producer = 0;
  std::shared_ptr<const std::vector<int64_t>>
      element_ids{};  // null: id i is element i of `producer`

  int64_t at(size_t i) const { return element_ids ? element_ids->at(i) : element_id(producer, i); }
  bool is_whole() const { return element_ids == nullptr; }
  friend bool operator==(const Places&, const Places&) = default;  // by identity
};

struct Factors {
  double uniform = 1.0;
  std::shared_ptr<const std::vector<double>> each{};  // null: `uniform` for all

  double at(size_t i) const { return each ? each->at(i) : uniform; }
  friend bool operator==(const Factors&, const Factors&) = default;
};

struct Term {
  Places places;
  Factors factors{};

  friend bool operator==(const Term&, const Term&) = default;
};

// Element i is the sum over all terms of factors.at(i) * element places.at(i). REQUIRES: at least
// one term.
struct LinearExpr {
  Shape shape;
  std::vector<Term> terms;
  std::string name{};  // of the program's op, for sums

  size_t elements() const { return elements_of(shape); }
  // Returns the id of element i in the first term.
  int64_t at(size_t i) const { return terms[0].places.at(i); }
  // Returns the id of element 0 in the first term; kNoElement if the value is empty.
  int64_t front() const { return elements() == 0 ? kNoElement : at(0); }
  // Whether the value is a single term with factor 1.
  bool is_plain() const {
    return terms.size() == 1 && !terms[0].factors.each && terms[0].factors.uniform == 1.0;
  }
  // Whether factors differ between elements, as in a rotation.
  bool has_own_factors() const;
};

using LinearExprRef = std::shared_ptr<const LinearExpr>;

// Creates a LinearExpr, and charges its cost to the work budget. Throws ShapeError unless each term
// has as many ids and factors as the shape has elements.
LinearExprRef make_sum(LinearExpr value);

LinearExprRef whole_producer(uint32_t producer, Shape shape);
LinearExprRef plain(Shape shape, std::vector<int64_t> element_ids);

// Apply a movement to the elements of the parts, concatenated.
LinearExprRef moved(const Movement& movement, std::span<const LinearExprRef> parts);
LinearExprRef moved(const Movement& movement, const LinearExprRef& part);

LinearExprRef with_shape(const LinearExprRef& value, Shape shape);
LinearExprRef permuted(const LinearExprRef& value, const std::vector<size_t>& order);
std::vector<size_t> inverse_order(const std::vector<size_t>& order);
// Swaps the last two dimensions. Throws NotRecognised if the rank is below 2.
LinearExprRef transposed(const LinearExprRef& value);
LinearExprRef stretched(const LinearExprRef& value, const Shape& shape);  // broadcast to `shape`
LinearExprRef sum(const LinearExprRef& a, const LinearExprRef& b, double factor_b);
LinearExprRef scaled(const LinearExprRef& value, double factor);
LinearExprRef scaled(const LinearExprRef& value, const Array& factors);

// Returns `values`, broadcast to `shape`, as doubles.
std::vector<double> stretched_reals(const Array& values, const Shape& shape);

// Whether both have the same shape, element ids and factors, term by term.
bool are_same(const LinearExpr& a, const LinearExpr& b);

// Returns the element ids, without factors. REQUIRES: one term.
std::vector<int64_t> element_ids_of(const LinearExpr& value);

// ---- values ----

// A function of one traced value, kept as unevaluated ops of the program. The tensor arguments of
// `call` are constants and functions of the same base.
struct Function {
  LinearExprRef base;                  // the argument of the function: elements of one node
  std::shared_ptr<const Call> call{};  // null: the base itself
  Shape shape{};
  size_t depth = 0;    // nesting of ops, at most kExportedLevelsMax
  std::string name{};  // of the author's op

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

// The traced value of a tensor, and its type.
struct TracedValue {
  using Value =
      std::variant<ConstantRef, LinearExprRef, FunctionRef, ScoresRef, ScoreRowRef, ComplexPair>;

  template <typename T>
  requires(std::is_constructible_v<Value, T> && !std::is_same_v<std::decay_t<T>, TracedValue>)
      TracedValue(T&& known, ElementType element_type = ElementType::kF32)
      : value(std::forward<T>(known)), type(element_type) {}

  Value value;
  ElementType type;  // of the program's tensor, unless it is a constant

  // Returns the alternative T, or an empty T if the value holds another alternative.
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

// Wraps a value as an argument or a result of a call.
inline Argument traced(TracedValue value) {
  return std::make_shared<const TracedValue>(std::move(value));
}
// Returns the argument `name` of a call, or null if it is no traced value.
const TracedValue* value_of(const Call& call, std::string_view name);
// Returns the argument `name` as alternative T, or null if it is another one.
template <typename T>
T value_as(const Call& call, std::string_view name) {
  const TracedValue* value = value_of(call, name);
  return value != nullptr ? value->as<T>() : T{};
}
// Returns the traced values among the arguments, including those in lists.
std::vector<TracedValue> values_of(const Call& call);

// Returns `call` with arrays in place of traced values. Only small constants keep their elements;
// other arrays have a shape and a type.
Call with_shapes(const Call& call);
// Returns `call` with arrays in place of constants. Throws NotRecognised if another traced value is
// among the arguments.
Call with_elements(const Call& call);

}  // namespace arenite::convert
