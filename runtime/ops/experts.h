// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: the choice of experts by a router's scores, and linear layers of which each
// row uses some. For example, 4 experts of 3 outputs, of which each row takes 2:
//   scores 0.1 0.7 0.3 0.5   ->  top_k: ids 1 3, scores 0.7 0.5
//   experts: 3 outputs of expert 1, then 3 of expert 3
#pragma once

#include <cstdint>

#include "arenite/parallel.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// output [rows, 2 k] = the columns of the k largest scores of a row, largest first, then these
// scores. Of equal scores the first column is taken; NaN is larger than all numbers, as in
// torch.topk. scores [rows, n] with n >= k; they do not overlap the output.
void top_k(const ConstMatrix& scores, const Matrix& output, const ParallelFor& parallel);

// output [rows, k n]: columns [i n, (i + 1) n) = x W^T + b of expert ids[i] of the row, where the
// weights [count n, inputs] are those of all experts, packed as for linear(). ids are [rows, k]; an
// id that is no expert stands for expert 0. Input [rows, inputs] for all experts of a row, or
// [rows, k inputs] with an own x for each. The rows are sorted by expert, so that a call reads each
// chosen expert's weights once, and no other's. `scratch` is experts_scratch (core/packing.h).
void experts(const KernelSet& kernels, const ConstMatrix& input, const ConstMatrix& ids,
             const WeightView& weights, uint32_t count, const Matrix& output,
             const ScratchArea& scratch, const ParallelFor& parallel);

}  // namespace arenite
