// SPDX-License-Identifier: Apache-2.0
// Arrays of an exported graph in double precision: what its constants, inputs and results are.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {

// Extents of an array, the outermost dimension first; empty: a scalar. No extent is negative.
using Shape = std::vector<int64_t>;

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

  // REQUIRES (of all five): `values` has as many elements as `shape`.
  static Array real(Shape shape, Reals values, ElementType type = ElementType::kF32);
  static Array of_floats(Shape shape, Floats values, ElementType type = ElementType::kF32);
  static Array integer(Shape shape, Integers values, ElementType type = ElementType::kI64);
  static Array boolean(Shape shape, Bools values);
  static Array complex(Shape shape, Complexes values, ElementType type = ElementType::kComplex64);
  // A type and a shape alone.
  static Array of_shape(Shape shape, ElementType type);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  size_t elements() const;
  bool has_values() const { return !std::holds_alternative<std::monostate>(values_); }

  // The elements where they are floats as yet, else null.
  const Floats* floats() const {
    const auto* shared = std::get_if<Shared<Floats>>(&values_);
    return shared != nullptr ? shared->get() : nullptr;
  }

  // The elements as they are. REQUIRES: has_values() and a type of this kind.
  const Reals& reals() const;
  const Integers& integers() const { return *std::get<Shared<Integers>>(values_); }
  const Bools& bools() const { return *std::get<Shared<Bools>>(values_); }
  const Complexes& complexes() const { return *std::get<Shared<Complexes>>(values_); }

  // The elements converted, as PyTorch's `to` does; complex numbers lose their imaginary part.
  // REQUIRES: has_values().
  Reals to_reals() const;
  Integers to_integers() const;
  Bools to_bools() const;
  Complexes to_complexes() const;

  // The same elements in another shape. REQUIRES: as many elements.
  Array with_shape(Shape shape) const;
  // The elements converted to `type`. Whole numbers wrap around.
  Array to(ElementType type) const;

  // Calls `visit` with the vector of elements. REQUIRES: has_values().
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
      : type_(type),
        shape_(std::move(shape)),
        values_(std::make_shared<const Vector>(std::move(values))) {}

  ElementType type_ = ElementType::kF32;
  Shape shape_;
  mutable std::variant<std::monostate, Shared<Reals>, Shared<Floats>, Shared<Integers>,
                       Shared<Bools>, Shared<Complexes>>
      values_;
};

// Shapes that do not go together or are too large. Whoever knows the op says which it is.
struct ShapeError : InputError {
  using InputError::InputError;
};

// While it lives, arrays of this thread have at most so many elements: what a graph of a few bytes
// may repeat without end is refused before there is memory for it.
class ElementLimit {
 public:
  explicit ElementLimit(uint64_t elements_max);
  ~ElementLimit();
  ElementLimit(const ElementLimit&) = delete;
  ElementLimit& operator=(const ElementLimit&) = delete;

 private:
  uint64_t before_;
};

// The number of elements of `shape`. Throws ShapeError beyond an ElementLimit, or
// kExportedElementsMax (input_limits.h) where there is none.
size_t elements_of(const Shape& shape);
// Elements from one index of a dimension to the next.
Shape strides_of(const Shape& shape);
// All but the last two extents.
Shape leading(const Shape& shape);

std::string shape_text(const Shape& shape);  // "[2, 3]"

// The shape that arrays of both shapes are stretched to. Throws ShapeError where there is none.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace arenite::convert
