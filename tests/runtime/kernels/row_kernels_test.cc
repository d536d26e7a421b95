// SPDX-License-Identifier: Apache-2.0
// Tests the kernels along a row: extremes, exponentials and their sum, addition, scaling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>
#include <vector>

#include "support/compare.h"
#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/random.h"

namespace arenite::test {
namespace {

constexpr uint32_t kLengthMax = 130;  // beyond twice the widest kernel's step

class RowKernels : public KernelSetTest {};
// Runs all kernel sets, in emulators too.
INSTANTIATE_TEST_SUITE_P(KernelSets, RowKernels, testing::ValuesIn(targets_here()), test_name_of);

TEST_P(RowKernels, FindTheExtremesWhereverTheyAre) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    Random(length).fill(row.span(), 8.0f);
    const auto [least, largest] = std::ranges::minmax(row.span());
    for (uint32_t place = 0; place < length; ++place) {
      float extremes[2] = {NAN, NAN};
      const float before = std::exchange(row[place], 9.0f);
      kernels().row_extremes(length * sizeof(float), row.data(), extremes);
      ASSERT_EQ(extremes[1], 9.0f) << length << " " << place;
      row[place] = -INFINITY;
      kernels().row_extremes(length * sizeof(float), row.data(), extremes);
      ASSERT_EQ(extremes[0], -INFINITY) << length << " " << place;
      row[place] = before;
      kernels().row_extremes(length * sizeof(float), row.data(), extremes);
      ASSERT_EQ(extremes[0], least) << length;
      ASSERT_EQ(extremes[1], largest) << length;
    }
  }
}

TEST_P(RowKernels, FindTheLargestAmongHiddenScores) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    std::ranges::fill(row.span(), -INFINITY);
    row[length / 2] = -3e38f;
    float extremes[2] = {NAN, NAN};
    kernels().row_extremes(length * sizeof(float), row.data(), extremes);
    ASSERT_EQ(extremes[1], -3e38f) << length;
  }
}

// XNNPACK's exponential is a polynomial after range reduction: within 2 units in the last place,
// doubled here to leave room. It flushes to zero below the smallest normal number; where the CPU
// flushes intermediate results as well, as 32-bit ARM's NEON does, up to 1.2 times that is lost.
constexpr double kExpError = 4 * 0x1p-23;
constexpr double kExpFlushed = 1.25 * double{FLT_MIN};

TEST_P(RowKernels, GiveExponentialsAndTheirSum) {
  for (const float limit : {1.0f, 20.0f, 100.0f}) {
    for (uint32_t length = 1; length <= kLengthMax; ++length) {
      const GuardedFloats row(length, kReadAheadBytes);
      Random(length).fill(row.span(), limit);
      const float max = *std::ranges::max_element(row.span());
      const GuardedFloats result(length);
      float sum = NAN;
      kernels().exp_sum(length * sizeof(float), row.data(), &max, result.data(), &sum);
      double expected_sum = 0;
      for (uint32_t i = 0; i < length; ++i) {
        const double expected = std::exp(double{row[i] - max});
        expected_sum += expected;
        ASSERT_NEAR(result[i], expected, expected * kExpError + kExpFlushed)
            << row[i] - max << ", " << i << " of " << length;
      }
      ASSERT_NEAR(sum, expected_sum, expected_sum * (kExpError + length * kRounding)) << length;
      ASSERT_TRUE(result.surroundings_intact() && row.surroundings_intact());
    }
  }
}

TEST_P(RowKernels, GiveExactlyZeroForHiddenScores) {
  Random random(3);
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    random.fill(row.span(), 2.0f);
    const uint32_t shown = random.below(length);
    double expected_sum = 0;
    for (uint32_t i = 0; i < length; ++i) {
      if (i != shown && random.below(3) != 0) row[i] = -INFINITY;
      expected_sum += std::exp(double{row[i] - row[shown]});
    }
    const std::vector<float> before(row.span().begin(), row.span().end());
    const float max = row[shown];
    float sum = NAN;
    kernels().exp_sum(length * sizeof(float), row.data(), &max, row.data(), &sum);
    for (uint32_t i = 0; i < length; ++i) {
      if (before[i] != -INFINITY) continue;
      ASSERT_EQ(row[i], 0.0f) << i << " of " << length;
      ASSERT_FALSE(std::signbit(row[i]));
    }
    ASSERT_EQ(row[shown], 1.0f);
    ASSERT_NEAR(sum, expected_sum, expected_sum * (kExpError + length * kRounding));
  }
}

