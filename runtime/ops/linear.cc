// SPDX-License-Identifier: Apache-2.0
// The linear op. Loop order: chunks of weights that fit the second-level cache; for each, all
// blocks of rows; inputs innermost, inside the kernel. A block's rows stay in the first-level
// cache, and the weights come from further away once per call instead of once per block.
#include "ops/linear.h"

#include <cassert>
#include <cmath>
#include <cstring>

#include "arenite/arena_formula.h"
#include "arenite/checked_math.h"
#include "core/float_bits.h"
#include "core/needs.h"

namespace arenite {

namespace {

// A separate function, so that builds without quantized weights leave it out.
void quantized_linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
                      const Matrix& output, const ScratchArea& scratch,
                      const ParallelFor& parallel) {
  const QuantizedKernels& of_type = kernels.quantized(weights.type);
  QuantizedRows rows(scratch.rows, input.rows, input.columns);
  rows.quantize(kernels, of_type, input, parallel);
  const ProductDivision division(of_type.packing, output, input.columns, parallel);
  auto work = [&](uint32_t task_index, uint32_t thread_index) {
    const ProductPart part(division, weights, output, task_index);
    multiply(of_type, rows, part.row, part, scratch.of(thread_index));
  };
  for_each_task(parallel, division.tasks(), division.task_work(), work);
}

}  // namespace

void linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
            const Matrix& output, const ScratchArea& scratch, const ParallelFor& parallel) {
  assert(input.rows == output.rows);
  assert(input.columns >= 1 && output.columns >= 1);
  assert(weights.rows == output.columns && weights.columns == input.columns);
  if constexpr (kInt8RowsLinked) {
    if (weight_type(weights.type).rounds_inputs) {
      quantized_linear(kernels, input, weights, output, scratch, parallel);
      return;
    }
  }
  const FloatKernels& of_type =
      linked(Need::kW8) && weights.type == TensorType::kW8 ? *kernels.w8 : kernels.f32;
  const ProductDivision division(of_type.packing, output, input.columns, parallel);
  auto work = [&](uint32_t task_index, uint32_t) {
    const ProductPart part(division, weights, output, task_index);
    of_type.gemm[part.rows](part.rows, part.columns, input.columns * sizeof(float),
                            input.row(part.row), input.stride * sizeof(float), part.weight,
                            part.result, output.stride * sizeof(float));
  };
  for_each_task(parallel, division.tasks(), division.task_work(), work);
}

// Scale and zero point are those of XNNPACK's xnn_f32_qd8_asymmetric_quantization_params, computed
// so that no range overflows, without the C library, and with the same bits on every CPU.

namespace {

constexpr float kLeast = -128.0f;
constexpr float kMost = 127.0f;
// A smaller range would have a scale that loses digits, or underflows.
constexpr float kSmallestRange = 1e-35f;

// Rounds to nearest even. REQUIRES: |x| < 2^22.
int32_t rounded(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the last bit of the sum is worth 1
  return bit_cast<int32_t>(x + kMagic) - bit_cast<int32_t>(kMagic);
}

struct Steps {
  float per_unit;  // 1 / scale
  QuantizedRow row;
};

// REQUIRES: least <= 0 <= most.
Steps steps_between(float least, float most) {
  const float half_range = 0.5f * most - 0.5f * least;
  if (half_range < 0.5f * kSmallestRange) return {0.0f, {0, 1.0f}};
  const float per_unit = 0.5f * (kMost - kLeast) / half_range;
  const float steps_below = least * per_unit;
  const float steps_above = most * per_unit;
  // Counts from the end with the smaller magnitude, as XNNPACK does, where rounding loses less.
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

void QuantizedRows::quantize_row(const KernelSet& kernels, const QuantizedKernels& type,
                                 uint32_t index, const RowPieces& from) {
  const size_t bytes = from.columns * sizeof(float);
  // XNNPACK's minimum and maximum ignore NaN. A sum does not, and is faster than testing each
  // element. As it may overflow, the elements are tested if it is not finite.
  float sum = 0.0f;
  float least = 0.0f;
  float most = 0.0f;
  for (uint32_t i = 0; i < from.size(); ++i) {
    float extremes[2];
    if (kernels.row_range != nullptr) {
      kernels.row_range(bytes, from[i], extremes, &sum);
    } else {
      kernels.sum(bytes, from[i], &sum);
      kernels.row_extremes(bytes, from[i], extremes);
    }
    least = extremes[0] < least ? extremes[0] : least;
    most = extremes[1] > most ? extremes[1] : most;
  }
  for (uint32_t i = 0; !is_finite(sum) && i < from.size(); ++i) {
    if (all_finite(from[i], from.columns)) continue;
    rows_[index] = {0, NAN};
    return;
  }
  const Steps steps = steps_between(least, most);
  int8_t* const to = numbers_ + index * stride_;
  for (uint32_t i = 0; i < from.size(); ++i) {
    type.quantize(bytes, from[i], steps.per_unit, steps.row.zero_point, to + i * from.columns);
  }
  // Kernels multiply the padding, too, and the padding of weights in a file need not be zero.
  const size_t columns = size_t{from.size()} * from.columns;
  std::memset(to + columns, 0, stride_ - columns);
  rows_[index] = steps.row;
}

void QuantizedRows::quantize(const KernelSet& kernels, const QuantizedKernels& type,
                             const ConstMatrix& input, const ParallelFor& parallel) {
  auto work = [&](uint32_t index) {
    const float* const from = input.row(index);
    quantize_row(kernels, type, index, {&from, 1, 1, input.columns});
  };
  for_each_row(parallel, input.rows, input.columns * kRoundWork, work);
}

void multiply(const QuantizedKernels& kernels, const QuantizedRows& rows, uint32_t first,
              const ProductPart& part, std::byte* scratch) {
  QuantizedRow scales[kRowsMax];
  for (uint32_t r = 0; r < kRowsMax; ++r) {
    scales[r] = rows.scale(first + (r < part.rows ? r : part.rows - 1));
  }
  kernels.gemm[part.rows](part.rows, part.columns, part.inputs, rows.row(first), rows.stride(),
                          part.weight, part.result, part.result_stride * sizeof(float), scales,
                          scratch);
  // Kernels that clamp turn NaN into a limit, so it is written here.
  for (uint32_t r = 0; r < part.rows; ++r) {
    if (scales[r].scale == scales[r].scale) continue;
    float* const row = part.result + r * part.result_stride;
    for (uint32_t i = 0; i < part.columns; ++i) row[i] = NAN;
  }
}

}  // namespace arenite
