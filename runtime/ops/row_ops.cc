// SPDX-License-Identifier: Apache-2.0
// XNNPACK has no product that adds to what is there, so a residual stream's sum is an op.
#include "ops/row_ops.h"

#include <cstring>

#include "ops/rows.h"

namespace arenite {

void add(const KernelSet& kernels, const ConstMatrix& input, const ConstMatrix& other,
         const Matrix& output, const ParallelFor& parallel) {
  auto work = [&](uint32_t row) {
    kernels.add(output.columns * sizeof(float), input.row(row), other.row(row), output.row(row));
  };
  for_each_row(parallel, output.rows, work);
}

// Halves of a head are the real and imaginary parts of XNNPACK's complex product.

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
  if (half_bytes + rest_bytes != 0) for_each_row(parallel, output.rows, work);
}

void put_prefix(const WeightView& constants, uint32_t first_row, const ConstMatrix& input,
                const StepRows& rows, const Matrix& output, const ParallelFor& parallel) {
  const size_t bytes = output.columns * sizeof(float);
  auto work = [&](uint32_t row) {
    const RowPlace place = place_of_row(rows, row);
    float* const to = output.row(row);
    const uint32_t index = place.position - first_row;  // not below `rows` in front of them
    if (place.is_prefix() && index < constants.rows) {
      read_row(constants, index, to);
    } else if (input.row(row) != to) {
      std::memcpy(to, input.row(row), bytes);
    }
  };
  for_each_row(parallel, output.rows, work);
}

void cut_patches(const ImagePatches& patches, const float* images, const StepRows& rows,
                 const Matrix& output) {
  const size_t pixels = size_t{patches.channels} * patches.height * patches.width;
  const size_t count = size_t{patches.height / patches.patch_height} * patches.columns();
  for (uint32_t row = 0; row < output.rows; ++row) {
    const RowPlace place = place_of_row(rows, row);
    float* to = output.row(row);
    if (place.is_prefix()) {
      std::memset(to, 0, output.columns * sizeof(float));
      continue;
    }
    const size_t patch = place.token % count;
    const size_t top = patch / patches.columns() * patches.patch_height;
    const size_t left = patch % patches.columns() * patches.patch_width;
    const float* const image = images + place.token / count * pixels;
    for (size_t c = 0; c < patches.channels; ++c) {
      for (size_t y = 0; y < patches.patch_height; ++y) {
        const size_t line = c * patches.height + top + y;
        std::memcpy(to, image + line * patches.width + left, patches.patch_width * sizeof(float));
        to += patches.patch_width;
      }
    }
  }
}

}  // namespace arenite
