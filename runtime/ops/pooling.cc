// SPDX-License-Identifier: Apache-2.0
// Rows are taken in their order, so that the bits depend on the sequence alone.
#include "ops/pooling.h"

#include <cstring>

#include "core/needs.h"

namespace arenite {
namespace {

void max_of_rows(const ConstMatrix& from, uint32_t begin, uint32_t end, float* to) {
  std::memcpy(to, from.row(begin), from.columns * sizeof(float));
  for (uint32_t row = begin + 1; row < end; ++row) {
    const float* const x = from.row(row);
    for (uint32_t i = 0; i < from.columns; ++i) to[i] = to[i] < x[i] ? x[i] : to[i];
  }
}

// The sum of the rows, each times its weight.
void sum_of_rows(const KernelSet& kernels, PoolingFunction function, const ConstMatrix& from,
                 const StepRows& step, uint32_t begin, uint32_t end, float* to) {
  const size_t bytes = from.columns * sizeof(float);
  std::memset(to, 0, bytes);
  float weights = 0.0f;  // of all rows; a sum of whole numbers
  for (uint32_t row = begin; row < end; ++row) {
    const float* const x = from.row(row);
    if (function != PoolingFunction::kWeightedMean) {
      kernels.add(bytes, to, x, to);
      weights += 1.0f;
      continue;
    }
    const float weight = static_cast<float>(place_of_row(step, row).position) + 1.0f;
    for (uint32_t i = 0; i < from.columns; ++i) to[i] += weight * x[i];
    weights += weight;
  }
  const bool by_root = function == PoolingFunction::kMeanSqrtLength;
  const float factor = 1.0f / (by_root ? __builtin_sqrtf(weights) : weights);
  kernels.scale(bytes, to, &factor, to);
}

}  // namespace

void pool_rows(const KernelSet& kernels, PoolingFunction function, ConstMatrix from,
               const StepRows& step, uint32_t begin, uint32_t end, float* to) {
  if (linked(Need::kSelectMax) && function == PoolingFunction::kMax) {
    max_of_rows(from, begin, end, to);
  } else if (kMeansLinked) {
    sum_of_rows(kernels, function, from, step, begin, end, to);
  }
}

}  // namespace arenite
