// SPDX-License-Identifier: Apache-2.0
// Loop order: chunks of weights that fit the second-level cache; for each, all blocks of rows;
// inputs innermost, inside the kernel. A block's rows stay in the first-level cache, and the
// weights come from further away once per call instead of once per block.
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

// Tasks per thread that even out threads of different speed.
constexpr uint32_t kTasksPerThread = 4;
// Weights that stay cached while the blocks of rows pass: less than half of a common 1 MB.
constexpr size_t kChunkBytes = 400 * 1024;

uint32_t at_least_one(size_t number) { return number > 1 ? static_cast<uint32_t>(number) : 1; }

// How a product is divided: blocks of rows, and chunks of panels of weights.
struct Division {
  Division(Packing packing_in, const ConstMatrix& input, const Matrix& output,
           const ParallelFor& parallel)
      : packing(packing_in),
        blocks(input.rows, packing.mr),
        bytes_of_panel(panel_bytes(packing, input.columns).value()) {
    const uint32_t panels = panels_of(packing, output.columns);
    chunk_panels = panels;
    if (blocks.count > 1) chunk_panels = at_least_one(kChunkBytes / bytes_of_panel);
    // With few rows, as in decoding, the columns are split over the threads too.
    const uint32_t chunks_wanted =
        parallel.run == nullptr ? 1 : div_up(parallel.threads * kTasksPerThread, blocks.count);
    const uint32_t panels_wanted = at_least_one(panels / chunks_wanted);
    if (chunk_panels > panels_wanted) chunk_panels = panels_wanted;
    chunks = div_up(panels, chunk_panels);
  }

  Packing packing;
  RowBlocks blocks;
  size_t bytes_of_panel;
  uint32_t chunk_panels;
  uint32_t chunks;
};

// One task: a block of rows times a chunk of panels.
struct Part {
  Part(const Division& division, const WeightView& weights, const Matrix& output,
       uint32_t task_index) {
    const uint32_t first_panel = task_index / division.blocks.count * division.chunk_panels;
    const uint32_t block = task_index % division.blocks.count;
    row = division.blocks.begin(block);
    rows = division.blocks.size(block);
    const uint32_t column = first_panel * division.packing.nr;
    const uint32_t columns_left = output.columns - column;
    const uint32_t chunk_columns = division.chunk_panels * division.packing.nr;
    columns = columns_left < chunk_columns ? columns_left : chunk_columns;
    weight = weights.data + first_panel * division.bytes_of_panel;
    result = output.row(row) + column;
  }

  uint32_t row;
  uint32_t rows;
  uint32_t columns;
  const std::byte* weight;
  float* result;
};

// Out of line, so that models without quantized weights do not have it.
void quantized_linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
                      const Matrix& output, std::byte* scratch, const ParallelFor& parallel) {
  const QuantizedKernels& of_type = kernels.quantized(weights.type);
  QuantizedRows rows(scratch, input.rows, input.columns);
  rows.quantize(kernels, of_type, input, parallel);
  const Division division(of_type.packing, input, output, parallel);
  auto work = [&](uint32_t task_index, uint32_t) {
    const Part part(division, weights, output, task_index);
    QuantizedRow scales[kRowsMax];
    for (uint32_t r = 0; r < kRowsMax; ++r) {
      scales[r] = rows.scale(part.row + (r < part.rows ? r : part.rows - 1));
    }
    of_type.gemm[part.rows](part.rows, part.columns, input.columns, rows.row(part.row),
                            rows.stride(), part.weight, part.result, output.stride * sizeof(float),
                            scales);
    // Kernels that clamp make a limit of NaN.
    for (uint32_t r = 0; r < part.rows; ++r) {
      if (scales[r].scale == scales[r].scale) continue;
      float* const row = part.result + r * output.stride;
      for (uint32_t i = 0; i < part.columns; ++i) row[i] = NAN;
    }
  };
  for_each_task(parallel, division.blocks.count * division.chunks, work);
}

}  // namespace

void linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
            const Matrix& output, const ScratchArea& scratch, const ParallelFor& parallel) {
  assert(input.rows >= 1 && input.rows == output.rows);
  assert(input.columns >= 1 && output.columns >= 1);
  assert(weights.rows == output.columns && weights.columns == input.columns);
  if constexpr (any_linked(Need::kQ8, Need::kQ4)) {
    if (weight_type(weights.type).rounds_inputs) {
      quantized_linear(kernels, input, weights, output, scratch.rows, parallel);
      return;
    }
  }
  const FloatKernels& of_type =
      linked(Need::kW8) && weights.type == TensorType::kW8 ? *kernels.w8 : kernels.f32;
  const Division division(of_type.packing, input, output, parallel);
  auto work = [&](uint32_t task_index, uint32_t) {
    const Part part(division, weights, output, task_index);
    of_type.gemm[part.rows](part.rows, part.columns, input.columns * sizeof(float),
                            input.row(part.row), input.stride * sizeof(float), part.weight,
                            part.result, output.stride * sizeof(float));
  };
  for_each_task(parallel, division.blocks.count * division.chunks, work);
}

// Scale and zero point are those of XNNPACK's xnn_f32_qd8_asymmetric_quantization_params, computed
// so that no range overflows, without the C library, and with the same bits on every CPU.

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
