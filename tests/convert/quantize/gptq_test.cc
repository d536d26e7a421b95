// SPDX-License-Identifier: Apache-2.0
// GPTQ loses much less of a layer's outputs than plain rounding, never more, and reports layers
// whose inputs carry little information.
#include "convert/quantize/gptq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/random.h"

namespace arenite::convert {
namespace {

using test::Random;

constexpr TensorType kGptqTypes[] = {TensorType::kW8, TensorType::kQ8, TensorType::kQ4};

// Inputs as layers have them: a few directions make up most of each, columns differ in size.
DenseMatrix correlated_inputs(uint32_t rows, uint32_t columns, uint64_t seed) {
  Random random(seed);
  const uint32_t directions = columns / 8 + 1;
  DenseMatrix mixing(directions, columns);
  for (uint32_t i = 0; i < directions; ++i) random.fill({mixing.row(i), columns}, 1.0f);
  DenseMatrix inputs(rows, columns);
  for (uint32_t row = 0; row < rows; ++row) {
    random.fill({inputs.row(row), columns}, 0.7f);
    for (uint32_t i = 0; i < directions; ++i) {
      const float share = random.symmetric(1.0f);
      for (uint32_t j = 0; j < columns; ++j) inputs.row(row)[j] += share * mixing.row(i)[j];
    }
    for (uint32_t j = 0; j < columns; j += 7) inputs.row(row)[j] *= 4.0f;
  }
  return inputs;
}

Hessian hessian_of(const DenseMatrix& inputs) {
  Hessian hessian(inputs.columns());
  hessian.add(inputs.part(0, 0, inputs.rows(), inputs.columns()));
  return hessian;
}

std::vector<float> random_weights(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> weights(count);
  for (float& weight : weights) {
    for (int i = 0; i < 4; ++i) weight += random.symmetric(0.05f);
  }
  return weights;
}

// Squared error of the outputs for the inputs themselves.
double output_error(const DenseMatrix& inputs, std::span<const float> weights,
                    const QuantizedMatrix& matrix) {
  const std::vector<float> kept = dequantize(matrix);
  double error = 0.0;
  for (uint32_t row = 0; row < matrix.rows; ++row) {
    for (uint32_t token = 0; token < inputs.rows(); ++token) {
      double lost = 0.0;
      for (uint32_t i = 0; i < matrix.columns; ++i) {
        const size_t place = size_t{row} * matrix.columns + i;
        lost += double{inputs.row(token)[i]} * (double{weights[place]} - kept[place]);
      }
      error += lost * lost;
    }
  }
  return error;
}

TEST(Gptq, LosesMuchLessOfTheOutputsThanRounding) {
  for (const TensorType type : kGptqTypes) {
    // Covers one block of q4, one strip, several strips, and odd numbers of rows.
    for (const uint32_t columns : {32u, 128u, 160u, 288u}) {
      const uint32_t rows = columns == 288 ? 1 : 21;
      const DenseMatrix inputs = correlated_inputs(2 * columns + 60, columns, columns);
      const std::vector<float> weights = random_weights(size_t{rows} * columns, 7);
      const Hessian hessian = hessian_of(inputs);
      const QuantizedMatrix rounded =
          quantize(weights, rows, columns, type, hessian.mean_squares());
      GptqReport report;
      const QuantizedMatrix matrix = quantize_gptq(weights, rows, columns, type, hessian, &report);
      const double error = output_error(inputs, weights, matrix);
      const double rounding_error = output_error(inputs, weights, rounded);
      EXPECT_LE(error, 0.8 * rounding_error) << name(type) << " " << columns;
      EXPECT_TRUE(report.compensated);
      EXPECT_EQ(report.dampening, 0.01);
      EXPECT_EQ(report.unused_inputs, 0u);
      EXPECT_NEAR(report.error, error, 1e-3 * error);
      EXPECT_NEAR(report.rounding_error, rounding_error, 1e-3 * rounding_error);
    }
  }
}

TEST(Gptq, NeverLosesMoreThanRounding) {
  // Inputs that are not correlated leave little to gain, and single rows could lose.
  for (const TensorType type : kGptqTypes) {
    DenseMatrix inputs(300, 64);
    Random random(3);
    for (uint32_t row = 0; row < 300; ++row) random.fill({inputs.row(row), 64}, 1.0f);
    const std::vector<float> weights = random_weights(90 * 64, 8);
    const Hessian hessian = hessian_of(inputs);
    const QuantizedMatrix rounded = quantize(weights, 90, 64, type, hessian.mean_squares());
    GptqReport report;
    const QuantizedMatrix matrix = quantize_gptq(weights, 90, 64, type, hessian, &report);
    EXPECT_GT(report.rounded_rows, 0u) << name(type);
    EXPECT_LT(report.rounded_rows, 90u) << name(type);
    for (uint32_t row = 0; row < 90; ++row) {
      const auto one = std::span(weights).subspan(row * 64, 64);
      const uint32_t scales = 64 / weights_per_scale(type, 64);
      const auto row_of = [&](const QuantizedMatrix& from) {
        const auto value = from.values.begin() + row * 64;
        const auto scale = from.scales.begin() + row * scales;
        return QuantizedMatrix{type, 1, 64, {value, value + 64}, {scale, scale + scales}};
      };
      EXPECT_LE(output_error(inputs, one, row_of(matrix)),
                output_error(inputs, one, row_of(rounded)) * (1 + 1e-4))
          << name(type) << " " << row;
    }
  }
}

TEST(Gptq, IsExactForWeightsOnTheGrid) {
  const DenseMatrix inputs = correlated_inputs(200, 64, 1);
  for (const TensorType type : kGptqTypes) {
    const std::vector<float> weights =
        dequantize(quantize(random_weights(10 * 64, 5), 10, 64, type));
    const QuantizedMatrix matrix = quantize_gptq(weights, 10, 64, type, hessian_of(inputs));
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSERT_NEAR(dequantize(matrix)[i], weights[i], 0x1p-22f * std::fabs(weights[i]));
    }
  }
}

TEST(Gptq, ScalesOfBlocksAreBfloat16) {
  const DenseMatrix inputs = correlated_inputs(200, 96, 2);
  const QuantizedMatrix matrix =
      quantize_gptq(random_weights(30 * 96, 6), 30, 96, TensorType::kQ4, hessian_of(inputs));
  ASSERT_EQ(matrix.scales.size(), 90u);
  for (const float scale : matrix.scales) EXPECT_EQ(to_bfloat16(scale), scale);
  for (const int8_t value : matrix.values) EXPECT_TRUE(value >= -8 && value <= 7);
}

TEST(Gptq, FewerInputsThanColumnsAreDampened) {
  // Ten rows, most of them alike: the Hessian is far from positive definite.
  DenseMatrix inputs = correlated_inputs(10, 160, 9);
  for (uint32_t row = 1; row < 8; ++row) {
    std::copy_n(inputs.row(0), 160, inputs.row(row));
  }
  const std::vector<float> weights = random_weights(12 * 160, 4);
  GptqReport report;
  const QuantizedMatrix matrix =
      quantize_gptq(weights, 12, 160, TensorType::kQ4, hessian_of(inputs), &report);
  EXPECT_TRUE(report.compensated);
  EXPECT_EQ(report.dampening, 0.01);
  EXPECT_LT(report.error, 0.8 * report.rounding_error);
  for (const float weight : dequantize(matrix)) EXPECT_LT(std::fabs(weight), 1.0f);
}

// Real sums of products are positive; these are not any more.
TEST(Gptq, SaysHowMuchDampeningAHessianNeeded) {
  DenseMatrix upper(32, 32);
  for (uint32_t i = 0; i < 32; ++i) std::fill_n(upper.row(i) + i, 32 - i, 1.0f);
  upper.row(3)[9] = 1.5f;
  const Hessian hessian(upper);
  GptqReport report;
  const std::vector<float> weights = random_weights(5 * 32, 4);
  quantize_gptq(weights, 5, 32, TensorType::kQ4, hessian, &report);
  EXPECT_TRUE(report.compensated);
  EXPECT_EQ(report.dampening, 1.0);
}

TEST(Gptq, RoundsWhereNothingIsKnown) {
  const std::vector<float> weights = random_weights(5 * 64, 4);
  DenseMatrix inputs(2, 64);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, infinity, std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    inputs.row(1)[5] = value;
    for (const TensorType type : kGptqTypes) {
      GptqReport report;
      const QuantizedMatrix matrix =
          quantize_gptq(weights, 5, 64, type, hessian_of(inputs), &report);
      EXPECT_FALSE(report.compensated) << value;
      EXPECT_EQ(report.rounded_rows, 5u);
      EXPECT_EQ(matrix.values, quantize(weights, 5, 64, type).values);
    }
  }
}

