// SPDX-License-Identifier: Apache-2.0
// Addition, rotation and concatenation of rows. XNNPACK has no product that adds to its output, so
// the sum of a residual stream is a separate op.
#include "ops/row_ops.h"

#include <cstring>

#include "ops/rows.h"

namespace arenite {

void add(const KernelSet& kernels, const ConstMatrix& input, const OtherRows& other,
         const Matrix& output, const ParallelFor& parallel) {
  auto work = [&](uint32_t row) {
    kernels.add(output.columns * sizeof(float), input.row(row), other.row(row), output.row(row));
  };
  for_each_row(parallel, output.rows, output.columns * kSumWork, work);
}

// The two halves of a head are the real and imaginary parts of XNNPACK's complex product.

void rope(const KernelSet& kernels, const ConstMatrix& input, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const Matrix& output,
          const ParallelFor& parallel) {
  const uint32_t head_dim = output.columns / heads;
  const size_t half_bytes = rotary_dim / 2 * sizeof(float);
  const size_t rest_bytes = input.data == output.data ? 0 : (head_dim - rotary_dim) * sizeof(float);
  auto work = [&](uint32_t row) {
    const float* turn = angles + size_t{place_of_row(rows, row).position} * rotary_dim;
    for (uint32_t head = 0; head < heads; ++head) {
      const float* x = input.row(row) + size_t{head} * head_dim;
      float* y = output.row(row) + size_t{head} * head_dim;
      if (half_bytes != 0) kernels.rotate(half_bytes, x, turn, y);
      if (rest_bytes != 0) std::memcpy(y + rotary_dim, x + rotary_dim, rest_bytes);
    }
  };
  if (half_bytes + rest_bytes == 0) return;
  for_each_row(parallel, output.rows, output.columns * (2 * kSumWork), work);
}

void join(const ConstMatrix& first, std::span<const SequenceRows> first_rows,
          const ConstMatrix& second, std::span<const SequenceRows> second_rows,
          std::span<const SequenceRows> to, const Matrix& output, const ParallelFor& parallel) {
  auto work = [&](uint32_t row) {
    const size_t i = sequence_of_row(to, row);
    const uint32_t offset = row - to[i].row_begin;
    const uint32_t of_first = first_rows[i].rows;
    const float* const from = offset < of_first
                                  ? first.row(first_rows[i].row_begin + offset)
                                  : second.row(second_rows[i].row_begin + offset - of_first);
    std::memcpy(output.row(row), from, output.columns * sizeof(float));
  };
  for_each_row(parallel, output.rows, output.columns * kCopyWork, work);
}

}  // namespace arenite
