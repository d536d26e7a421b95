// SPDX-License-Identifier: Apache-2.0
// Compares activation functions and gates with the C library in double precision.
#include "ops/row_ops.h"

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

constexpr float kParameter = 3.0f;

double reference(Activation function, double x) {
  switch (function) {
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGeluErf:
      return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
    case Activation::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kSoftCap:
      return kParameter * std::tanh(x / kParameter);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kScale:
      return kParameter * x;
    case Activation::kLeakyRelu:
      return x < 0 ? kParameter * x : x;
    case Activation::kElu:
      return x < 0 ? kParameter * std::expm1(x) : x;
    case Activation::kSoftplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case Activation::kMish:
      return x * std::tanh(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
    case Activation::kHardSwish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kClamp:
      return std::min(std::max(x, -double{kParameter}), double{kParameter});
    case Activation::kExp:
      return std::exp(x);
    case Activation::kSqrt:
      return std::sqrt(x);
    case Activation::kReciprocal:
      return 1 / x;
    case Activation::kLog:
      return std::log(x);
    case Activation::kSin:
      return std::sin(x);
    case Activation::kAtMost:
      return std::min(x, double{kParameter});
  }
  return NAN;
}

constexpr Activation kAll[] = {
    Activation::kRelu,      Activation::kGeluErf, Activation::kGeluTanh, Activation::kSilu,
    Activation::kSoftCap,   Activation::kTanh,    Activation::kSigmoid,  Activation::kScale,
    Activation::kLeakyRelu, Activation::kElu,     Activation::kSoftplus, Activation::kMish,
    Activation::kHardSwish, Activation::kClamp,   Activation::kSin,      Activation::kAtMost};

// Functions that are NaN for some inputs, or soon overflow.
constexpr Activation kPartial[] = {Activation::kExp, Activation::kSqrt, Activation::kReciprocal,
                                   Activation::kLog};

TEST_P(Activations, AgreeWithTheReference) {
  for (const Activation function : kAll) {
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
        const FloatRows alone(3, columns, 6, 1.0f), product(3, columns, 7, 1.0f);
        const std::vector<float> input = rows.dense();
        activation(kernels(), function, kParameter, rows.view(), ConstMatrix(), alone.matrix(), {});
        activation(kernels(), function, kParameter, rows.view(), factor.view(), product.matrix(),
                   {});
        ASSERT_TRUE(same_bits(rows.dense(), input)) << "an input is only read";
        // Rational and polynomial approximations: a few units in the last place of the largest.
        const double tolerance = 16 * kRounding * std::max(1.0f, limit);
        ASSERT_TRUE(all_near(alone.dense(), plain, tolerance)) << columns << " to " << limit;
        ASSERT_TRUE(all_near(product.dense(), gated, 2 * tolerance)) << columns << " to " << limit;
        ASSERT_TRUE(alone.surroundings_intact() && product.surroundings_intact());
      }
    }
  }
}

TEST_P(Activations, MayReplaceTheirInput) {
  for (const Activation function : kAll) {
    const FloatRows rows(3, 300, 1, 3.0f), factor(3, 300, 2, 1.0f), alone(3, 300, 3, 1.0f),
        product(3, 300, 4, 1.0f), in_place(3, 300, 1, 3.0f);
    activation(kernels(), function, kParameter, rows.view(), ConstMatrix(), alone.matrix(), {});
    activation(kernels(), function, kParameter, rows.view(), factor.view(), product.matrix(), {});
    activation(kernels(), function, kParameter, in_place.view(), ConstMatrix(), in_place.matrix(),
               {});
    ASSERT_TRUE(same_bits(in_place.dense(), alone.dense()));
    activation(kernels(), function, kParameter, rows.view(), factor.view(), rows.matrix(), {});
    ASSERT_TRUE(same_bits(rows.dense(), product.dense()));
    ASSERT_TRUE(rows.surroundings_intact() && factor.surroundings_intact());
  }
}