TEST(Gptq, UnusedInputsAreRoundedAndCounted) {
  DenseMatrix inputs = correlated_inputs(200, 96, 3);
  for (uint32_t row = 0; row < 200; ++row) {
    for (const uint32_t column : {0u, 40u, 95u}) inputs.row(row)[column] = 0.0f;
  }
  const std::vector<float> weights = random_weights(9 * 96, 2);
  for (const TensorType type : kGptqTypes) {
    GptqReport report;
    const QuantizedMatrix matrix = quantize_gptq(weights, 9, 96, type, hessian_of(inputs), &report);
    EXPECT_EQ(report.unused_inputs, 3u);
    EXPECT_LT(report.error, report.rounding_error);
    // Weights of unused inputs are rounded to nearest: there is no error to compensate.
    const uint32_t group = weights_per_scale(type, 96);
    for (size_t row = 0; row < 9; ++row) {
      for (const size_t column : {size_t{0}, size_t{40}, size_t{95}}) {
        const size_t place = row * 96 + column;
        EXPECT_EQ(matrix.values[place],
                  quantize_weight(weights[place], matrix.scales[place / group], type));
      }
    }
  }
}

TEST(Gptq, RowsOfZerosStayZeros) {
  std::vector<float> weights = random_weights(4 * 64, 2);
  std::fill_n(weights.begin() + 64, 64, 0.0f);
  for (const TensorType type : kGptqTypes) {
    const QuantizedMatrix matrix =
        quantize_gptq(weights, 4, 64, type, hessian_of(correlated_inputs(100, 64, 1)));
    for (size_t i = 64; i < 128; ++i) EXPECT_EQ(matrix.values[i], 0);
    for (const float scale : matrix.scales) EXPECT_TRUE(std::isfinite(scale) && scale != 0.0f);
  }
}

