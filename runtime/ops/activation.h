// SPDX-License-Identifier: Apache-2.0
// Element-wise functions, alone or times a factor (gated feed-forward layers).
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "core/op_kinds.h"
#include "kernels/kernel_set.h"

namespace arenite {

// y = cap * tanh(x / cap); y may be x. NaN stays NaN, and infinities become the cap.
inline void soft_cap(const KernelSet& kernels, size_t bytes, float cap, const float* x, float* y) {
  const float shrink = 1.0f / cap;
  kernels.scale(bytes, x, &shrink, y);
  kernels.tanh(bytes, y, y);
  kernels.scale(bytes, y, &cap, y);
}

// output = f(input) (* factor). All [rows, columns]; factor may have no data. The output may be the
// columns of the input, and overlaps the factor nowhere. `parameter` is that of core/op_kinds.h.
void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const ConstMatrix& factor, const Matrix& output,
                const ParallelFor& parallel);

}  // namespace arenite
