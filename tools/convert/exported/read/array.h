// SPDX-License-Identifier: Apache-2.0
// Arrays of an exported graph in double precision: what its constants, inputs and results are.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
// Shapes that do not go together or are too large. Whoever knows the op says which it is.
struct ShapeError : InputError {
  using InputError::InputError;
};

// Extents of an array, the outermost dimension first; empty: a scalar. No extent is negative. It is
// a vector whose elements are looked at through checks: of a dimension that is not there, as of a
// scalar that somebody takes for rows, they throw ShapeError.
class Shape : public std::vector<int64_t> {
 public:
  using vector::vector;
  Shape(vector extents)
      : vector(std::move(extents)) {}  // not explicit: lists of numbers are shapes

  int64_t& operator[](size_t dim) { return data()[checked(dim)]; }
  int64_t operator[](size_t dim) const { return data()[checked(dim)]; }
  int64_t& at(size_t dim) { return (*this)[dim]; }
  int64_t at(size_t dim) const { return (*this)[dim]; }
  int64_t& front() { return (*this)[0]; }
  int64_t front() const { return (*this)[0]; }
  int64_t& back() { return (*this)[size() - 1]; }
  int64_t back() const { return (*this)[size() - 1]; }
  void pop_back() {
    checked(0);
    vector::pop_back();
  }

 private:
  size_t checked(size_t dim) const {
    if (dim >= size()) refuse_dimension(dim);
    return dim;
  }
  [[noreturn]] void refuse_dimension(size_t dim) const;
};

// PyTorch's types of elements, as the author's tensors have them.
enum class ElementType {
  kBool,
  kU8,
  kI8,
  kI16,
  kI32,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kComplex64,
  kComplex128,
};

const char* name(ElementType type);  // as PyTorch writes it: "float32"
bool is_real(ElementType type);      // f16 to f64
bool is_integer(ElementType type);   // u8 to i64
bool is_complex(ElementType type);
// PyTorch promotes by kind first, and within a kind by size.
int kind_of(ElementType type);

// The type that PyTorch computes with for operands of both types.
ElementType promote(ElementType a, ElementType b);

// An array in row-major order. Copies share their elements, which nobody changes. An array may have
// no elements to look at, only a type and a shape: then it stands for a value that depends on the
// model's input.
//
// All real types hold doubles, which are never rounded to the author's type: only `type` remembers
// it, for ops whose result depends on it. Weights are floats until somebody asks for their doubles.
// Whole numbers are int64_t, wrapped to their type where they are converted to it; bools are 0
// and 1.
class Array {
 public:
  using Reals = std::vector<double>;
  using Floats = std::vector<float>;
  using Integers = std::vector<int64_t>;
  using Bools = std::vector<uint8_t>;
  using Complexes = std::vector<std::complex<double>>;

  Array() = default;

  // All five throw ShapeError unless `values` has as many elements as `shape`.
  static Array real(Shape shape, Reals values, ElementType type = ElementType::kF32) {
    return {std::move(shape), std::move(values), type};
  }
  static Array of_floats(Shape shape, Floats values, ElementType type) {
    return {std::move(shape), std::move(values), type};
  }
  static Array integer(Shape shape, Integers values, ElementType type = ElementType::kI64) {
    return {std::move(shape), std::move(values), type};
  }
  static Array boolean(Shape shape, Bools values) {
    return {std::move(shape), std::move(values), ElementType::kBool};
  }
  static Array complex(Shape shape, Complexes values, ElementType type = ElementType::kComplex64) {
    return {std::move(shape), std::move(values), type};
  }
  // A type and a shape alone.
  static Array of_shape(Shape shape, ElementType type);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  size_t elements() const { return elements_; }
  bool has_values() const { return !std::holds_alternative<std::monostate>(values_); }

  // The elements where they are floats as yet, else null.
  const Floats* floats() const {
    const auto* shared = std::get_if<Shared<Floats>>(&values_);
    return shared != nullptr ? shared->get() : nullptr;
  }

  // The elements as they are. Throw ShapeError where there are none of this kind.
  const Reals& reals() const;
  const Integers& integers() const { return elements_as<Integers>(); }
  const Bools& bools() const { return elements_as<Bools>(); }
  const Complexes& complexes() const { return elements_as<Complexes>(); }

