// SPDX-License-Identifier: Apache-2.0
// Integers and scales of a file are kept unchanged: rounded scales, moved rows, refusals.
#include "convert/spec/quantized_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "convert/spec/model_tensors.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using testing::refuses;

constexpr uint32_t kRows = 3;
constexpr uint32_t kColumns = 2 * kQ4Block;

// Integers from -8 to 7 in groups of `group`, with scales that bfloat16 has.
ScaledIntegers four_bits(uint32_t group) {
  ScaledIntegers integers{.rows = kRows, .columns = kColumns, .group = group};
  for (uint32_t i = 0; i < kRows * kColumns; ++i) {
    integers.values.push_back(static_cast<int8_t>(static_cast<int>(i * 7 % 16) - 8));
  }
  for (uint32_t i = 0; i < kRows * kColumns / group; ++i) {
    integers.scales.push_back(0.5f * static_cast<float>(i + 1));
  }
  return integers;
}

WeightRef weight_of(const ScaledIntegers& integers, TensorType type) {
  return {.name = "w",
          .rows = integers.rows,
          .columns = integers.columns,
          .load = [integers] { return products(integers); },
          .quantized = {type, "by hand"},
          .load_quantized = [integers, type] { return keep_integers(integers, type, "'m': 'w'"); }};
}

std::vector<float> products_of(const QuantizedMatrix& matrix) {
  const size_t block = matrix.values.size() / matrix.scales.size();
  std::vector<float> numbers;
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    numbers.push_back(matrix.scales[i / block] * static_cast<float>(matrix.values[i]));
  }
  return numbers;
}

TEST(QuantizedWeights, KeepIntegersAndSpreadScalesOverBlocks) {
  for (const uint32_t group : {kQ4Block, kColumns}) {
    const ScaledIntegers integers = four_bits(group);
    const QuantizedMatrix matrix = keep_integers(integers, TensorType::kQ4, "w");
    EXPECT_EQ(matrix.rows, kRows);
    EXPECT_EQ(matrix.columns, kColumns);
    EXPECT_EQ(matrix.values, integers.values);
    ASSERT_EQ(matrix.scales.size(), kRows * 2u);
    for (size_t i = 0; i < matrix.scales.size(); ++i) {
      EXPECT_EQ(matrix.scales[i], integers.scales[i * kQ4Block / group]) << i;
    }
    EXPECT_EQ(products_of(matrix), products(integers));
  }
}

TEST(QuantizedWeights, FitOnlyWholeBlocksOrWholeRows) {
  EXPECT_TRUE(can_hold(TensorType::kQ4, 4, 96, 32));
  EXPECT_TRUE(can_hold(TensorType::kQ4, 4, 96, 96));
  EXPECT_FALSE(can_hold(TensorType::kQ4, 4, 48, 48));
  EXPECT_FALSE(can_hold(TensorType::kQ4, 4, 96, 16));
  EXPECT_FALSE(can_hold(TensorType::kQ4, 8, 96, 32));
  EXPECT_TRUE(can_hold(TensorType::kQ8, 8, 48, 48));
  EXPECT_FALSE(can_hold(TensorType::kQ8, 8, 96, 32));
  EXPECT_FALSE(can_hold(TensorType::kF32, 8, 96, 96));
}

TEST(QuantizedWeights, RoundScalesOfBlocksToTheNearestBfloat16AndSayWhatThatChanges) {
  constexpr float kStep = 0x1p-7f;  // of bfloat16 from 1 on
  ScaledIntegers integers = four_bits(kQ4Block);
  integers.scales = {1.0f + 0.5f * kStep,    // a tie, to even
                     1.0f + 1.5f * kStep,    // the other way
                     -1.0f - 0.25f * kStep,  // down
                     1.0f + 0.75f * kStep,   // up
                     2.0f,
                     0x1p-24f};  // exact, also binary16's least
  const QuantizedMatrix matrix = keep_integers(integers, TensorType::kQ4, "w");
  EXPECT_EQ(matrix.scales,
            (std::vector<float>{1.0f, 1.0f + 2 * kStep, -1.0f, 1.0f + kStep, 2.0f, 0x1p-24f}));
  const double changes[] = {1 - 1 / (1 + 0.5 * kStep),
                            (1 + 2 * kStep) / (1 + 1.5 * kStep) - 1,
                            1 - 1 / (1 + 0.25 * kStep),
                            (1 + kStep) / (1 + 0.75 * kStep) - 1,
                            0,
                            0};
  double squares = 0.0;
  for (const double change : changes) squares += change * change / 6;
  const ScaleChange found = change_of_scales(weight_of(integers, TensorType::kQ4));
  EXPECT_NEAR(found.largest, changes[0], 1e-7);
  EXPECT_NEAR(found.root_mean_square, std::sqrt(squares), 1e-5);  // zeros do not count
  const ScaleChange none = change_of_scales(weight_of(four_bits(kQ4Block), TensorType::kQ4));
  EXPECT_EQ(none.largest, 0.0);
  EXPECT_EQ(none.root_mean_square, 0.0);
}

