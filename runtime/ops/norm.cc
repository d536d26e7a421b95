// SPDX-License-Identifier: Apache-2.0
// Norms and softmax, composed of XNNPACK's reductions and element-wise kernels, as it has no norm.
// Ops go row by row, so that all passes but the first read the first-level cache.
#include "ops/row_ops.h"

#include <cassert>

#include "core/float_bits.h"
#include "core/needs.h"
#include "ops/rows.h"

namespace arenite {
namespace {

constexpr uint32_t kSquaresAtOnce = 256;

float sum_of_squares(const KernelSet& kernels, const float* x, uint32_t count) {
  float squares[kSquaresAtOnce];
  float sum = 0.0f;
  for (uint32_t i = 0; i < count; i += kSquaresAtOnce) {
    const uint32_t left = count - i;
    const size_t bytes = (left < kSquaresAtOnce ? left : kSquaresAtOnce) * sizeof(float);
    kernels.multiply(bytes, x + i, x + i, squares);
    kernels.sum(bytes, squares, &sum);
  }
  return sum;
}

// Returns log(sum) for a sum of exponentials, which is at least 1. With sum = 2^e m and m near 1,
// log(m) = 2 atanh(z), z = (m - 1) / (m + 1), whose series reaches float precision after five
// terms.
float log_of_sum(float sum) {
  if (!(sum < __builtin_inff())) return sum;  // not finite
  constexpr uint32_t kThreeQuarters = 0x3f400000;
  const uint32_t above = bit_cast<uint32_t>(sum) - kThreeQuarters;  // m is in [3/4, 3/2)
  const auto exponent = static_cast<float>(above >> 23);
  const auto m = bit_cast<float>((above & 0x007fffff) + kThreeQuarters);
  const float z = (m - 1.0f) / (m + 1.0f);
  constexpr float kLog2 = 0.693147180559945f;
  return exponent * kLog2 + 2.0f * z * atanh_series<5>(z);
}

void softmax_group(const KernelSet& kernels, NormKind kind, uint32_t count, const float* x,
                   float* y) {
  const size_t bytes = count * sizeof(float);
  float extremes[2] = {};
  kernels.row_extremes(bytes, x, extremes);
  const float most = extremes[1];
  if (linked(Need::kSoftmax) && kind == NormKind::kSoftmax) {
    float sum = 0.0f;
    kernels.exp_sum(bytes, x, &most, y, &sum);
    const float factor = 1.0f / sum;
    kernels.scale(bytes, y, &factor, y);
    return;
  }
  float sum = 0.0f;
  float exponentials[kSquaresAtOnce];
  for (uint32_t i = 0; i < count; i += kSquaresAtOnce) {
    const uint32_t left = count - i;
    float part = 0.0f;
    kernels.exp_sum((left < kSquaresAtOnce ? left : kSquaresAtOnce) * sizeof(float), x + i, &most,
                    exponentials, &part);
    sum += part;
  }
  const float minus_log = -(most + log_of_sum(sum));
  kernels.add_constant(bytes, x, &minus_log, y);
}

void norm_group(const KernelSet& kernels, const NormWeights& weights, uint32_t count,
                const float* x, float* y) {
  const size_t bytes = count * sizeof(float);
  if (any_linked(Need::kSoftmax, Need::kLogSoftmax) && is_softmax(weights.kind)) {
    softmax_group(kernels, weights.kind, count, x, y);
    return;
  }
  if (linked(Need::kLengthNorm) && weights.kind == NormKind::kLength) {
    const float length = __builtin_sqrtf(sum_of_squares(kernels, x, count));
    const float factor = 1.0f / (length < weights.epsilon ? weights.epsilon : length);  // or NaN
    kernels.scale(bytes, x, &factor, y);
    return;
  }
  if (any_linked(Need::kLayerNorm, Need::kDeviationNorm) && is_centred(weights.kind)) {
    float sum = 0.0f;
    kernels.sum(bytes, x, &sum);
    const float minus_mean = -sum / static_cast<float>(count);
    kernels.add_constant(bytes, x, &minus_mean, y);
    x = y;
  }
  const float mean_square = sum_of_squares(kernels, x, count) / static_cast<float>(count);
  float factor = 1.0f / __builtin_sqrtf(mean_square + weights.epsilon);
  if (any_linked(Need::kDeviationNorm, Need::kRootNorm) && adds_epsilon_to_root(weights.kind)) {
    factor = 1.0f / (__builtin_sqrtf(mean_square) + weights.epsilon);
  }
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
  for_each_row(parallel, input.rows, input.columns * kNormWork, work);
}

}  // namespace arenite
