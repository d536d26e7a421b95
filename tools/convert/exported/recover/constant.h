// SPDX-License-Identifier: Apache-2.0
// Values of an exported program that do not depend on the model's input: its weights, and what ops
// make of them and of numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "convert/exported/read/array.h"
#include "convert/exported/read/exported_program.h"
#include "convert/files/error.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {
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

  Array array() const {
    if (array_) return *array_;
    const Level level;
    Array loaded = load_();
    if (loaded.shape() != shape_) {
      throw ShapeError("it is a tensor {} where the program says {}", shape_text(loaded.shape()),
                       shape_text(shape_));
    }
    if (!is_large()) array_ = loaded;
    return loaded;
  }

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

// Why a program cannot become the runtime's. The op and its place are added by who catches it.
struct NotRecognised : InputError {
  explicit NotRecognised(std::string_view why) : InputError("{}", why) {}
};

// What the program calls it; of what is no value of the program, nothing.
std::string name_of(const ExportedProgram& program, const Constant& constant);

// The same elements in another shape.
ConstantRef with_shape(const ConstantRef& constant, const Shape& shape);

// The constant as a matrix of weights [rows, columns], transposed before if asked. `name` is for
// messages where it is not stored so. REQUIRES: two dimensions.
WeightRef weight_of(const std::shared_ptr<const ExportedProgram>& program,
                    const ConstantRef& constant, bool transposed);

// Weights that `exact` computes when they are loaded.
void set_exact(WeightRef& weight, std::function<std::vector<double>()> exact);

// The weights with column c as column order[c]. REQUIRES: a permutation.
WeightRef with_columns(const WeightRef& weight, const std::vector<uint32_t>& order);

}  // namespace arenite::convert