// Each factor is that of an equal share of the columns; shares end within chunks and beyond them.
TEST_P(Activations, MultiplyBySharedFactors) {
  Pool pool(3, Order::kShuffled);
  for (const auto& [columns, factors] :
       {std::pair(8u, 1u), std::pair(600u, 2u), std::pair(606u, 6u), std::pair(770u, 1u)}) {
    const FloatRows rows(3, columns, 1, 3.0f), narrow(3, factors, 2, 1.0f),
        found(3, columns, 4, 1.0f), expected(3, columns, 4, 1.0f);
    FloatRows wide(3, columns, 3, 1.0f);
    for (uint32_t row = 0; row < 3; ++row) {
      for (uint32_t i = 0; i < columns; ++i) {
        wide.matrix().row(row)[i] = narrow.view().row(row)[i / (columns / factors)];
      }
    }
    activation(kernels(), Activation::kSilu, 0.0f, rows.view(), narrow.view(), found.matrix(),
               pool.parallel_for());
    activation(kernels(), Activation::kSilu, 0.0f, rows.view(), wide.view(), expected.matrix(), {});
    EXPECT_TRUE(same_bits(found.dense(), expected.dense())) << columns << " by " << factors;
    EXPECT_TRUE(found.surroundings_intact());
  }
}

TEST_P(Activations, GiveTheSameBitsForARowAlone) {
  Pool pool(3, Order::kShuffled);
  for (const Activation function : kAll) {
    const FloatRows together(40, 33, 1, 3.0f), factor(40, 33, 2, 1.0f), alone(40, 33, 1, 3.0f);
    activation(kernels(), function, kParameter, together.view(), factor.view(), together.matrix(),
               pool.parallel_for());
    for (uint32_t r = 0; r < 40; ++r) {
      Matrix row = alone.matrix();
      ConstMatrix times = factor.view();
      row.data = row.row(r), row.rows = 1;
      times.data = times.row(r), times.rows = 1;
      activation(kernels(), function, kParameter, {row.data, 1, row.columns, row.stride}, times,
                 row, {});
    }
    ASSERT_TRUE(same_bits(together.dense(), alone.dense()));
  }
}

// Far from zero the functions are lines, and tanh, sigmoid and a soft cap what they cannot pass.
TEST_P(Activations, ApproachTheirLimitsFarFromZero) {
  const FloatRows rows(1, 2, 1, 1.0f);
  for (const Activation function : kAll) {
    if (function == Activation::kScale || function == Activation::kLeakyRelu)
      continue;  // have none
    for (float far = 1e3f; far < 3e38f; far *= 3.7f) {
      rows.matrix().row(0)[0] = far;
      rows.matrix().row(0)[1] = -far;
      activation(kernels(), function, kParameter, rows.view(), ConstMatrix(), rows.matrix(), {});
      float right = far, left = 0.0f;
      if (function == Activation::kSoftCap || function == Activation::kClamp) {
        right = kParameter, left = -kParameter;
      }
      if (function == Activation::kSin) continue;
      if (function == Activation::kAtMost) right = kParameter, left = -far;
      if (function == Activation::kElu) left = -kParameter;
      if (function == Activation::kTanh) right = 1.0f, left = -1.0f;
      if (function == Activation::kSigmoid) right = 1.0f;
      EXPECT_EQ(rows.at(0, 0), right) << static_cast<int>(function);
      EXPECT_EQ(rows.at(0, 1), left) << static_cast<int>(function) << " " << far;
    }
  }
}

// exp, sqrt and reciprocal are right to a few units in their last place wherever they are numbers.
TEST_P(Activations, AreExactInTheirLastPlaces) {
  const FloatRows rows(1, 300, 1, 1.0f), made(1, 300, 2, 1.0f);
  for (const Activation function : kPartial) {
    const bool is_exp = function == Activation::kExp;
    for (uint32_t c = 0; c < 300; ++c) {
      const float step = static_cast<float>(c) - 149.5f;
      rows.matrix().row(0)[c] = is_exp ? 0.58f * step : std::exp(0.4f * step);
      if (function == Activation::kReciprocal && c % 2 == 0) rows.matrix().row(0)[c] *= -1.0f;
    }
    activation(kernels(), function, 0.0f, rows.view(), ConstMatrix(), made.matrix(), {});
    for (uint32_t c = 0; c < 300; ++c) {
      const double wanted = reference(function, rows.at(0, c));
      EXPECT_NEAR(made.at(0, c) / wanted, 1.0, 12 * kRounding) << rows.at(0, c);
    }
  }
}

