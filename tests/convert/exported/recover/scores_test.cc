// SPDX-License-Identifier: Apache-2.0
// Weights of several softmaxes, and scores whose heads are chosen.
#include "convert/exported/recover/scores.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

Scores weights_of_two_heads() {
  Scores scores;
  scores.shape = {1, 2, 3, 3};
  scores.added = Array::real({1, 2, 3, 3}, Array::Reals(18, 0.0));
  scores.has_softmax = true;
  return scores;
}

// A program of a few lines can double a sum again and again.
TEST(SumsOfWeights, LimitTheSoftmaxesOfNestedSums) {
  ScoresRef sum = std::make_shared<const Scores>(weights_of_two_heads());
  const auto double_it = [&] {
    for (int i = 0; i < 40; ++i) sum = sum_of_weights(*sum, *sum, 1.0);
  };
  EXPECT_TRUE(refuses(double_it, {"more than 16 softmaxes"}));
  EXPECT_EQ(sum->also.size(), 15u);
}

TEST(SumsOfWeights, KeepEachSoftmaxWithItsFactor) {
  const Scores one = weights_of_two_heads();
  const ScoresRef difference = sum_of_weights(one, one, -2.0);
  const ScoresRef both = sum_of_weights(one, *difference, 3.0);
  ASSERT_EQ(both->also.size(), 2u);
  for (const ScoresRef& part : both->also) EXPECT_TRUE(part->also.empty());
  EXPECT_EQ(both->also[0]->weight->reals(), Array::Reals{3.0});
  EXPECT_EQ(both->also[1]->weight->reals(), Array::Reals{-6.0});
}

TEST(SumsOfWeights, RefuseLogSoftmax) {
  Scores logarithms = weights_of_two_heads();
  logarithms.is_logarithm = true;
  EXPECT_TRUE(refuses([&] { sum_of_weights(logarithms, logarithms, 1.0); }, {kAfterSoftmax}));
  EXPECT_TRUE(
      refuses([&] { weights_times(logarithms, Array::real({}, {-1.0})); }, {kAfterSoftmax}));
}

TEST(Scores, AreNotChangedAfterTheirSoftmax) {
  const Scores weights = weights_of_two_heads();
  EXPECT_TRUE(refuses([&] { with_scale(weights, 2.0); }, {kAfterSoftmax}));
  EXPECT_TRUE(refuses([&] { with_added(weights, Array::real({}, {1.0}), 0); }, {kAfterSoftmax}));
  EXPECT_TRUE(refuses([&] { with_tanh(weights, false); }, {kAfterSoftmax}));
}

TEST(MovedScores, KeepTheFactorsOfTheirHeads) {
  Scores scores = weights_of_two_heads();
  scores.weight = Array::real({2, 1, 1}, {5.0, 7.0});
  const ScoresRef viewed = moved_scores(scores, {.shape = {2, 3, 3}, .walk = {18}, .strides = {1}});
  EXPECT_EQ(viewed->shape, Shape({2, 3, 3}));
  EXPECT_EQ(viewed->weight->reals(), Array::Reals({5.0, 7.0}));
  // The second head alone.
  const ScoresRef second =
      moved_scores(scores, {.shape = {1, 1, 3, 3}, .walk = {9}, .strides = {1}, .offset = 9});
  EXPECT_EQ(second->shape, Shape({1, 1, 3, 3}));
  EXPECT_EQ(second->weight->reals(), Array::Reals{7.0});
}

}  // namespace
}  // namespace arenite::convert
