// SPDX-License-Identifier: Apache-2.0
// Expands group scales to block scales, and rounds them.
#include "convert/spec/quantized_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

void check_scale(float scale, size_t index, const ScaledIntegers& integers,
                 const std::string& where) {
  const float magnitude = std::fabs(scale);
  if (scale == 0.0f || (magnitude >= kScaleMin && magnitude <= kScaleMax)) return;
  const size_t groups = integers.columns / integers.group;
  const size_t first = index % groups * integers.group;
  throw InputError(
      "{}: the scale of row {}, columns {} to {}, is {}: expected 0 or a magnitude from {} to {}; "
      "the file is damaged, or its weights are out of range: convert the unquantized model",
      where, index / groups, first, first + integers.group - 1, scale, kScaleMin, kScaleMax);
}

}  // namespace

void check_scales(const ScaleReport& scales, const std::string& name, const std::string& rule) {
  if (scales.clamped == 0) return;
  throw InputError(
      "{}: its weights are too large to quantize: the scales of {} of its rows or blocks would be "
      "above {:.0e}, near where bfloat16 and products end: pass --keep {}",
      quote(name), scales.clamped, kScaleMax, rule);
}

std::vector<float> products(const ScaledIntegers& integers) {
  std::vector<float> numbers(integers.values.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = integers.scales[i / integers.group] * static_cast<float>(integers.values[i]);
  }
  return numbers;
}

bool can_hold(TensorType type, uint32_t bits, uint32_t columns, uint32_t group) {
  const uint32_t block = weight_type(type).block;
  return bits == weight_type(type).bits &&
         (block == 0 ? group == columns : columns % block == 0 && group % block == 0);
}

QuantizedMatrix keep_integers(ScaledIntegers integers, TensorType type, const std::string& where) {
  const uint32_t block = weights_per_scale(type, integers.columns);
  QuantizedMatrix matrix{.type = type, .rows = integers.rows, .columns = integers.columns};
  matrix.scales.reserve(integers.values.size() / block);
  for (size_t i = 0; i < integers.scales.size(); ++i) {
    float scale = integers.scales[i];
    check_scale(scale, i, integers, where);
    if (scale == 0.0f) {
      std::fill_n(integers.values.begin() + static_cast<ptrdiff_t>(i * integers.group),
                  integers.group, int8_t{0});
      scale = 1.0f;
    } else if (has_blocks(type)) {
      scale = to_bfloat16(scale);
    }
    matrix.scales.insert(matrix.scales.end(), integers.group / block, scale);
  }
  matrix.values = std::move(integers.values);
  return matrix;
}

bool offers(const WeightRef& weight, TensorType type) {
  return weight.load_quantized && weight.quantized.type == use_of(type).integers;
}

QuantizedMatrix load_as(const WeightRef& weight, TensorType type) {
  QuantizedMatrix matrix = weight.load_quantized();
  matrix.type = type;
  return matrix;
}

ScaleChange change_of_scales(const WeightRef& weight) {
  const Floats before = weight.load();
  const QuantizedMatrix matrix = weight.load_quantized();
  const size_t block = matrix.values.size() / matrix.scales.size();
  ScaleChange change;
  double squares = 0.0;
  size_t count = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == 0.0f) continue;
    const double after = double{matrix.scales[i / block]} * matrix.values[i];
    const double share = std::fabs(after / double{before[i]} - 1.0);
    change.largest = std::max(change.largest, share);
    squares += share * share;
    ++count;
  }
  if (count != 0) change.root_mean_square = std::sqrt(squares / static_cast<double>(count));
  return change;
}

}  // namespace arenite::convert
