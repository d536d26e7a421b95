// SPDX-License-Identifier: Apache-2.0
// Tests conversion of stored elements to floats, for each type and for strided views.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "convert/files/checkpoint.h"
#include "support/byte_string.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using testing::bytes_of;

// A contiguous vector over `storage`, which must outlive it.
CheckpointTensor vector_of(DType dtype, const std::string& storage) {
  return {.name = "t",
          .dtype = dtype,
          .shape = {storage.size() / bytes(dtype)},
          .strides = {1},
          .data = std::as_bytes(std::span(storage))};
}

std::vector<float> floats_of(DType dtype, const std::string& storage) {
  return vector_of(dtype, storage).to_f32();
}

TEST(TensorValues, ConvertsEveryType) {
  EXPECT_EQ(floats_of(DType::kF64, bytes_of<double>({-1.5, 2})), (std::vector<float>{-1.5f, 2}));
  EXPECT_EQ(floats_of(DType::kF32, bytes_of<float>({-1.5f, 2})), (std::vector<float>{-1.5f, 2}));
  EXPECT_EQ(floats_of(DType::kI64, bytes_of<int64_t>({-3, 4})), (std::vector<float>{-3, 4}));
  EXPECT_EQ(floats_of(DType::kI32, bytes_of<int32_t>({-3, 4})), (std::vector<float>{-3, 4}));
  EXPECT_EQ(floats_of(DType::kU32, bytes_of<uint32_t>({3, 4294967295u})),
            (std::vector<float>{3, 4294967296.0f}));
  EXPECT_EQ(floats_of(DType::kI16, bytes_of<int16_t>({-3, 4})), (std::vector<float>{-3, 4}));
  EXPECT_EQ(floats_of(DType::kI8, bytes_of<int8_t>({-3, 4})), (std::vector<float>{-3, 4}));
  EXPECT_EQ(floats_of(DType::kU8, bytes_of<uint8_t>({3, 255})), (std::vector<float>{3, 255}));
  EXPECT_EQ(floats_of(DType::kBool, bytes_of<uint8_t>({0, 1, 2})), (std::vector<float>{0, 1, 1}));
}

TEST(TensorValues, ConvertsBfloat16) {
  EXPECT_EQ(floats_of(DType::kBF16, bytes_of<uint16_t>({0x3f80, 0xc040, 0x7f80, 0x0001})),
            (std::vector<float>{1, -3, INFINITY, std::ldexp(1.0f, -133)}));
}

TEST(TensorValues, ConvertsHalfPrecisionWithSubnormalsAndInfinities) {
  const std::string halves =
      bytes_of<uint16_t>({0x3c00, 0xc000, 0x7bff, 0x0400, 0x03ff, 0x0001, 0x8000, 0x7c00, 0xfc00});
  EXPECT_EQ(floats_of(DType::kF16, halves),
            (std::vector<float>{1, -2, 65504, 0x1p-14f, 0x3ffp-24f, 0x1p-24f, -0.0f, INFINITY,
                                -INFINITY}));
  EXPECT_TRUE(std::signbit(floats_of(DType::kF16, halves)[6]));
  EXPECT_TRUE(std::isnan(floats_of(DType::kF16, bytes_of(uint16_t{0x7e00}))[0]));
}

TEST(TensorValues, KeepsEveryBitOfFloatsAndOfDoubles) {
  const std::string payload = bytes_of(uint32_t{0x7fc12345});  // a NaN that carries something
  const float converted = floats_of(DType::kF32, payload)[0];
  EXPECT_EQ(bytes_of(converted), payload);
  const std::string tenth = bytes_of(0.1);
  EXPECT_EQ(vector_of(DType::kF64, tenth).to_f64(), std::vector<double>{0.1});
}

TEST(TensorValues, ReadsAtAnyAlignment) {
  std::string storage(1, '?');
  storage += bytes_of<double>({1, 2});
  CheckpointTensor tensor = vector_of(DType::kF64, storage);
  tensor.shape = {2};
  tensor.data = tensor.data.subspan(1);
  EXPECT_EQ(tensor.to_f64(), (std::vector<double>{1, 2}));
}

TEST(TensorValues, FollowsStrides) {
  std::vector<float> ramp(24);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
  const std::string storage = bytes_of(ramp);
  CheckpointTensor tensor = vector_of(DType::kF32, storage);
  tensor.shape = {2, 3, 4};
  tensor.strides = {1, 8, 2};
  std::vector<float> expected;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) expected.push_back(static_cast<float>(i + 8 * j + 2 * k));
    }
  }
  EXPECT_EQ(tensor.to_f32(), expected);
  tensor.shape = {2, 1, 3};
  tensor.strides = {0, 5, 1};
  EXPECT_EQ(tensor.to_f32(), (std::vector<float>{0, 1, 2, 0, 1, 2}));
}

TEST(TensorValues, GivesWholeNumbersOnlyOfWholeNumbers) {
  const int64_t large = (int64_t{1} << 60) + 1;  // not a double
  const std::string storage = bytes_of(large);
  EXPECT_EQ(vector_of(DType::kI64, storage).to_i64(), std::vector<int64_t>{large});
  EXPECT_TRUE(testing::refuses([&] { vector_of(DType::kF64, storage).to_i64(); },
                               {"'t' holds F64: expected integers"}));
}

}  // namespace
}  // namespace arenite::convert
