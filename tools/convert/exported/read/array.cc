// SPDX-License-Identifier: Apache-2.0
// Conversion and promotion of element types, and broadcasting of shapes.
#include "convert/exported/read/array.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// Saturates where C++ and PyTorch leave the result undefined.
int64_t to_integer(double value) {
  constexpr double kEnd = 0x1p63;
  if (std::isnan(value) || value < -kEnd) return std::numeric_limits<int64_t>::min();
  if (value >= kEnd) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(value);
}

int64_t wrapped(int64_t value, ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return static_cast<uint8_t>(value);
    case ElementType::kI8:
      return static_cast<int8_t>(value);
    case ElementType::kI16:
      return static_cast<int16_t>(value);
    case ElementType::kI32:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

template <typename To, typename From>
To converted(const From& value) {
  if constexpr (std::is_same_v<From, std::complex<double>>) {
    if constexpr (std::is_same_v<To, From>) return value;
    if constexpr (std::is_same_v<To, double>) return value.real();
    if constexpr (std::is_same_v<To, int64_t>) return to_integer(value.real());
    if constexpr (std::is_same_v<To, uint8_t>) return value != From{} ? 1 : 0;
  } else if constexpr (std::is_same_v<To, uint8_t>) {
    return value != From{} ? 1 : 0;
  } else if constexpr (std::is_same_v<To, int64_t> && std::is_same_v<From, double>) {
    return to_integer(value);
  } else if constexpr (std::is_same_v<To, std::complex<double>>) {
    return {static_cast<double>(value), 0.0};
  } else {
    return static_cast<To>(value);
  }
}

template <typename To>
std::vector<To> all_converted(const Array& array) {
  return array.visit([](const auto& values) {
    std::vector<To> result;
    result.reserve(values.size());
    for (const auto& value : values) result.push_back(converted<To>(value));
    return result;
  });
}

}  // namespace

const char* name(ElementType type) {
  constexpr const char* kNames[] = {"bool",    "uint8",   "int8",      "int16",
                                    "int32",   "int64",   "float16",   "bfloat16",
                                    "float32", "float64", "complex64", "complex128"};
  static_assert(std::size(kNames) == static_cast<size_t>(ElementType::kComplex128) + 1);
  return kNames[static_cast<size_t>(type)];
}

bool is_real(ElementType type) { return type >= ElementType::kF16 && type <= ElementType::kF64; }

bool is_integer(ElementType type) { return type >= ElementType::kU8 && type <= ElementType::kI64; }

bool is_complex(ElementType type) { return type >= ElementType::kComplex64; }

int kind_of(ElementType type) {
  return is_complex(type) ? 3 : is_real(type) ? 2 : is_integer(type) ? 1 : 0;
}

ElementType promote(ElementType a, ElementType b) {
  if (a == b) return a;
  if (kind_of(a) != kind_of(b)) {
    const ElementType wider = kind_of(a) > kind_of(b) ? a : b;
    const ElementType other = wider == a ? b : a;
    const bool is_double = other == ElementType::kF64;
    return wider == ElementType::kComplex64 && is_double ? ElementType::kComplex128 : wider;
  }
  const auto either = [&](ElementType x, ElementType y) {
    return (a == x && b == y) || (a == y && b == x);
  };
  if (either(ElementType::kF16, ElementType::kBF16)) return ElementType::kF32;
  if (either(ElementType::kU8, ElementType::kI8)) return ElementType::kI16;
  return std::max(a, b);
}

void Shape::refuse_dimension(size_t dim) const {
  // A negative dimension has wrapped around.
  const size_t expected = dim > kExportedRankMax ? size() + (SIZE_MAX - dim) + 1 : dim + 1;
  throw ShapeError("found a tensor {}: expected at least {} dimensions", shape_text(*this),
                   expected);
}

void Array::require_elements(const Shape& shape, size_t elements) {
  if (elements_of(shape) == elements) return;
  throw ShapeError("{} elements do not fill a tensor {}", elements, shape_text(shape));
}

Array Array::of_shape(Shape shape, ElementType type) {
  Array array;
  array.elements_ = elements_of(shape);
  array.shape_ = std::move(shape);
  array.type_ = type;
  return array;
}

