// SPDX-License-Identifier: Apache-2.0
// Layer norm, RMS norm, the two with epsilon outside of the root, scaling to length 1,
// softmax and its logarithm, of whole rows or of equal groups of columns (heads).
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "core/op_kinds.h"
#include "kernels/kernel_set.h"

namespace arenite {

struct NormWeights {
  NormKind kind = NormKind::kLayer;
  float epsilon = 0.0f;
  const float* gain = nullptr;  // [columns / groups]; null without has_gain(kind)
  const float* bias = nullptr;  // the same, or null
};

// Each row and group x becomes f(x) * gain + bias.
// input and output [tokens, columns] may be the same.
// REQUIRES: groups divides columns.
void norm(const KernelSet& kernels, const NormWeights& weights, uint32_t groups,
          const ConstMatrix& input, const Matrix& output, const ParallelFor& parallel);

}  // namespace arenite
