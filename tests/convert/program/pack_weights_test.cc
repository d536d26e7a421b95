// SPDX-License-Identifier: Apache-2.0
// Every weight lands where packing.h says, and everything else is zero.
#include "convert/program/writer.h"

#include <gtest/gtest.h>

#include <algorithm>

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
        pack_weights(tensor, tensor.weights, packing, packed);
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
  tensor.layout = format::Layout::kRows;
  std::vector<float> packed(35, 99.0f);
  ASSERT_EQ(format::stored_bytes(tensor.shape(), packing).value(), 35 * sizeof(float));
  pack_weights(tensor, tensor.weights, packing, packed);
  EXPECT_EQ(packed, tensor.weights);
}

INSTANTIATE_TEST_SUITE_P(Targets, Packer,
                         ::testing::Values(Target::kPortable, Target::kX86_64_v2,
                                           Target::kX86_64_v3, Target::kX86_64_v4, Target::kArm64,
                                           Target::kArm32));

}  // namespace
}  // namespace arenite::test