const Array::Reals& Array::reals() const {
  if (const Floats* stored = floats()) {
    values_ = std::make_shared<const Reals>(stored->begin(), stored->end());
  }
  return elements_as<Reals>();
}

Array::Reals Array::to_reals() const { return all_converted<double>(*this); }

Array::Integers Array::to_integers() const { return all_converted<int64_t>(*this); }

Array::Bools Array::to_bools() const { return all_converted<uint8_t>(*this); }

Array::Complexes Array::to_complexes() const { return all_converted<std::complex<double>>(*this); }

Array Array::with_shape(Shape shape) const {
  require_elements(shape, elements_);
  Array array = *this;
  array.shape_ = std::move(shape);
  return array;
}

Array Array::to(ElementType type) const {
  if (!has_values()) return of_shape(shape_, type);
  if (type == type_) return *this;
  const auto fits = [&](int64_t value) { return value == wrapped(value, type); };
  if (kind_of(type) == kind_of(type_) &&
      (!is_integer(type) || std::ranges::all_of(integers(), fits))) {
    Array array = *this;  // equal elements under another type
    array.type_ = type;
    return array;
  }
  if (is_real(type)) return real(shape_, to_reals(), type);
  if (is_complex(type)) return complex(shape_, to_complexes(), type);
  if (type == ElementType::kBool) return boolean(shape_, to_bools());
  Integers values = to_integers();
  for (int64_t& value : values) value = wrapped(value, type);
  return integer(shape_, std::move(values), type);
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Shape leading(const Shape& shape) {
  return shape.size() < 2 ? Shape{} : Shape(shape.begin(), shape.end() - 2);
}

size_t elements_of(const Shape& shape) {
  uint64_t elements = 1;
  bool is_empty = false;
  if (shape.size() > 2 * kExportedRankMax) {
    throw ShapeError("found a tensor of {} dimensions: no model has as many", shape.size());
  }
  for (const int64_t extent : shape) {
    if (extent < 0) throw ShapeError("found a shape {} with a negative extent", shape_text(shape));
    is_empty = is_empty || extent == 0;
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(extent == 0 ? 1 : extent),
                               &elements) ||
        elements > ElementLimit::current()) {
      throw ShapeError("a tensor {} exceeds the limit of {} elements", shape_text(shape),
                       ElementLimit::current());
    }
  }
  return is_empty ? 0 : static_cast<size_t>(elements);
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::optional<Shape> common_shape(const Shape& a, const Shape& b) {
  Shape shape = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  const size_t lead = shape.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    int64_t& extent = shape[lead + i];
    if (extent == other[i] || other[i] == 1) continue;
    if (extent != 1) return std::nullopt;
    extent = other[i];
  }
  return shape;
}

Shape broadcast(const Shape& a, const Shape& b) {
  if (std::optional<Shape> shape = common_shape(a, b)) return *std::move(shape);
  throw ShapeError("shapes {} and {} cannot be broadcast", shape_text(a), shape_text(b));
}

namespace {

thread_local uint64_t elements_max = UINT64_MAX;
thread_local uint64_t steps_left = UINT64_MAX;
thread_local uint64_t levels = 0;

}  // namespace

ElementLimit::ElementLimit(uint64_t limit)
    : ThreadLimit(elements_max, std::min(elements_max, limit)) {}

uint64_t ElementLimit::current() {
  return elements_max == UINT64_MAX ? kExportedElementsMax : elements_max;
}

WorkBudget::WorkBudget(uint64_t steps) : ThreadLimit(steps_left, std::min(steps_left, steps)) {}

void WorkBudget::take(uint64_t steps) {
  if (steps_left == UINT64_MAX) return;
  if (steps > steps_left) {
    steps_left = 0;
    throw ShapeError(
        "the program exceeds the work limit for a model of this size: export the model for a "
        "shorter input");
  }
  steps_left -= steps;
}

Level::Level() : ThreadLimit(levels, levels + 1) {
  if (levels <= kExportedLevelsMax) return;
  throw ShapeError("found more than {} nested ops in a formula: not supported", kExportedLevelsMax);
}

}  // namespace arenite::convert
