// SPDX-License-Identifier: Apache-2.0
// Halves of a head are the real and imaginary parts of XNNPACK's complex product.
#include "ops/rope.h"

namespace arenite {

void rope(const KernelSet& kernels, Matrix target, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const ParallelFor& parallel) {
  const uint32_t head_dim = target.columns / heads;
  const size_t half_bytes = rotary_dim / 2 * sizeof(float);
  auto work = [&](uint32_t row) {
    const float* turn = angles + size_t{place_of_row(rows, row).position} * rotary_dim;
    for (uint32_t head = 0; head < heads; ++head) {
      float* x = target.row(row) + size_t{head} * head_dim;
      kernels.rotate(half_bytes, x, turn, x);
    }
  };
  if (half_bytes != 0) for_each_row(parallel, target.rows, work);
}

}  // namespace arenite
