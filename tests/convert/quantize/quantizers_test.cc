// SPDX-License-Identifier: Apache-2.0
// Quantization loses no more than plain scales do, nothing where the values are exactly
// representable, and keeps its scales in range.
#include "convert/quantize/quantizers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/random.h"

namespace arenite::convert {
namespace {

using test::Random;

constexpr TensorType kTypes[] = {TensorType::kW8, TensorType::kQ8, TensorType::kQ4};

// Returns nearly normally distributed values with a few outliers, like trained weights.
std::vector<float> weights_like_trained(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> weights(count);
  for (float& weight : weights) {
    for (int i = 0; i < 6; ++i) weight += random.symmetric(0.02f);
    if (random.below(100) == 0) weight *= 6.0f;
  }
  return weights;
}

std::vector<double> mean_squares(uint32_t columns, uint64_t seed) {
  Random random(seed);
  std::vector<double> squares(columns);
  for (double& square : squares) square = std::exp(4.0 * double{random.symmetric(1.0f)});
  return squares;
}

// Computes with a scale for each row or block, and nearest values, in double precision.
double error_with(std::span<const float> weights, uint32_t columns, TensorType type,
                  std::span<const double> column_weights, float level) {
  const uint32_t group = weights_per_scale(type, columns);
  double error = 0.0;
  for (size_t begin = 0; begin < weights.size(); begin += group) {
    float largest = 0.0f;
    for (size_t i = begin; i < begin + group; ++i) {
      if (std::fabs(weights[i]) > std::fabs(largest)) largest = weights[i];
    }
    const float ratio = largest / level;
    const double scale = type == TensorType::kQ4 ? to_bfloat16(ratio) : ratio;
    for (size_t i = begin; i < begin + group; ++i) {
      const double nearest = std::clamp<double>(std::nearbyint(weights[i] / scale),
                                                levels_of(type).least, levels_of(type).most);
      const double lost = weights[i] - scale * nearest;
      error += (column_weights.empty() ? 1.0 : column_weights[i % columns]) * lost * lost;
    }
  }
  return error;
}

TEST(Quantizers, LoseNoMoreThanThePlainScalesDo) {
  for (const TensorType type : kTypes) {
    for (const uint32_t columns : {32u, 64u, 352u}) {
      const std::vector<float> weights = weights_like_trained(size_t{17} * columns, columns);
      for (const bool weighted : {false, true}) {
        std::vector<double> squares;
        if (weighted) squares = mean_squares(columns, 5);
        const QuantizedMatrix matrix = quantize(weights, 17, columns, type, squares);
        const double found = noise_of(weights, matrix, squares).noise;
        const Levels levels = levels_of(type);
        const double plain = std::min(error_with(weights, columns, type, squares, levels.least),
                                      error_with(weights, columns, type, squares, levels.most));
        EXPECT_LE(found, plain * (1 + 1e-6)) << name(type) << " " << columns;
      }
    }
  }
}

// Returns the least weighted squared error of the block over all bfloat16 scales.
double least_error(std::span<const float> block, std::span<const double> column_weights) {
  double least = std::numeric_limits<double>::infinity();
  // Scales that are far too small clip weights, and scales that are far too large round all to 0.
  for (uint32_t bits = 0x3A00; bits < 0x3F80; ++bits) {
    const float scale = std::bit_cast<float>(bits << 16);
    for (const float signed_scale : {-scale, scale}) {
      double error = 0.0;
      for (size_t i = 0; i < block.size(); ++i) {
        const double level = std::nearbyint(double{block[i]} / signed_scale);
        const double lost = block[i] - signed_scale * std::clamp(level, -8.0, 7.0);
        error += column_weights[i] * lost * lost;
      }
      least = std::min(least, error);
    }
  }
  return least;
}

TEST(Quantizers, ScalesOfBlocksAreNearlyOptimal) {
  const std::vector<float> weights = weights_like_trained(200 * 32, 21);
  for (const bool weighted : {false, true}) {
    std::vector<double> squares(32, 1.0);
    if (weighted) squares = mean_squares(32, 5);
    double least = 0.0;
    for (size_t i = 0; i < 200; ++i) {
      least += least_error(std::span(weights).subspan(i * 32, 32), squares);
    }
    const QuantizedMatrix matrix = quantize(weights, 200, 32, TensorType::kQ4, squares);
    const double found = noise_of(weights, matrix, squares).noise;
    EXPECT_LE(found, (weighted ? 1.05 : 1.01) * least);
    EXPECT_GE(found, least * (1 - 1e-6));
  }
}

TEST(Quantizers, ColumnWeightsMoveTheErrorToWhereItCountsLess) {
  const uint32_t columns = 256;
  const std::vector<float> weights = weights_like_trained(size_t{8} * columns, 3);
  const std::vector<double> squares = mean_squares(columns, 4);
  for (const TensorType type : kTypes) {
    const QuantizedMatrix even = quantize(weights, 8, columns, type);
    const QuantizedMatrix weighted = quantize(weights, 8, columns, type, squares);
    EXPECT_LT(noise_of(weights, weighted, squares).noise, noise_of(weights, even, squares).noise);
    EXPECT_GE(noise_of(weights, weighted).noise, noise_of(weights, even).noise);
  }
}

TEST(Quantizers, WeightsThatAreValuesTimesAScaleComeBackExactly) {
  for (const TensorType type : kTypes) {
    const uint32_t columns = 96;
    const uint32_t group = weights_per_scale(type, columns);
    const Levels levels = levels_of(type);
    Random random(11);
    QuantizedMatrix given{type, 40, columns, {}, {}};
    for (uint32_t i = 0; i < 40 * columns / group; ++i) {
      const float scale = to_bfloat16(0.3f + random.symmetric(0.29f));
      given.scales.push_back(type == TensorType::kQ4 && random.below(2) == 0 ? -scale : scale);
    }
    for (uint32_t i = 0; i < 40 * columns; ++i) {
      // Some blocks use few of the values.
      const auto most = static_cast<int32_t>(1 + i / group % static_cast<uint32_t>(levels.most));
      const auto value = static_cast<int32_t>(random.below(2 * 128)) - 128;
      given.values.push_back(static_cast<int8_t>(value % (most + 1)));
    }
    const std::vector<float> weights = dequantize(given);
    const QuantizedMatrix found = quantize(weights, 40, columns, type);
    EXPECT_EQ(dequantize(found), weights) << name(type);
    EXPECT_EQ(noise_of(weights, found).decibels(), std::numeric_limits<double>::infinity());
  }
}

TEST(Quantizers, QuantizingTwiceEqualsOnce) {
  const std::vector<float> weights = weights_like_trained(64 * 320, 9);
  for (const TensorType type : kTypes) {
    const QuantizedMatrix once = quantize(weights, 64, 320, type);
    const QuantizedMatrix twice = quantize(dequantize(once), 64, 320, type);
    const std::vector<float> before = dequantize(once);
    const std::vector<float> after = dequantize(twice);
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(before[i], after[i], 0x1p-22f * std::fabs(before[i])) << name(type) << " " << i;
    }
  }
}

TEST(Quantizers, ScalesOfBlocksAreBfloat16AndMayBeNegative) {
  const std::vector<float> weights = weights_like_trained(32 * 128, 2);
  const QuantizedMatrix matrix = quantize(weights, 32, 128, TensorType::kQ4);
  ASSERT_EQ(matrix.scales.size(), 32u * 4);
  size_t negative = 0;
  for (const float scale : matrix.scales) {
    EXPECT_EQ(std::bit_cast<uint32_t>(scale) & 0xFFFF, 0u);
    if (scale < 0.0f) ++negative;
  }
  EXPECT_GT(negative, 20u);
  EXPECT_LT(negative, 108u);
  const auto [least, most] = std::minmax_element(matrix.values.begin(), matrix.values.end());
  EXPECT_EQ(*least, -8);
  EXPECT_EQ(*most, 7);
}

TEST(Quantizers, RowsAndBlocksOfZerosAreZeros) {
  std::vector<float> weights = weights_like_trained(4 * 64, 1);
  std::fill_n(weights.begin() + 64, 96, 0.0f);  // row 1 and the first block of row 2
  for (const TensorType type : kTypes) {
    ScaleReport report;
    const QuantizedMatrix matrix = quantize(weights, 4, 64, type, {}, &report);
    for (size_t i = 64; i < 128; ++i) EXPECT_EQ(matrix.values[i], 0);
    EXPECT_EQ(matrix.scales[64 / weights_per_scale(type, 64)], 1.0f);
    EXPECT_EQ(report.zeroed + report.clamped, 0u);
    for (const float scale : matrix.scales) EXPECT_TRUE(std::isfinite(scale) && scale != 0.0f);
  }
}

TEST(Quantizers, InputsThatAreNeverUsedCountAlike) {
  const std::vector<float> weights = weights_like_trained(6 * 64, 8);
  const std::vector<double> none(64, 0.0);
  for (const TensorType type : kTypes) {
    EXPECT_EQ(quantize(weights, 6, 64, type, none).values, quantize(weights, 6, 64, type).values);
  }
}

TEST(Quantizers, ScalesStayInTheRangeOfBfloat16) {
  for (const TensorType type : kTypes) {
    std::vector<float> weights = weights_like_trained(5 * 32, 6);
    const auto row = [&](size_t index) { return std::span(weights).subspan(index * 32, 32); };
    for (float& weight : row(0)) weight *= 0x1p-110f;
    for (float& weight : row(1)) weight = std::copysign(1e-45f, weight);  // not normal
    for (float& weight : row(2)) weight *= 0x1p125f;
    row(3)[5] = std::numeric_limits<float>::max();
    ScaleReport report;
    const QuantizedMatrix matrix = quantize(weights, 5, 32, type, {}, &report);
    EXPECT_EQ(report.zeroed, 2u) << name(type);
    EXPECT_EQ(report.clamped, 2u) << name(type);
    for (const float scale : matrix.scales) {
      EXPECT_GE(std::fabs(scale), kScaleMin);
      EXPECT_LE(std::fabs(scale), kScaleMax);
    }
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(matrix.values[i], 0);
    for (const float weight : dequantize(matrix)) EXPECT_TRUE(std::isfinite(weight));
    // A large weight keeps its sign, as large as there is room for.
    EXPECT_EQ(std::signbit(dequantize(matrix)[3 * 32 + 5]), false);
    EXPECT_GE(dequantize(matrix)[3 * 32 + 5], 7.0f * kScaleMax);
  }
}

TEST(Quantizers, LargeAndSmallWeightsAreRoundedAsOthers) {
  const std::vector<float> weights = weights_like_trained(3 * 64, 12);
  for (const TensorType type : kTypes) {
    const QuantizedMatrix expected = quantize(weights, 3, 64, type);
    for (const float factor : {0x1p-80f, 0x1p90f}) {
      std::vector<float> other = weights;
      for (float& weight : other) weight *= factor;
      const QuantizedMatrix found = quantize(other, 3, 64, type);
      EXPECT_EQ(found.values, expected.values);
      EXPECT_EQ(found.scales[0], expected.scales[0] * factor);
    }
  }
}

TEST(Quantizers, OneWeightIsARow) {
  for (const TensorType type : {TensorType::kW8, TensorType::kQ8}) {
    const std::vector<float> weights = {-0.37f, 2.5f, 0.0f};
    EXPECT_EQ(dequantize(quantize(weights, 3, 1, type)), weights);
  }
}

TEST(Quantizers, RoundToBfloat16TiesToEven) {
  EXPECT_EQ(to_bfloat16(1.0f), 1.0f);
  EXPECT_EQ(to_bfloat16(0x1.01p0f), 0x1.00p0f);
  EXPECT_EQ(to_bfloat16(0x1.03p0f), 0x1.04p0f);
  EXPECT_EQ(to_bfloat16(0x1.01008p0f), 0x1.02p0f);
  EXPECT_EQ(to_bfloat16(-0x1.FFp3f), -0x1.0p4f);
}

TEST(Quantizers, FindTheFirstNonFiniteWeight) {
  std::vector<float> weights(10, 1.0f);
  EXPECT_EQ(first_non_finite(weights), std::nullopt);
  weights[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_non_finite(weights), 7u);
  weights[4] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_non_finite(weights), 4u);
}

TEST(Quantizers, BlocksMustBeWhole) {
  EXPECT_TRUE(fits(TensorType::kQ4, 96));
  EXPECT_FALSE(fits(TensorType::kQ4, 172));
  EXPECT_TRUE(fits(TensorType::kQ8, 172));
}

}  // namespace
}  // namespace arenite::convert
