// SPDX-License-Identifier: Apache-2.0
// Arrays, shapes and element types of an exported graph, in double precision, and limits on the
// cost of their evaluation. Access to a dimension is checked, and an array's element count always
// matches its shape.
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
// Thrown for shapes that do not fit or are too large. Callers that know the op add its name.
struct ShapeError : InputError {
  using InputError::InputError;
};

// Extents of an array, outermost first; empty for a scalar. No extent is negative. Indexing is
// checked: a dimension that does not exist throws ShapeError.
class Shape : public std::vector<int64_t> {
 public:
  using vector::vector;
  Shape(vector extents) : vector(std::move(extents)) {}  // implicit: lists of numbers are shapes

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

// Element types of PyTorch.
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
// Returns the rank of the type's kind: bool 0, integer 1, real 2, complex 3. PyTorch promotes by
// kind first, and within a kind by size.
int kind_of(ElementType type);

// Returns the type to which PyTorch promotes operands of these two types.
ElementType promote(ElementType a, ElementType b);

// A row-major array. Copies share their elements, which are immutable. An array without elements
// has only a type and a shape; it stands for a value that depends on the model's input.
//
// Real types hold doubles that are never rounded to the author's type; only ops whose result
// depends on `type` read it. Weights stay float until their doubles are read. Integers are int64_t,
// and wrap when converted to a narrower type; bools are 0 and 1.
class Array {
 public:
  using Reals = std::vector<double>;
  using Floats = std::vector<float>;
  using Integers = std::vector<int64_t>;
  using Bools = std::vector<uint8_t>;
  using Complexes = std::vector<std::complex<double>>;

  Array() = default;

  // All five throw ShapeError if the number of `values` does not match `shape`.
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
  // Makes an array without elements.
  static Array of_shape(Shape shape, ElementType type);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  size_t elements() const { return elements_; }
  bool has_values() const { return !std::holds_alternative<std::monostate>(values_); }

  // Returns the elements if they are still stored as floats, else null.
  const Floats* floats() const {
    const auto* shared = std::get_if<Shared<Floats>>(&values_);
    return shared != nullptr ? shared->get() : nullptr;
  }

  // Return the elements unconverted. Throw ShapeError if there are no elements of this kind.
  const Reals& reals() const;
  const Integers& integers() const { return elements_as<Integers>(); }
  const Bools& bools() const { return elements_as<Bools>(); }
  const Complexes& complexes() const { return elements_as<Complexes>(); }

  // Return the elements converted as PyTorch's `to` does: complex numbers lose their imaginary
  // part. Throw ShapeError if there are no elements.
  Reals to_reals() const;
  Integers to_integers() const;
  Bools to_bools() const;
  Complexes to_complexes() const;

  // Returns these elements in another shape. Throws ShapeError if the counts differ.
  Array with_shape(Shape shape) const;
  // Returns the elements converted to `type`; integers wrap around.
  Array to(ElementType type) const;

  // Returns the elements converted to T, as reals() and its siblings do.
  template <typename T>
  const std::vector<T>& values() const {
    if constexpr (std::is_same_v<T, double>) return reals();
    return elements_as<std::vector<T>>();
  }
  // Returns an array of this type with the elements make(elements).
  template <typename Make>
  Array remade(Shape shape, const Make& make) const {
    return visit([&](const auto& values) { return Array(std::move(shape), make(values), type_); });
  }

  // Calls visit(elements). Throws ShapeError if there are none.
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
    if (shared == nullptr) throw ShapeError("its elements depend on the model's input");
    return **shared;
  }

  ElementType type_ = ElementType::kF32;
  Shape shape_;
  size_t elements_ = 1;
  mutable std::variant<std::monostate, Shared<Reals>, Shared<Floats>, Shared<Integers>,
                       Shared<Bools>, Shared<Complexes>>
      values_;
};

// Returns the product of the extents. Throws ShapeError beyond the ElementLimit, which is
// kExportedElementsMax (input_limits.h) by default.
size_t elements_of(const Shape& shape);
// Returns row-major strides, in elements.
Shape strides_of(const Shape& shape);
// Returns all but the last two extents.
Shape leading(const Shape& shape);

std::string shape_text(const Shape& shape);  // "[2, 3]"

// Return the shape that both broadcast to. If there is none, common_shape returns nullopt, and
// broadcast throws ShapeError.
std::optional<Shape> common_shape(const Shape& a, const Shape& b);
Shape broadcast(const Shape& a, const Shape& b);

// Per-thread limits on the cost of reading a program, whatever its file asks for: elements of an
// array, total work and depth of recursion. Code checks them before it allocates or recurses. If
// limits are nested, the smallest applies.

// Sets a thread-local number during its lifetime.
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

// Limits the elements of each array of this thread, so that a graph of a few bytes is refused
// before it allocates without end.
struct ElementLimit : ThreadLimit {
  explicit ElementLimit(uint64_t elements_max);

  // Returns this thread's limit, kExportedElementsMax by default.
  static uint64_t current();
};

// Limits the work of this thread, in steps of about one nanosecond.
struct WorkBudget : ThreadLimit {
  explicit WorkBudget(uint64_t steps);

  // Deducts the cost of work before it is done. Throws ShapeError if too little is left; does
  // nothing on a thread without a budget.
  static void take(uint64_t steps);
};

// Counts a level of recursion. Throws ShapeError beyond kExportedLevelsMax, which fits the stack of
// any thread. Recursion that a file controls must hold one Level per call.
struct Level : ThreadLimit {
  Level();
};

}  // namespace arenite::convert