TEST(Gptq, GivesTheSameBitsEachTime) {
  const DenseMatrix inputs = correlated_inputs(333, 224, 3);
  const std::vector<float> weights = random_weights(50 * 224, 2);
  const QuantizedMatrix one = quantize_gptq(weights, 50, 224, TensorType::kQ4, hessian_of(inputs));
  const QuantizedMatrix other =
      quantize_gptq(weights, 50, 224, TensorType::kQ4, hessian_of(inputs));
  EXPECT_EQ(one.values, other.values);
  EXPECT_EQ(one.scales, other.scales);
}

// Rows are worked on in parts, so a matrix may have any number of them.
TEST(Gptq, ARowDoesNotDependOnTheOthers) {
  const DenseMatrix inputs = correlated_inputs(100, 32, 3);
  const Hessian hessian = hessian_of(inputs);
  const std::vector<float> weights = random_weights(2100 * 32, 2);
  const QuantizedMatrix all = quantize_gptq(weights, 2100, 32, TensorType::kQ4, hessian);
  for (const size_t row : {size_t{0}, size_t{2047}, size_t{2048}, size_t{2099}}) {
    const auto one = std::span(weights).subspan(row * 32, 32);
    const QuantizedMatrix alone = quantize_gptq(one, 1, 32, TensorType::kQ4, hessian);
    EXPECT_EQ(alone.scales[0], all.scales[row]);
    EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(),
                           all.values.begin() + static_cast<ptrdiff_t>(row * 32)));
  }
}

}  // namespace
}  // namespace arenite::convert
