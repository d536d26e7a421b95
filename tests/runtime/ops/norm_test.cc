// SPDX-License-Identifier: Apache-2.0
// Compares layer norm and RMS norm with plain loops in double precision.
#include "ops/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class Norm : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Norm);

std::vector<double> expected(const NormWeights& weights, uint32_t groups, const FloatRows& input) {
  const uint32_t width = input.matrix().columns / groups;
  std::vector<double> result;
  for (uint32_t r = 0; r < input.matrix().rows; ++r) {
    for (uint32_t g = 0; g < groups; ++g) {
      double mean = 0, square = 0;
      for (uint32_t i = 0; i < width; ++i) mean += input.at(r, g * width + i) / double{1} / width;
      if (!is_centred(weights.kind)) mean = 0;
      for (uint32_t i = 0; i < width; ++i) {
        square += std::pow(input.at(r, g * width + i) - mean, 2) / width;
      }
      for (uint32_t i = 0; i < width; ++i) {
        const double divisor = adds_epsilon_to_root(weights.kind)
                                   ? std::sqrt(square) + double{weights.epsilon}
                                   : std::sqrt(square + double{weights.epsilon});
        result.push_back((input.at(r, g * width + i) - mean) / divisor * weights.gain[i] +
                         (weights.bias != nullptr ? weights.bias[i] : 0.0f));
      }
    }
  }
  return result;
}

TEST_P(Norm, AgreesWithTheReference) {
  for (const bool layer : {false, true}) {
    for (const uint32_t width : {1u, 2u, 15u, 16u, 17u, 64u, 131u}) {
      for (const uint32_t groups : {1u, 3u}) {
        const FloatRows input(5, width * groups, width, 4.0f);
        const FloatRows vectors(2, width, 9, 1.0f);
        const NormWeights weights = {layer ? NormKind::kLayer : NormKind::kRms, 1e-5f,
                                     vectors.matrix().row(0),
                                     layer ? vectors.matrix().row(1) : nullptr};
        const std::vector<double> wanted = expected(weights, groups, input);
        const FloatRows output(5, width * groups, 1, 1.0f);
        norm(kernels(), weights, groups, input.view(), output.matrix(), {});
        // A dozen roundings of numbers up to 4 / sqrt(epsilon) of a constant row's deviations.
        const double tolerance = width == 1 && layer ? 2e-4 : 4e-6;
        ASSERT_TRUE(all_near(output.dense(), wanted, tolerance)) << width << " " << groups;
        ASSERT_TRUE(output.surroundings_intact() && input.surroundings_intact());
        norm(kernels(), weights, groups, input.view(), input.matrix(), {});
        ASSERT_TRUE(same_bits(input.dense(), output.dense())) << "in place";
      }
    }
  }
}

// The epsilon is as large as the deviation, so that its place in the formula matters.
TEST_P(Norm, AddsEpsilonToTheRootWhereAsked) {
  for (const NormKind kind : {NormKind::kDeviation, NormKind::kRoot}) {
    for (const float epsilon : {1e-6f, 0.5f}) {
      for (const uint32_t width : {2u, 15u, 64u, 300u}) {
        const FloatRows input(5, width * 3, width, 4.0f), vectors(2, width, 9, 1.0f);
        const NormWeights weights = {kind, epsilon, vectors.matrix().row(0),
                                     vectors.matrix().row(1)};
        const std::vector<double> wanted = expected(weights, 3, input);
        norm(kernels(), weights, 3, input.view(), input.matrix(), {});
        ASSERT_TRUE(all_near(input.dense(), wanted, 4e-6)) << name(kind) << " " << width;
      }
    }
  }
}

// Tests rows longer than a chunk, and inputs whose exponentials overflow.
TEST_P(Norm, ComputesSoftmaxAndLogSoftmax) {
  for (const NormKind kind : {NormKind::kSoftmax, NormKind::kLogSoftmax}) {
    for (const float limit : {1.0f, 20.0f, 300.0f}) {
      for (const uint32_t width : {1u, 2u, 17u, 256u, 700u}) {
        const FloatRows input(3, width, width, limit);
        std::vector<double> wanted;
        for (uint32_t r = 0; r < 3; ++r) {
          double most = -INFINITY, sum = 0;
          for (uint32_t i = 0; i < width; ++i) most = std::max(most, double{input.at(r, i)});
          for (uint32_t i = 0; i < width; ++i) sum += std::exp(input.at(r, i) - most);
          for (uint32_t i = 0; i < width; ++i) {
            const double x = input.at(r, i) - most;
            wanted.push_back(kind == NormKind::kSoftmax ? std::exp(x) / sum : x - std::log(sum));
          }
        }
        norm(kernels(), {kind, 1.0f, nullptr, nullptr}, 1, input.view(), input.matrix(), {});
        const double tolerance =
            kind == NormKind::kSoftmax ? 16 * kRounding : 8 * kRounding * std::max(4.0f, limit);
        ASSERT_TRUE(all_near(input.dense(), wanted, tolerance)) << name(kind) << " " << width;
        ASSERT_TRUE(input.surroundings_intact());
      }
    }
  }
}

TEST_P(Norm, LengthNormGivesRowsOfLengthOne) {
  for (const uint32_t width : {1u, 2u, 15u, 64u, 300u}) {
    const FloatRows input(4, width, width, 4.0f), output(4, width, 1, 1.0f);
    float* const shortest = input.matrix().row(3);  // shorter than epsilon: divided by that
    for (uint32_t i = 0; i < width; ++i) shortest[i] = i == 0 ? 1e-7f : 0.0f;
    const NormWeights weights = {NormKind::kLength, 1e-6f, nullptr, nullptr};
    std::vector<double> wanted;
    for (uint32_t r = 0; r < 4; ++r) {
      double squares = 0;
      for (uint32_t i = 0; i < width; ++i) squares += std::pow(input.at(r, i), 2);
      const double length = std::max(std::sqrt(squares), 1e-6);
      for (uint32_t i = 0; i < width; ++i) wanted.push_back(input.at(r, i) / length);
    }
    norm(kernels(), weights, 1, input.view(), output.matrix(), {});
    ASSERT_TRUE(all_near(output.dense(), wanted, 8 * kRounding)) << width;
    ASSERT_TRUE(output.surroundings_intact() && input.surroundings_intact());
    norm(kernels(), weights, 1, input.view(), input.matrix(), {});
    ASSERT_TRUE(same_bits(input.dense(), output.dense())) << "in place";
  }
}

TEST_P(Norm, GivesTheSameBitsOnAnyThreads) {
  const FloatRows input(100, 48, 1, 1.0f), gain(1, 48, 2, 1.0f);
  const NormWeights weights = {NormKind::kLayer, 1e-5f, gain.matrix().row(0), nullptr};
  const FloatRows alone(100, 48, 3, 1.0f), together(100, 48, 4, 1.0f);
  norm(kernels(), weights, 1, input.view(), alone.matrix(), {});
  Pool pool(3);
  norm(kernels(), weights, 1, input.view(), together.matrix(), pool.parallel_for());
  ASSERT_TRUE(same_bits(together.dense(), alone.dense()));
}

}  // namespace
}  // namespace arenite::test