// The limits of the functions are those of the C library.
TEST_P(Activations, HaveTheLimitsOfTheCLibrary) {
  const FloatRows rows(1, 3, 1, 1.0f);
  const auto made = [&](Activation function, float a, float b, float c) {
    rows.matrix().row(0)[0] = a, rows.matrix().row(0)[1] = b, rows.matrix().row(0)[2] = c;
    activation(kernels(), function, 0.0f, rows.view(), ConstMatrix(), rows.matrix(), {});
  };
  made(Activation::kExp, -200.0f, 0.0f, 200.0f);
  EXPECT_EQ(rows.at(0, 0), 0.0f);
  EXPECT_EQ(rows.at(0, 1), 1.0f);
  EXPECT_EQ(rows.at(0, 2), INFINITY);
  made(Activation::kSqrt, 0.0f, 4.0f, -1.0f);
  EXPECT_EQ(rows.at(0, 0), 0.0f);
  EXPECT_EQ(rows.at(0, 1), 2.0f);
  EXPECT_TRUE(std::isnan(rows.at(0, 2)));
  rows.matrix().row(0)[0] = 6.0f;
  activation(kernels(), Activation::kSqrt, kParameter, rows.view(), ConstMatrix(), rows.matrix(),
             {});
  EXPECT_EQ(rows.at(0, 0), 3.0f);
  activation(kernels(), Activation::kReciprocal, 5.0f, rows.view(), ConstMatrix(), rows.matrix(),
             {});
  EXPECT_EQ(rows.at(0, 0), 0.125f);
  made(Activation::kLog, 0.0f, 1.0f, INFINITY);
  EXPECT_EQ(rows.at(0, 0), -INFINITY);
  EXPECT_EQ(rows.at(0, 1), 0.0f);
  EXPECT_EQ(rows.at(0, 2), INFINITY);
  made(Activation::kLog, -1.0f, 2.0f, -INFINITY);
  EXPECT_TRUE(std::isnan(rows.at(0, 0)));
  EXPECT_TRUE(std::isnan(rows.at(0, 2)));
  made(Activation::kLog, 0x1p-140f, 0x1p-127f, 0x1p-126f);
  for (const uint32_t c : {0u, 1u, 2u}) {
    const double exponent[] = {-140, -127, -126};
    EXPECT_NEAR(rows.at(0, c) / (exponent[c] * std::log(2.0)), 1.0, 12 * kRounding);
  }
  made(Activation::kSin, INFINITY, 1e6f, -0.0f);
  EXPECT_TRUE(std::isnan(rows.at(0, 0)));
  EXPECT_NEAR(rows.at(0, 1), std::sin(1e6), 1e-6);
  EXPECT_EQ(rows.at(0, 2), 0.0f);
  made(Activation::kReciprocal, 0.0f, -0.5f, INFINITY);
  EXPECT_EQ(rows.at(0, 0), INFINITY);
  EXPECT_EQ(rows.at(0, 1), -2.0f);
  EXPECT_EQ(rows.at(0, 2), 0.0f);
}

TEST_P(Activations, PropagateNaN) {
  const FloatRows rows(1, 3, 1, 1.0f);
  for (const Activation function : kAll) {
    if (function == Activation::kRelu) continue;
    rows.matrix().row(0)[1] = NAN;
    activation(kernels(), function, kParameter, rows.view(), ConstMatrix(), rows.matrix(), {});
    EXPECT_TRUE(std::isnan(rows.at(0, 1))) << static_cast<int>(function);
    EXPECT_FALSE(std::isnan(rows.at(0, 0)) || std::isnan(rows.at(0, 2)));
  }
}

}  // namespace
}  // namespace arenite::test
