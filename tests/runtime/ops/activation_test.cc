// SPDX-License-Identifier: Apache-2.0
// Activation functions, gates and sums against the C library in double precision.
#include "ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class Activations : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Activations);

constexpr float kCap = 3.0f;

double reference(ActivationFunction function, double x) {
  switch (function) {
    case ActivationFunction::kRelu:
      return x > 0 ? x : 0;
    case ActivationFunction::kGeluErf:
      return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
    case ActivationFunction::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case ActivationFunction::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationFunction::kSoftCap:
      return kCap * std::tanh(x / kCap);
    case ActivationFunction::kTanh:
      return std::tanh(x);
    case ActivationFunction::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return NAN;
}

constexpr ActivationFunction kAll[] = {ActivationFunction::kRelu,     ActivationFunction::kGeluErf,
                                       ActivationFunction::kGeluTanh, ActivationFunction::kSilu,
                                       ActivationFunction::kSoftCap,  ActivationFunction::kTanh,
                                       ActivationFunction::kSigmoid};

TEST_P(Activations, AgreeWithTheReference) {
  for (const ActivationFunction function : kAll) {
    for (const float limit : {0.1f, 1.0f, 12.0f, 200.0f}) {
      for (const uint32_t columns : {1u, 7u, 64u, 255u, 256u, 257u, 600u}) {
        const FloatRows rows(3, columns, columns, limit);
        const FloatRows factor(3, columns, 5, 2.0f);
        std::vector<double> plain, gated;
        for (uint32_t r = 0; r < 3; ++r) {
          for (uint32_t c = 0; c < columns; ++c) {
            plain.push_back(reference(function, rows.at(r, c)));
            gated.push_back(plain.back() * factor.at(r, c));
          }
        }
        const FloatRows copy(3, columns, columns, limit);
        activation(kernels(), function, kCap, rows.matrix(), {}, {});
        activation(kernels(), function, kCap, copy.matrix(), factor.view(), {});
        // Rational and polynomial approximations: a few units in the last place of the largest.
        const double tolerance = 16 * kRounding * std::max(1.0f, limit);
        ASSERT_TRUE(all_near(rows.dense(), plain, tolerance)) << columns << " to " << limit;
        ASSERT_TRUE(all_near(copy.dense(), gated, 2 * tolerance)) << columns << " to " << limit;
        ASSERT_TRUE(rows.surroundings_intact() && factor.surroundings_intact());
      }
    }
  }
}

TEST_P(Activations, AddRowByRow) {
  for (const uint32_t columns : {1u, 8u, 33u}) {
    const FloatRows target(20, columns, 1, 1.0f), other(20, columns, 2, 1.0f);
    std::vector<float> expected = target.dense();
    const std::vector<float> terms = other.dense();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += terms[i];
    add(kernels(), target.matrix(), other.view(), {});
    ASSERT_TRUE(same_bits(target.dense(), expected));
    ASSERT_TRUE(target.surroundings_intact());
  }
}

TEST_P(Activations, GiveTheSameBitsForARowAlone) {
  Pool pool(3, Order::kShuffled);
  for (const ActivationFunction function : kAll) {
    const FloatRows together(40, 33, 1, 3.0f), factor(40, 33, 2, 1.0f), alone(40, 33, 1, 3.0f);
    activation(kernels(), function, kCap, together.matrix(), factor.view(), pool.parallel_for());
    for (uint32_t r = 0; r < 40; ++r) {
      Matrix row = alone.matrix();
      ConstMatrix times = factor.view();
      row.data = row.row(r), row.rows = 1;
      times.data = times.row(r), times.rows = 1;
      activation(kernels(), function, kCap, row, times, {});
    }
    ASSERT_TRUE(same_bits(together.dense(), alone.dense()));
  }
}

// Far from zero the functions are lines, and tanh, sigmoid and a soft cap what they cannot pass.
TEST_P(Activations, KeepTheirLimits) {
  const FloatRows rows(1, 2, 1, 1.0f);
  for (const ActivationFunction function : kAll) {
    for (float far = 1e3f; far < 3e38f; far *= 3.7f) {
      rows.matrix().row(0)[0] = far;
      rows.matrix().row(0)[1] = -far;
      activation(kernels(), function, kCap, rows.matrix(), {}, {});
      float right = far, left = 0.0f;
      if (function == ActivationFunction::kSoftCap) right = kCap, left = -kCap;
      if (function == ActivationFunction::kTanh) right = 1.0f, left = -1.0f;
      if (function == ActivationFunction::kSigmoid) right = 1.0f;
      EXPECT_EQ(rows.at(0, 0), right) << static_cast<int>(function);
      EXPECT_EQ(rows.at(0, 1), left) << static_cast<int>(function) << " " << far;
    }
  }
}

TEST_P(Activations, PassOnWhatIsNotANumber) {
  const FloatRows rows(1, 3, 1, 1.0f);
  for (const ActivationFunction function : kAll) {
    if (function == ActivationFunction::kRelu) continue;
    rows.matrix().row(0)[1] = NAN;
    activation(kernels(), function, kCap, rows.matrix(), {}, {});
    EXPECT_TRUE(std::isnan(rows.at(0, 1))) << static_cast<int>(function);
    EXPECT_FALSE(std::isnan(rows.at(0, 0)) || std::isnan(rows.at(0, 2)));
  }
}

}  // namespace
}  // namespace arenite::test
