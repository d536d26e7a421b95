// SPDX-License-Identifier: Apache-2.0
// Every weight is at the offset that packing.h states; all other bytes are zero.
#include "convert/program/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/random.h"

namespace arenite::test {
namespace {

using convert::ProgramTensor;

// Weights 1, 2, 3, ... and biases -1, -2, ...: no zero, no two alike.
ProgramTensor numbered(uint32_t outputs, uint32_t inputs, bool bias) {
  ProgramTensor tensor{"t", outputs, inputs, {}, {}};
  for (uint32_t i = 0; i < outputs * inputs; ++i) {
    tensor.weights.push_back(static_cast<float>(i + 1));
  }
  for (uint32_t i = 0; bias && i < outputs; ++i) tensor.bias.push_back(-static_cast<float>(i + 1));
  return tensor;
}

class Packer : public ::testing::TestWithParam<Target> {};

TEST_P(Packer, PutsEveryElementInItsPlaceAndZerosElsewhere) {
  const Packing packing = packing_of(GetParam(), TensorType::kF32);
  const uint32_t nr = packing.nr;
  for (const uint32_t outputs : {1u, nr - 1, nr, nr + 1, 2 * nr, 3 * nr + 1}) {
    for (const uint32_t inputs : {1u, 2u, 7u, 32u}) {
      for (const bool bias : {true, false}) {
        const ProgramTensor tensor = numbered(outputs, inputs, bias);
        const size_t floats = packed_weight_bytes(packing, outputs, inputs).value() / sizeof(float);
        std::vector<float> packed(floats, 99.0f);
        pack_weights(tensor, tensor.weights, packing, std::as_writable_bytes(std::span(packed)));
        for (uint32_t o = 0; o < outputs; ++o) {
          float& bias_place = packed[packed_weight_index(packing, inputs, o, kBiasRow)];
          EXPECT_EQ(bias_place, bias ? tensor.bias[o] : 0.0f);
          bias_place = 0.0f;
          for (uint32_t i = 0; i < inputs; ++i) {
            float& place = packed[packed_weight_index(packing, inputs, o, i)];
            EXPECT_EQ(place, tensor.weights[o * inputs + i]) << o << "," << i;
            place = 0.0f;
          }
        }
        EXPECT_TRUE(std::ranges::all_of(packed, [](float value) { return value == 0.0f; }));
      }
    }
  }
}

TEST_P(Packer, CopiesPlainRows) {
  const Packing packing = packing_of(GetParam(), TensorType::kF32);
  ProgramTensor tensor = numbered(5, 7, false);
  tensor.layout = format::Layout::kPlain;
  std::vector<float> packed(35, 99.0f);
  ASSERT_EQ(format::stored_bytes(tensor.shape(), packing).value(), 35 * sizeof(float));
  pack_weights(tensor, tensor.weights, packing, std::as_writable_bytes(std::span(packed)));
  EXPECT_EQ(packed, tensor.weights);
}

// The widest values, so that each half of a byte differs from its neighbour, and bits that are no
// number: nothing may be computed with them.
ProgramTensor random_tensor(TensorType type, uint32_t outputs, uint32_t inputs,
                            format::Layout layout) {
  ProgramTensor tensor{"t", outputs, inputs, {}, {}, layout, type};
  Random random(outputs * 1000 + inputs);
  const bool is_gemm = layout == format::Layout::kGemm;
  for (uint32_t i = 0; is_gemm && i < outputs; ++i) tensor.bias.push_back(random.symmetric(1.0f));
  if (type == TensorType::kF32) {
    for (uint32_t i = 0; i < outputs * inputs; ++i)
      tensor.weights.push_back(random.symmetric(1.0f));
    const uint32_t signalling_nan = 0x7FA0BEEF;
    std::memcpy(tensor.weights.data(), &signalling_nan, sizeof(signalling_nan));
    return tensor;
  }
  const bool has_blocks = type == TensorType::kQ4;
  convert::QuantizedMatrix matrix{type, outputs, inputs};
  const uint32_t limit = has_blocks ? 8 : 128;
  for (uint32_t i = 0; i < outputs * inputs; ++i) {
    const uint32_t value = random.below(2 * limit);
    matrix.values.push_back(
        static_cast<int8_t>(static_cast<int32_t>(value) - static_cast<int32_t>(limit)));
  }
  const uint32_t scales = outputs * (has_blocks ? inputs / kQ4Block : 1);
  for (uint32_t i = 0; i < scales; ++i) {
    const float scale = 0.05f + random.symmetric(0.04f);
    uint32_t bits = 0;
    std::memcpy(&bits, &scale, sizeof(bits));
    bits &= has_blocks ? 0xFFFF0000u : UINT32_MAX;
    matrix.scales.emplace_back();
    std::memcpy(&matrix.scales.back(), &bits, sizeof(bits));
  }
  tensor.load_quantized = [matrix] { return matrix; };
  return tensor;
}

std::vector<std::byte> pack(const ProgramTensor& tensor, Target target) {
  const Packing packing = packing_of(target, tensor.type);
  std::vector<std::byte> packed(
      static_cast<size_t>(format::stored_bytes(tensor.shape(), packing).value()), std::byte{99});
  pack_weights(tensor, load_elements(tensor), packing, packed);
  return packed;
}

// Targets differ only in where they store elements, not in the stored values; this makes repacking
// exact.
TEST(Packings, StoreTheSameValuesOnAllTargets) {
  for (const TensorType type : convert::kWeightTypes) {
    for (uint32_t i = 0; i < kTargets; ++i) {
      const Packing packing = packing_of(static_cast<Target>(i), type);
      EXPECT_EQ(packing.type, packing_of(Target::kPortable, type).type) << name(type) << i;
      EXPECT_NE(packing.nr, 0u) << name(type) << i;
    }
  }
}

class Repacker : public ::testing::TestWithParam<Target> {};

TEST_P(Repacker, EqualsPackingForEveryOtherTargetAndType) {
  for (const TensorType type : convert::kWeightTypes) {
    const uint32_t nr = packing_of(GetParam(), type).nr;
    for (const uint32_t outputs : {1u, nr - 1, nr, nr + 1, 2 * nr, 3 * nr + 1}) {
      for (const uint32_t inputs : {1u, 7u, 8u, 9u, 32u, 64u, 96u}) {
        if (type == TensorType::kQ4 && inputs % kQ4Block != 0) continue;
        const ProgramTensor tensor = random_tensor(type, outputs, inputs, format::Layout::kGemm);
        const std::vector<std::byte> packed = pack(tensor, GetParam());
        ProgramTensor stored{"t", outputs, inputs, {}, {}, tensor.layout, type};
        stored.packed = {packed.data(), type, packing_of(GetParam(), type), outputs, inputs};
        for (uint32_t i = 0; i < kTargets; ++i) {
          const Target other = static_cast<Target>(i);
          EXPECT_EQ(pack(stored, other), pack(tensor, other))
              << name(type) << " " << outputs << " x " << inputs << " for " << name(other);
        }
      }
    }
  }
}

TEST(PlainRows, ArePackedAnewAsTheyLie) {
  for (const TensorType type : convert::kWeightTypes) {
    const ProgramTensor tensor = random_tensor(type, 5, 64, format::Layout::kPlain);
    const std::vector<std::byte> packed = pack(tensor, Target::kPortable);
    ProgramTensor stored{"t", 5, 64, {}, {}, tensor.layout, type};
    stored.packed = {packed.data(), type, {}, 5, 64};
    EXPECT_EQ(pack(stored, Target::kX86_64_v4), packed) << name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Repacker,
                         ::testing::Values(Target::kPortable, Target::kX86_64_v2,
                                           Target::kX86_64_v3, Target::kX86_64_v4, Target::kArm64,
                                           Target::kArm32, Target::kX86_64_v4_vnni,
                                           Target::kArm64_dot, Target::kArm64_i8mm,
                                           Target::kCortexMDsp, Target::kCortexMMve,
                                           Target::kRv64_v128, Target::kRv64_v256));
INSTANTIATE_TEST_SUITE_P(Targets, Packer,
                         ::testing::Values(Target::kPortable, Target::kX86_64_v2,
                                           Target::kX86_64_v3, Target::kX86_64_v4, Target::kArm64,
                                           Target::kArm32));

}  // namespace
}  // namespace arenite::test
