// SPDX-License-Identifier: Apache-2.0
// Tests the meaning of mask buffers of every convention, type and shape.
#include "convert/spec/mask_buffers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "convert/files/checkpoint.h"
#include "convert/modules/mask_patterns.h"
#include "support/checkpoint_builder.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::test {
namespace {

using convert::Checkpoint;
using convert::DenseMask;
using convert::DType;
using convert::MaskBuffer;
using convert::MaskOnes;

struct Buffer {
  std::string name = "mask";
  std::vector<uint64_t> shape = {};
  std::vector<double> values = {};
  DType dtype = DType::kF32;
};

MaskBuffer read(const Buffer& buffer, uint32_t positions = 0,
                std::optional<MaskOnes> ones = std::nullopt) {
  const testing::TempFolder folder;
  CheckpointBuilder builder;
  builder.add(buffer.name, buffer.shape, buffer.values, buffer.dtype);
  convert::TensorStore store("m.safetensors");
  store.add(std::make_shared<const Checkpoint>(
      Checkpoint::read(folder.write("m.safetensors", builder.safetensors()))));
  return read_mask_buffer(*store.find(buffer.name), "'m.safetensors'", positions, ones);
}

::testing::AssertionResult refuses(const Buffer& buffer,
                                   std::initializer_list<std::string_view> parts,
                                   uint32_t positions = 0) {
  return testing::refuses([&] { read(buffer, positions); }, parts);
}

constexpr uint32_t kSide = 21;
const std::vector<uint64_t> kSquare = {kSide, kSide};

TEST(MaskBuffer, UnderstandsNumbersAddedToScores) {
  const double lowest = std::numeric_limits<float>::lowest();
  for (const MaskPattern& pattern : mask_patterns(kSide)) {
    for (const double hiding : {-HUGE_VAL, lowest, -1e9, -1e4}) {
      const Buffer buffer{"mask", kSquare, added_to_scores(pattern.dense, hiding)};
      EXPECT_EQ(read(buffer).dense, pattern.dense) << pattern.name << hiding;
    }
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
      const Buffer buffer{"mask", kSquare, added_to_scores(pattern.dense, -HUGE_VAL), dtype};
      EXPECT_EQ(read(buffer).dense, pattern.dense) << pattern.name << name(dtype);
    }
  }
}

TEST(MaskBuffer, UnderstandsOnesOfEitherMeaningInEveryType) {
  for (const MaskPattern& pattern : mask_patterns(kSide)) {
    bool sees_itself = true;  // the sign by which ones of either meaning can be told apart
    for (uint32_t i = 0; i < kSide; ++i) sees_itself = sees_itself && pattern.dense.at(i, i);
    if (!sees_itself) continue;
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kBool,
                              DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
      for (const char* name : {"mask", "bias", "tril", "x.attn_mask"}) {
        const Buffer visible{name, kSquare, ones_where_visible(pattern.dense), dtype};
        const Buffer hidden{name, kSquare, ones_where_hidden(pattern.dense), dtype};
        EXPECT_EQ(read(visible).dense, pattern.dense) << pattern.name << convert::name(dtype);
        EXPECT_EQ(read(hidden).dense, pattern.dense) << pattern.name << convert::name(dtype);
      }
    }
  }
}

TEST(MaskBuffer, FollowsTheOptionAboutOnes) {
  for (const MaskPattern& pattern : mask_patterns(kSide)) {
    const Buffer visible{"mask", kSquare, ones_where_visible(pattern.dense)};
    const Buffer hidden{"bias", kSquare, ones_where_hidden(pattern.dense)};
    EXPECT_EQ(read(visible, 0, MaskOnes::kVisible).dense, pattern.dense) << pattern.name;
    EXPECT_EQ(read(hidden, 0, MaskOnes::kHidden).dense, pattern.dense) << pattern.name;
  }
}

TEST(MaskBuffer, UsesItsNameWhereNothingElseDecides) {
  const std::vector<double> values = {1, 0, 1, 0, 0, 1, 1, 1, 0};  // rows and diagonal are mixed
  const DenseMask ones =
      dense_where(3, [&](uint32_t query, uint32_t key) { return values[query * 3 + key] == 1.0; });
  DenseMask zeros = ones;
  zeros.visible.flip();
  EXPECT_EQ(read({"tril", {3, 3}, values}).dense, ones);
  EXPECT_EQ(read({"h.bias", {3, 3}, values}).dense, ones);
  EXPECT_EQ(read({"h.mask", {3, 3}, values}).dense, zeros);
}

TEST(MaskBuffer, SaysHowItUnderstoodTheOnes) {
  const DenseMask causal = mask_patterns(kSide)[0].dense;
  EXPECT_EQ(read({"mask", kSquare, ones_where_hidden(causal)}).meaning,
            "1 hides: otherwise a row would see nothing");
  EXPECT_EQ(read({"mask", kSquare, added_to_scores(causal, -HUGE_VAL)}).meaning,
            "0 shows, large negative numbers hide");
}

TEST(MaskBuffer, AcceptsLeadingDimensionsOfOne) {
  const DenseMask causal = mask_patterns(kSide)[0].dense;
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{1, kSide, kSide}, {1, 1, kSide, kSide}, {1, 1, 1, kSide, kSide}}) {
    EXPECT_EQ(read({"bias", shape, ones_where_visible(causal)}).dense, causal);
  }
}

TEST(MaskBuffer, KeepsTheFirstPositions) {
  for (const MaskPattern& pattern : mask_patterns(kSide)) {
    for (const uint32_t kept : {1u, 9u, kSide}) {
      const DenseMask first =
          dense_where(kept, [&](uint32_t q, uint32_t k) { return pattern.dense.at(q, k); });
      EXPECT_EQ(read({"mask", kSquare, added_to_scores(pattern.dense, -1e9)}, kept).dense, first);
    }
  }
}

// A part of a mask may look as if ones meant the other thing.
TEST(MaskBuffer, LooksAtTheWholeBufferBeforeItKeepsAPart) {
  const DenseMask causal = mask_patterns(kSide)[0].dense;
  EXPECT_TRUE(read({"mask", kSquare, ones_where_visible(causal)}, 1).dense.at(0, 0));
  EXPECT_TRUE(read({"bias", kSquare, ones_where_hidden(causal)}, 1).dense.at(0, 0));
}

TEST(MaskBuffer, RefusesMorePositionsThanThereAre) {
  EXPECT_TRUE(refuses({"mask", {4, 4}, std::vector<double>(16)},
                      {"'m.safetensors'", "'mask'", "covers 4", "--context", "9"}, 9));
}

TEST(MaskBuffer, RefusesShapesThatAreNoSquare) {
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{}, {4}, {4, 5}, {2, 4, 4}, {1, 2, 4, 4}, {0, 0}}) {
    EXPECT_TRUE(refuses({"mask", shape}, {"'mask'", "shape [", "expected [T, T]"}));
  }
  EXPECT_TRUE(refuses({"mask", {32769, 32769, 0}}, {"expected [T, T]"}));
}

TEST(MaskBuffer, RefusesOtherValuesAndSaysWhere) {
  for (const double value : {0.5, 2.0, -1.0, -100.0, HUGE_VAL, std::nan("")}) {
    EXPECT_TRUE(refuses({"mask", {2, 2}, {0, 1, value, 0}}, {"'mask'", "index 2", "0 and 1"}));
  }
  EXPECT_TRUE(
      refuses({"mask", {2, 2}, {0, 1, -1e9, 0}}, {"'mask'", "mixes 1 with large negative"}));
}

}  // namespace
}  // namespace arenite::test
