// SPDX-License-Identifier: Apache-2.0
// Products of matrices of doubles, which several ops are made of.
#pragma once

#include <cstddef>

#include "convert/exported/array_ops.h"
#include "convert/exported/call_arguments.h"

namespace arenite::convert {

// As torch.matmul: vectors count as matrices, and outer dimensions are stretched to each other.
// REQUIRES: both are of real types. `call` is for messages.
Array matrix_product(const CallArguments& call, const Array& left, const Array& right,
                     OpBudget& budget);

}  // namespace arenite::convert
