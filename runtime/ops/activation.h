// SPDX-License-Identifier: Apache-2.0
// Element-wise functions, alone or times a factor (gated feed-forward layers).
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "core/op_kinds.h"
#include "kernels/kernel_set.h"

namespace arenite {

// output = f(input) (* factor). All [rows, columns]; factor may have no data. The output may be the
// columns of the input, and overlaps the factor nowhere. `parameter` is that of core/op_kinds.h.
void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const ConstMatrix& factor, const Matrix& output,
                const ParallelFor& parallel);

}  // namespace arenite
