// SPDX-License-Identifier: Apache-2.0
// output = input * weights^T + bias.
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "core/weights.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// input [tokens, k], output [tokens, n]; `weights` are [n, k] with a bias [n], packed as the
// kernels of their type read them. With q8 and q4 weights the rows of input are rounded to int8
// first (quantized_rows.h), in the scratch of rows. REQUIRES: tokens, n, k >= 1; input and output
// do not overlap.
void linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
            const Matrix& output, const ScratchArea& scratch, const ParallelFor& parallel);

}  // namespace arenite