// Attention detects a NaN score or an infinite maximum by a NaN sum.
TEST_P(RowKernels, GiveNoSumOfExponentialsThatAreNaN) {
  const float pairs[][2] = {{NAN, 1.0f}, {1.0f, NAN}, {INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    for (uint32_t place = 0; place < length; ++place) {
      for (const auto& [x, max] : pairs) {
        std::ranges::fill(row.span(), -3.0f);
        row[place] = x;
        float sum = 0.0f;
        kernels().exp_sum(length * sizeof(float), row.data(), &max, row.data(), &sum);
        ASSERT_TRUE(std::isnan(sum)) << x << " - " << max << ", " << place << " of " << length;
        ASSERT_TRUE(std::isnan(row[place]));
      }
    }
  }
}

// The lowest number of all, which hides keys, and what is as far from the largest score.
TEST_P(RowKernels, GiveExactlyZeroForTheLowestNumber) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    for (const float max : {FLT_MAX, 1e30f, 5.0f, -1e30f, std::nextafterf(-FLT_MAX, 0.0f)}) {
      std::ranges::fill(row.span(), -FLT_MAX);
      row[length / 2] = max;
      float sum = NAN;
      kernels().exp_sum(length * sizeof(float), row.data(), &max, row.data(), &sum);
      ASSERT_EQ(sum, 1.0f) << max << ", " << length;
      ASSERT_EQ(std::ranges::count(row.span(), 0.0f), length - 1);
    }
  }
}

// Element by element, so that NaN goes no further than it must, and no less far.
TEST_P(RowKernels, KeepNaNWhereItIs) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    const GuardedFloats ones(length, kReadAheadBytes);
    std::ranges::fill(ones.span(), 1.0f);
    const GuardedFloats result(length);
    const size_t bytes = length * sizeof(float);
    const auto expect_one_nan = [&](uint32_t place, const char* kernel) {
      for (uint32_t i = 0; i < length; ++i) {
        ASSERT_EQ(std::isnan(result[i]), i == place) << kernel << " " << i << " of " << length;
      }
    };
    for (uint32_t place = 0; place < length; ++place) {
      std::ranges::fill(row.span(), 0.5f);
      row[place] = NAN;
      for (const auto& [kernel, name] :
           {std::pair(kernels().gelu, "gelu"), std::pair(kernels().sigmoid, "sigmoid"),
            std::pair(kernels().tanh, "tanh")}) {
        kernel(bytes, row.data(), result.data());
        ASSERT_NO_FATAL_FAILURE(expect_one_nan(place, name));
      }
      kernels().add(bytes, row.data(), ones.data(), result.data());
      ASSERT_NO_FATAL_FAILURE(expect_one_nan(place, "add"));
      kernels().multiply(bytes, ones.data(), row.data(), result.data());
      ASSERT_NO_FATAL_FAILURE(expect_one_nan(place, "multiply"));
      kernels().scale(bytes, row.data(), ones.data(), result.data());
      ASSERT_NO_FATAL_FAILURE(expect_one_nan(place, "scale"));
      float sum = 0.0f;
      kernels().sum(bytes, row.data(), &sum);
      ASSERT_TRUE(std::isnan(sum));
    }
  }
}

TEST_P(RowKernels, GiveTheSameExponentialsInPlace) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    Random(length).fill(row.span(), 10.0f);
    const float max = 10.0f;
    const GuardedFloats apart(length);
    float sum_apart = NAN;
    float sum = NAN;
    kernels().exp_sum(length * sizeof(float), row.data(), &max, apart.data(), &sum_apart);
    kernels().exp_sum(length * sizeof(float), row.data(), &max, row.data(), &sum);
    ASSERT_TRUE(same_bits(row.span(), apart.span())) << length;
    ASSERT_EQ(sum, sum_apart) << length;
    ASSERT_TRUE(row.surroundings_intact());
  }
}

TEST_P(RowKernels, AddExactlyApartAndInPlace) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats a(length, kReadAheadBytes);
    const GuardedFloats b(length, kReadAheadBytes);
    Random(1).fill(a.span(), 1.0f);
    Random(2).fill(b.span(), 3.0f);
    b[length - 1] = -INFINITY;
    std::vector<float> expected(length);
    for (uint32_t i = 0; i < length; ++i) expected[i] = a[i] + b[i];
    const GuardedFloats apart(length);
    kernels().add(length * sizeof(float), a.data(), b.data(), apart.data());
    ASSERT_TRUE(same_bits(apart.span(), expected)) << length;
    kernels().add(length * sizeof(float), a.data(), b.data(), a.data());
    ASSERT_TRUE(same_bits(a.span(), expected)) << length;
    ASSERT_TRUE(a.surroundings_intact() && b.surroundings_intact());
  }
}

TEST_P(RowKernels, ScaleExactlyApartAndInPlace) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    const GuardedFloats row(length, kReadAheadBytes);
    Random(1).fill(row.span(), 1.0f);
    const float factor = 1.0f / 3.0f;
    std::vector<float> expected(length);
    for (uint32_t i = 0; i < length; ++i) expected[i] = row[i] * factor;
    const GuardedFloats apart(length);
    kernels().scale(length * sizeof(float), row.data(), &factor, apart.data());
    ASSERT_TRUE(same_bits(apart.span(), expected)) << length;
    kernels().scale(length * sizeof(float), row.data(), &factor, row.data());
    ASSERT_TRUE(same_bits(row.span(), expected)) << length;
    ASSERT_TRUE(row.surroundings_intact());
  }
}

}  // namespace
}  // namespace arenite::test
