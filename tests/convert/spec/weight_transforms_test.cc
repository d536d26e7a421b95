// SPDX-License-Identifier: Apache-2.0
// Tests reordered weights, which are read only on request.
#include "convert/spec/model_tensors.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/model_factory.h"

namespace arenite::convert {
namespace {

TEST(WeightTransforms, LoadOnlyWhenAsked) {
  int loads = 0;
  WeightRef stored{.name = "w", .rows = 2, .columns = 3, .load = [&loads] {
                     ++loads;
                     return std::vector<float>{1, 2, 3, 4, 5, 6};
                   }};
  const WeightRef turned = select_rows(transpose(stored), {2, 0});
  EXPECT_EQ(loads, 0);
  EXPECT_EQ(turned.rows, 2u);
  EXPECT_EQ(turned.columns, 2u);
  EXPECT_EQ(turned.load(), (std::vector<float>{3, 6, 1, 4}));
  EXPECT_EQ(loads, 1);
}

TEST(WeightTransforms, HalvesComeFromNeighbours) {
  EXPECT_EQ(halves_of_pairs(1, 6, 6), (RowOrder{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(halves_of_pairs(2, 4, 4), (RowOrder{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(halves_of_pairs(2, 5, 4), (RowOrder{0, 2, 1, 3, 4, 5, 7, 6, 8, 9}));
}

TEST(WeightTransforms, BiasesAreReorderedWithTheirRows) {
  const LinearSpec linear{{.name = "w",
                           .rows = 2,
                           .columns = 1,
                           .load =
                               [] {
                                 return std::vector<float>{1, 2};
                               }},
                          {10, 20}};
  const LinearSpec selected = select_rows(linear, {1});
  EXPECT_EQ(selected.weight.load(), std::vector<float>{2});
  EXPECT_EQ(selected.bias, std::vector<double>{20});
  EXPECT_TRUE(select_rows(std::vector<double>(), row_range(0, 2)).empty());
}

TEST(WeightTransforms, StackRowsBelowOneAnother) {
  LinearSpec top{test::held_weight("top", 1, 2, {1, 2}), {5}};
  LinearSpec bottom{test::held_weight("bottom", 2, 2, {3, 4, 6, 7}), {8, 9}};
  const LinearSpec stacked = stack_rows({top, bottom});
  EXPECT_EQ(stacked.outputs(), 3u);
  EXPECT_EQ(stacked.inputs(), 2u);
  EXPECT_EQ(stacked.weight.load(), std::vector<float>({1, 2, 3, 4, 6, 7}));
  EXPECT_EQ(stacked.bias, std::vector<double>({5, 8, 9}));
}

}  // namespace
}  // namespace arenite::convert
