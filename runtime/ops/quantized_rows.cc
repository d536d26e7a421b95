// SPDX-License-Identifier: Apache-2.0
// Scale and zero point are those of XNNPACK's xnn_f32_qd8_asymmetric_quantization_params, computed
// so that no range overflows, without the C library, and with the same bits on every CPU.
#include "ops/quantized_rows.h"

#include <cmath>
#include <cstring>

#include "arenite/arena_formula.h"
#include "core/bit_cast.h"
#include "core/finite.h"

namespace arenite {
namespace {

constexpr float kLeast = -128.0f;
constexpr float kMost = 127.0f;
// Below this a scale would lose digits, or be none.
constexpr float kSmallestRange = 1e-35f;

// To nearest even. REQUIRES: |x| < 2^22.
int32_t rounded(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the sum's last bit is 1
  return bit_cast<int32_t>(x + kMagic) - bit_cast<int32_t>(kMagic);
}

struct Steps {
  float per_unit;  // 1 / scale
  QuantizedRow row;
};

Steps steps_between(float least, float most) {
  least = least < 0.0f ? least : 0.0f;
  most = most > 0.0f ? most : 0.0f;
  const float half_range = 0.5f * most - 0.5f * least;
  if (half_range < 0.5f * kSmallestRange) return {0.0f, {0, 1.0f}};
  const float per_unit = 0.5f * (kMost - kLeast) / half_range;
  const float steps_below = least * per_unit;
  const float steps_above = most * per_unit;
  // From the end that lies closer to a whole number of steps.
  float zero_point = (kLeast + steps_below) + (kMost + steps_above) > 0.0f ? kLeast - steps_below
                                                                           : kMost - steps_above;
  zero_point = zero_point < kLeast ? kLeast : zero_point;
  zero_point = zero_point > kMost ? kMost : zero_point;
  return {per_unit, {rounded(zero_point), 1.0f / per_unit}};
}

}  // namespace

QuantizedRows::QuantizedRows(std::byte* scratch, uint32_t rows, uint32_t columns)
    : numbers_(reinterpret_cast<int8_t*>(scratch)),
      stride_(static_cast<size_t>(quantized_scratch_bytes(columns)) - sizeof(QuantizedRow)),
      rows_(reinterpret_cast<QuantizedRow*>(scratch + rows * stride_)) {}

void QuantizedRows::quantize(const KernelSet& kernels, const QuantizedKernels& type,
                             const ConstMatrix& input, const ParallelFor& parallel) {
  const size_t bytes = input.columns * sizeof(float);
  auto work = [&](uint32_t index) {
    const float* const from = input.row(index);
    int8_t* const to = numbers_ + index * stride_;
    // XNNPACK's least and largest number pass over NaN. A sum does not, and is found sooner than
    // whether each number is finite; that of finite numbers may overflow.
    float sum = 0.0f;
    kernels.sum(bytes, from, &sum);
    if (!is_finite(sum) && !all_finite(from, input.columns)) {
      rows_[index] = {0, NAN};
      return;
    }
    float extremes[2];
    kernels.row_extremes(bytes, from, extremes);
    const Steps steps = steps_between(extremes[0], extremes[1]);
    type.quantize(bytes, from, steps.per_unit, steps.row.zero_point, to);
    // Kernels multiply the padding, too, and a file's padding need not be zero.
    std::memset(to + input.columns, 0, stride_ - input.columns);
    rows_[index] = steps.row;
  };
  for_each_row(parallel, input.rows, work);
}

}  // namespace arenite
