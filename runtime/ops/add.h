// SPDX-License-Identifier: Apache-2.0
// Sums of two activations, such as a residual stream and what a layer adds to it.
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "kernels/kernel_set.h"

namespace arenite {

// output = input + other. All [rows, columns]; the output may be the columns of either.
void add(const KernelSet& kernels, const ConstMatrix& input, const ConstMatrix& other,
         const Matrix& output, const ParallelFor& parallel);

}  // namespace arenite
