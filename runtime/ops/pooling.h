// SPDX-License-Identifier: Apache-2.0
// Makes one row of several: what an encoder says of a whole sequence.
#pragma once

#include "core/matrix.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

enum class PoolingFunction : uint8_t {
  kMean,
  kMax,             // of each column
  kMeanSqrtLength,  // the sum by the square root of the number of rows
  kWeightedMean,    // each row weighs as much as its position, counted from 1
};

// to [columns] = f(rows [begin, end) of `from`). REQUIRES: begin < end; these are rows of `step`.
void pool_rows(const KernelSet& kernels, PoolingFunction function, ConstMatrix from,
               const StepRows& step, uint32_t begin, uint32_t end, float* to);

}  // namespace arenite
