// SPDX-License-Identifier: Apache-2.0
// Compares the oracles with values computed by hand.
#include "reference/reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace arenite::test {
namespace {

TEST(ReferenceLinear, AddsBiasAndProducts) {
  const std::vector<float> input = {1, 2, 3, 4};           // [2, 2]
  const std::vector<float> weights = {1, 0, 0, 1, 2, -1};  // [3, 2]
  const std::vector<float> bias = {10, 20, 30};
  EXPECT_EQ(reference_linear(input, weights, bias, 2),
            (std::vector<double>{11, 22, 30, 13, 24, 32}));
}

TEST(ReferenceAttention, AveragesVisibleValuesWhenScoresAreEqual) {
  DenseMask mask(3);
  mask.visible = {1, 0, 0, 1, 1, 0, 1, 0, 1};
  const std::vector<float> values = {2, 4, 8};
  EXPECT_EQ(reference_attention({1, 1, 0, 1}, mask, {}, {}, values),
            (std::vector<double>{2, 3, 5}));
}

TEST(ReferenceAttention, WeighsByTheExponentialOfScoreAndBias) {
  DenseMask mask(2);
  mask.visible = {1, 1, 1, 1};
  const float log3 = std::log(3.0f);
  mask.bias = {0, log3, 0, 0};
  const std::vector<float> query = {0, log3};
  const std::vector<float> key = {1, 0};
  const std::vector<float> value = {4, 8};
  const std::vector<double> output = reference_attention({1, 1, 1, 1}, mask, query, key, value);
  EXPECT_NEAR(output[0], 7, 1e-6);  // weights 1/4 and 3/4, of log3 rounded to float
  EXPECT_NEAR(output[1], 5, 1e-6);  // weights 3/4 and 1/4
}

TEST(ReferenceAttention, SharesKeysAndValuesAmongNeighbouringHeads) {
  DenseMask mask(1);
  mask.visible = {1};
  const std::vector<float> value = {5, 7};  // [1 token, 2 kv heads, 1]
  EXPECT_EQ(reference_attention({4, 2, 0, 1}, mask, {}, {}, value),
            (std::vector<double>{5, 5, 7, 7}));
}

}  // namespace
}  // namespace arenite::test
