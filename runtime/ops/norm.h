// SPDX-License-Identifier: Apache-2.0
// Layer norm and RMS norm, of whole rows or of equal groups of columns (heads).
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "kernels/kernel_set.h"

namespace arenite {

struct NormWeights {
  bool subtract_mean = false;   // layer norm; else RMS norm
  float epsilon = 0.0f;         // added to the variance, or to the mean square
  const float* gain = nullptr;  // [columns / groups]
  const float* bias = nullptr;  // the same, or null
};

// For each row and group: output = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * gain + bias,
// with mean = 0 for RMS norm. input and output [tokens, columns] may be the same.
// REQUIRES: groups divides columns.
void norm(const KernelSet& kernels, const NormWeights& weights, uint32_t groups, ConstMatrix input,
          Matrix output, const ParallelFor& parallel);

}  // namespace arenite
