// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: turns pairs of dimensions by angles that grow with the position.
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// input and output [rows, heads * head_dim] may be the same columns. For each head and i below
// rotary_dim / 2, the pair (x[i], x[i + rotary_dim / 2]) is multiplied, as a complex number, with
// that of the row's position in `angles` [positions, rotary_dim]: cosines, then sines; the rest of
// the head stays. Models that pair neighbours have their weights permuted at conversion.
// REQUIRES: rotary_dim is even and at most head_dim.
void rope(const KernelSet& kernels, const ConstMatrix& input, uint32_t heads, const float* angles,
          uint32_t rotary_dim, const StepRows& rows, const Matrix& output,
          const ParallelFor& parallel);

}  // namespace arenite
