// SPDX-License-Identifier: Apache-2.0
// Products of matrices of doubles, which several ops are made of.
#pragma once

#include <cstddef>

#include "convert/exported/array_ops.h"
#include "convert/exported/call_arguments.h"

namespace arenite::convert {

// y[r, o] = sum over i of x[r, i] * weight[o, i].
void multiply_rows(const double* x, size_t rows, const double* weight, size_t outputs,
                   size_t inputs, double* y);

// As torch.matmul: vectors count as matrices, and outer dimensions are stretched to each other.
// REQUIRES: both are of real types. `call` is for messages.
Array matrix_product(const CallArguments& call, const Array& left, const Array& right,
                     OpBudget& budget);

}  // namespace arenite::convert
