// SPDX-License-Identifier: Apache-2.0
// XNNPACK has no norm: the two sums are loops with sixteen independent accumulators, which the
// compiler turns into vectors; the rest are its element-wise kernels.
#include "ops/norm.h"

#include <cassert>

#include "ops/rows.h"

namespace arenite {
namespace {

constexpr uint32_t kLanes = 16;

// Adds up the lanes in pairs: always in the same order, whatever the vector width.
float add_lanes(const float (&lanes)[kLanes]) {
  float sums[kLanes / 2];
  for (uint32_t i = 0; i < kLanes / 2; ++i) sums[i] = lanes[i] + lanes[i + kLanes / 2];
  const float a = (sums[0] + sums[4]) + (sums[2] + sums[6]);
  const float b = (sums[1] + sums[5]) + (sums[3] + sums[7]);
  return a + b;
}

float sum(const float* x, uint32_t count) {
  float lanes[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  for (uint32_t lane = 0; i < count; ++i, ++lane) lanes[lane] += x[i];
  return add_lanes(lanes);
}

float sum_of_squares(const float* x, uint32_t count) {
  float lanes[kLanes] = {};
  uint32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
  }
  for (uint32_t lane = 0; i < count; ++i, ++lane) lanes[lane] += x[i] * x[i];
  return add_lanes(lanes);
}

void norm_group(const KernelSet& kernels, const NormWeights& weights, uint32_t count,
                const float* x, float* y) {
  const size_t bytes = count * sizeof(float);
  if (weights.subtract_mean) {
    const float minus_mean = -sum(x, count) / static_cast<float>(count);
    kernels.add_constant(bytes, x, &minus_mean, y);
    x = y;
  }
  const float mean_square = sum_of_squares(x, count) / static_cast<float>(count);
  const float factor = 1.0f / __builtin_sqrtf(mean_square + weights.epsilon);
  kernels.scale(bytes, x, &factor, y);
  kernels.multiply(bytes, y, weights.gain, y);
  if (weights.bias != nullptr) kernels.add(bytes, y, weights.bias, y);
}

}  // namespace

void norm(const KernelSet& kernels, const NormWeights& weights, uint32_t groups, ConstMatrix input,
          Matrix output, const ParallelFor& parallel) {
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
