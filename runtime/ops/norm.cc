// SPDX-License-Identifier: Apache-2.0
// XNNPACK has no norm: it is made of its reductions and element-wise kernels, row by row, so that
// all but the first pass read the first-level cache.
#include "ops/norm.h"

#include <cassert>

#include "core/needs.h"
#include "ops/rows.h"

namespace arenite {
namespace {

constexpr uint32_t kChunk = 256;

float sum_of_squares(const KernelSet& kernels, const float* x, uint32_t count) {
  float squares[kChunk];
  float sum = 0.0f;
  for (uint32_t i = 0; i < count; i += kChunk) {
    const uint32_t left = count - i;
    const size_t bytes = (left < kChunk ? left : kChunk) * sizeof(float);
    kernels.multiply(bytes, x + i, x + i, squares);
    kernels.sum(bytes, squares, &sum);
  }
  return sum;
}

void norm_group(const KernelSet& kernels, const NormWeights& weights, uint32_t count,
                const float* x, float* y) {
  const size_t bytes = count * sizeof(float);
  if (linked(Need::kLengthNorm) && weights.kind == NormKind::kLength) {
    const float length = __builtin_sqrtf(sum_of_squares(kernels, x, count));
    const float factor = 1.0f / (length < weights.epsilon ? weights.epsilon : length);  // or NaN
    kernels.scale(bytes, x, &factor, y);
    return;
  }
  if (linked(Need::kLayerNorm) && weights.kind == NormKind::kLayer) {
    float sum = 0.0f;
    kernels.sum(bytes, x, &sum);
    const float minus_mean = -sum / static_cast<float>(count);
    kernels.add_constant(bytes, x, &minus_mean, y);
    x = y;
  }
  const float mean_square = sum_of_squares(kernels, x, count) / static_cast<float>(count);
  const float factor = 1.0f / __builtin_sqrtf(mean_square + weights.epsilon);
  kernels.scale(bytes, x, &factor, y);
  kernels.multiply(bytes, y, weights.gain, y);
  if (weights.bias != nullptr) kernels.add(bytes, y, weights.bias, y);
}

}  // namespace

void norm(const KernelSet& kernels, const NormWeights& weights, uint32_t groups,
          const ConstMatrix& input, const Matrix& output, const ParallelFor& parallel) {
  assert(input.rows == output.rows && input.columns == output.columns);
  assert(groups >= 1 && input.columns % groups == 0);
  const uint32_t width = input.columns / groups;
  auto work = [&](uint32_t row) {
    for (uint32_t group = 0; group < groups; ++group) {
      const size_t column = size_t{group} * width;
      norm_group(kernels, weights, width, input.row(row) + column, output.row(row) + column);
    }
  };
  for_each_row(parallel, input.rows, work);
}

}  // namespace arenite
