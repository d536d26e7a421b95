// SPDX-License-Identifier: Apache-2.0
// Reading a row of a tensor gives the written values, for every type and packing.
#include "core/views.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "support/quantized_weights.h"

namespace arenite::test {
namespace {

constexpr float kUntouched = 12345.0f;

// The row, and a number that must not be written after it.
std::vector<float> read(const WeightView& view, uint32_t row) {
  std::vector<float> numbers(size_t{view.columns} + 1, kUntouched);
  read_row(view, row, numbers.data());
  return numbers;
}

TEST(WeightRows, PackedWeightsInFewBitsGiveThePackedValues) {
  for (uint32_t target = 0; target < kTargets; ++target) {
    for (const TensorType type : {TensorType::kW8, TensorType::kQ8, TensorType::kQ4}) {
      const Packing packing = packing_of(static_cast<Target>(target), type);
      const uint32_t outputs = packing.nr + 3u;
      const uint32_t inputs = type == TensorType::kQ4 ? 3 * kQ4Block : 37;
      const QuantizedWeights weights(type, packing, outputs, inputs, target);
      for (uint32_t row = 0; row < outputs; ++row) {
        const std::vector<float> found = read(weights.view(), row);
        for (uint32_t i = 0; i < inputs; ++i) {
          // Few bits times a scale of eight bits: no product is rounded.
          ASSERT_EQ(double{found[i]}, weights.weight(row, i)) << name(type) << row << " " << i;
        }
        ASSERT_EQ(found[inputs], kUntouched);
      }
    }
  }
}

// A plain int8 row is a scale, the elements, and zeros up to a whole float.
TEST(WeightRows, PlainInt8IsScaledByItsRow) {
  constexpr float kScales[] = {0.5f, 0.25f};
  constexpr int8_t kNumbers[2][5] = {{-128, -1, 0, 1, 127}, {3, -7, 11, -13, 17}};
  std::vector<std::byte> bytes;
  const auto append = [&](const void* from, size_t count) {
    const auto* const begin = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + count);
  };
  for (size_t row = 0; row < 2; ++row) {
    append(&kScales[row], sizeof(float));
    append(kNumbers[row], 5);
    append("\0\0\0", 3);
  }
  const WeightView view = {bytes.data(), TensorType::kQ8, {}, 2, 5};
  EXPECT_EQ(read(view, 0), std::vector<float>({-64.0f, -0.5f, 0.0f, 0.5f, 63.5f, kUntouched}));
  EXPECT_EQ(read(view, 1), std::vector<float>({0.75f, -1.75f, 2.75f, -3.25f, 4.25f, kUntouched}));
}

// A block of 32 elements is a bfloat16 scale and 16 bytes, whose low halves are the first 16
// elements.
TEST(WeightRows, PlainQ4UnpacksHalfBytesAndScalesBlocks) {
  constexpr float kScales[] = {0.5f, 2.0f, 0.125f, 1.0f};
  std::vector<std::byte> bytes;
  for (const float scale : kScales) {
    const auto high = static_cast<uint16_t>(std::bit_cast<uint32_t>(scale) >> 16);
    std::byte scale_bytes[sizeof(high)];
    std::memcpy(scale_bytes, &high, sizeof(high));
    bytes.insert(bytes.end(), std::begin(scale_bytes), std::end(scale_bytes));
    // Low halves 0 to 7, then -8 to -1; high halves the other way round.
    for (uint32_t i = 0; i < 16; ++i) bytes.push_back(static_cast<std::byte>((15 - i) << 4 | i));
  }
  const WeightView view = {bytes.data(), TensorType::kQ4, {}, 2, 64};
  for (uint32_t row = 0; row < 2; ++row) {
    std::vector<float> expected;
    for (size_t block = 0; block < 2; ++block) {
      const float scale = kScales[2 * row + block];
      const auto number = [&](int half) { return static_cast<float>(half < 8 ? half : half - 16); };
      for (int i = 0; i < 16; ++i) expected.push_back(number(i) * scale);
      for (int i = 15; i >= 0; --i) expected.push_back(number(i) * scale);
    }
    expected.push_back(kUntouched);
    EXPECT_EQ(read(view, row), expected) << row;
  }
}

}  // namespace
}  // namespace arenite::test