  // The elements converted, as PyTorch's `to` does; complex numbers lose their imaginary part.
  // Throw ShapeError where there are none.
  Reals to_reals() const;
  Integers to_integers() const;
  Bools to_bools() const;
  Complexes to_complexes() const;

  // The same elements in another shape. Throws ShapeError for one of more or fewer elements.
  Array with_shape(Shape shape) const;
  // The elements converted to `type`. Whole numbers wrap around.
  Array to(ElementType type) const;

  // The elements where they are of this type, as reals() and its like.
  template <typename T>
  const std::vector<T>& values() const {
    if constexpr (std::is_same_v<T, double>) return reals();
    return elements_as<std::vector<T>>();
  }
  // An array of this type whose elements are what `make` gives for the vector of these.
  template <typename Make>
  Array remade(Shape shape, const Make& make) const {
    return visit([&](const auto& values) { return Array(std::move(shape), make(values), type_); });
  }

  // Calls `visit` with the vector of elements. Throws ShapeError where there are none.
  template <typename Visit>
  auto visit(const Visit& visit) const {
    if (is_real(type_)) return visit(reals());
    if (is_integer(type_)) return visit(integers());
    if (is_complex(type_)) return visit(complexes());
    return visit(bools());
  }

 private:
  template <typename Vector>
  using Shared = std::shared_ptr<const Vector>;
  template <typename Vector>
  Array(Shape shape, Vector values, ElementType type)
      : type_(type), shape_(std::move(shape)), elements_(values.size()) {
    require_elements(shape_, elements_);
    values_ = std::make_shared<const Vector>(std::move(values));
  }
  static void require_elements(const Shape& shape, size_t elements);
  template <typename Vector>
  const Vector& elements_as() const {
    const auto* shared = std::get_if<Shared<Vector>>(&values_);
    if (shared == nullptr) throw ShapeError("its numbers depend on the model's input");
    return **shared;
  }

  ElementType type_ = ElementType::kF32;
  Shape shape_;
  size_t elements_ = 1;
  mutable std::variant<std::monostate, Shared<Reals>, Shared<Floats>, Shared<Integers>,
                       Shared<Bools>, Shared<Complexes>>
      values_;
};

// The number of elements of `shape`. Throws ShapeError beyond an ElementLimit, or
// kExportedElementsMax (input_limits.h) where there is none.
size_t elements_of(const Shape& shape);
// Elements from one index of a dimension to the next.
Shape strides_of(const Shape& shape);
// All but the last two extents.
Shape leading(const Shape& shape);

std::string shape_text(const Shape& shape);  // "[2, 3]"

// The shape that arrays of both shapes are stretched to, or nothing; `broadcast` throws ShapeError.
std::optional<Shape> common_shape(const Shape& a, const Shape& b);
Shape broadcast(const Shape& a, const Shape& b);

// What reading one program may cost, whatever its file says: the size of an array, the work of all
// of it, and how deep ops are looked into. Whoever makes arrays or goes deeper asks here first. Of
// limits that live within each other the smallest one holds.

// Sets a number of this thread while it lives.
class ThreadLimit {
 public:
  ThreadLimit(uint64_t& place, uint64_t value)
      : place_(place), before_(std::exchange(place, value)) {}
  ~ThreadLimit() { place_ = before_; }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  uint64_t& place_;
  uint64_t before_;
};

// While it lives, arrays of this thread have at most so many elements: what a graph of a few bytes
// may repeat without end is refused before there is memory for it.
struct ElementLimit : ThreadLimit {
  explicit ElementLimit(uint64_t elements_max);

  // Of this thread: kExportedElementsMax where there is none.
  static uint64_t current();
};

// While it lives, this thread takes at most so many steps, of which one is about a nanosecond.
struct WorkBudget : ThreadLimit {
  explicit WorkBudget(uint64_t steps);

  // Takes off what is about to be done. Throws ShapeError when there is not so much left, and does
  // nothing on a thread without a budget.
  static void take(uint64_t steps);
};

// One op looked into from within another. Throws ShapeError beyond kExportedLevelsMax, which the
// stack of any thread has room for: nothing that a file asks for may recurse without it.
struct Level : ThreadLimit {
  Level();
};

}  // namespace arenite::convert