TEST(QuantizedWeights, HaveAScaleOfOneWhereAllIsZero) {
  ScaledIntegers integers = four_bits(kQ4Block);
  integers.scales[1] = 0.0f;
  integers.scales[4] = -0.0f;
  const QuantizedMatrix matrix = keep_integers(integers, TensorType::kQ4, "w");
  EXPECT_EQ(matrix.scales[1], 1.0f);
  EXPECT_EQ(matrix.scales[4], 1.0f);
  const std::vector<float> expected = products(integers);
  const std::vector<float> found = products_of(matrix);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], expected[i]) << i;
}

TEST(QuantizedWeights, RefuseScalesThatNoKernelCanUse) {
  for (const float scale : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 3e38f, -1e31f, 1e-31f}) {
    ScaledIntegers blocks = four_bits(kQ4Block);
    blocks.scales[3] = scale;
    EXPECT_TRUE(refuses([&] { keep_integers(blocks, TensorType::kQ4, "'m.gguf': 'w'"); },
                        {"'m.gguf': 'w'", "row 1, columns 32 to 63", fmt::format("is {}", scale),
                         "expected 0 or a magnitude", "convert the unquantized model"}));
    ScaledIntegers rows = four_bits(kColumns);
    rows.scales[2] = scale;
    EXPECT_TRUE(refuses([&] { keep_integers(rows, TensorType::kQ8, "'m': 'w'"); },
                        {"row 2, columns 0 to 63"}));
  }
}

TEST(QuantizedWeights, AreOfferedAsTheirTypeAndInt8RowsAsBothThatHoldThem) {
  const WeightRef blocks = weight_of(four_bits(kQ4Block), TensorType::kQ4);
  EXPECT_TRUE(offers(blocks, TensorType::kQ4));
  for (const TensorType type : {TensorType::kF32, TensorType::kW8, TensorType::kQ8}) {
    EXPECT_FALSE(offers(blocks, type)) << name(type);
  }
  const WeightRef rows = weight_of(four_bits(kColumns), TensorType::kQ8);
  for (const TensorType type : {TensorType::kW8, TensorType::kQ8}) {
    EXPECT_TRUE(offers(rows, type));
    const QuantizedMatrix matrix = load_as(rows, type);
    EXPECT_EQ(matrix.type, type);
    EXPECT_EQ(products_of(matrix), rows.load());
  }
  EXPECT_FALSE(offers(rows, TensorType::kQ4));
  EXPECT_FALSE(offers(rows, TensorType::kF32));
  EXPECT_FALSE(offers(WeightRef{.name = "plain", .load = {}}, TensorType::kF32));
}

TEST(QuantizedWeights, MoveWithTheirRows) {
  for (const auto& [type, group] :
       {std::pair(TensorType::kQ4, kQ4Block), std::pair(TensorType::kQ8, kColumns)}) {
    const WeightRef moved = select_rows(weight_of(four_bits(group), type), {2, 0, 2, 1});
    ASSERT_TRUE(offers(moved, type));
    EXPECT_EQ(moved.quantized.scheme, "by hand");
    const QuantizedMatrix matrix = moved.load_quantized();
    EXPECT_EQ(matrix.rows, 4u);
    EXPECT_EQ(matrix.scales.size(), 4 * kColumns / group);
    EXPECT_EQ(products_of(matrix), moved.load());

    const LinearSpec stacked = stack_rows({{moved}, {weight_of(four_bits(group), type)}});
    ASSERT_TRUE(offers(stacked.weight, type));
    EXPECT_EQ(stacked.weight.load_quantized().rows, 7u);
    EXPECT_EQ(products_of(stacked.weight.load_quantized()), stacked.weight.load());
  }
}

TEST(QuantizedWeights, AreDroppedWhereColumnsOrValuesChange) {
  const WeightRef blocks = weight_of(four_bits(kQ4Block), TensorType::kQ4);
  const WeightRef rows = weight_of(four_bits(kColumns), TensorType::kQ8);
  WeightRef plain = blocks;
  plain.quantized = {};
  plain.load_quantized = {};
  for (const WeightRef& dropped :
       {transpose(blocks), stack_rows({{blocks}, {rows}}).weight,
        stack_rows({{blocks}, {plain}}).weight, stack_rows({{plain}, {blocks}}).weight}) {
    EXPECT_FALSE(dropped.load_quantized);
    EXPECT_EQ(dropped.quantized.type, TensorType::kF32);
    EXPECT_EQ(dropped.load().size(), size_t{dropped.rows} * dropped.columns);
  }
}

}  // namespace
}  // namespace arenite::convert
