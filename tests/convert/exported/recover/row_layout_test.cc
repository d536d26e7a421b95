// SPDX-License-Identifier: Apache-2.0
// Values as rows of nodes: their kinds of columns, zeros, runs, and heads of sequences.
#include "convert/exported/recover/row_layout.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
namespace {

using Rows = std::vector<uint32_t>;

// Two sequences of three tokens, with columns 0 to 7.
class RowLayouts : public ::testing::Test {
 protected:
  RowLayouts()
      : builder_(std::make_shared<const ExportedProgram>(),
                 {TraceSizes{.sequences = 2, .tokens = 3}}, {"x"}),
        features_(features_input(builder_, {2, 3, 8})) {
    builder_.name = "op";
  }

  // [2 sequences, 2 heads, 3 tokens, 4 columns]
  LinearExprRef heads() const {
    return permuted(with_shape(features_, {2, 3, 2, 4}), {0, 2, 1, 3});
  }

  std::vector<Column> columns(uint32_t first, uint32_t count) const {
    std::vector<Column> all;
    for (uint32_t c = first; c < first + count; ++c) {
      all.emplace_back(producer_of(features_->at(0)), c);
    }
    return all;
  }

  GraphBuilder builder_;
  const LinearExprRef features_;
};

TEST_F(RowLayouts, HasOneKindForWholeRows) {
  const auto layout = row_layout(builder_, *features_);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->kinds, (std::vector<std::vector<Column>>{columns(0, 8)}));
  EXPECT_EQ(layout->row, (Rows{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(layout->kind, Rows(6, 0));
  EXPECT_TRUE(layout->is_run(0, 6));
}

TEST_F(RowLayouts, HasAKindForEachHead) {
  const auto layout = row_layout(builder_, *heads());
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->kinds, (std::vector{columns(0, 4), columns(4, 4)}));
  EXPECT_EQ(layout->row, (Rows{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(layout->kind, (Rows{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_TRUE(layout->is_run(3, 3));
  EXPECT_FALSE(layout->is_run(2, 2));
}

TEST_F(RowLayouts, TellsRowsOfZeros) {
  std::vector<int64_t> ids(8, kNoElement);
  for (size_t i = 0; i < 16; ++i) ids.push_back(features_->at(i));
  const auto layout = row_layout(builder_, *plain({1, 3, 8}, ids));
  ASSERT_TRUE(layout.has_value());
  EXPECT_TRUE(layout->has_zeros());
  EXPECT_EQ(layout->row, (Rows{RowLayout::kZeros, 0, 1}));
  EXPECT_FALSE(layout->is_run(0, 3));
  EXPECT_TRUE(layout->is_run(1, 2));
}

TEST_F(RowLayouts, RefuseRowsThatMixTokensOrZeros) {
  EXPECT_FALSE(row_layout(builder_, *transposed(features_)));
  std::vector<int64_t> ids = element_ids_of(*features_);
  ids[9] = kNoElement;
  EXPECT_FALSE(row_layout(builder_, *plain({2, 3, 8}, ids)));
}

TEST_F(RowLayouts, MapLeadingIndicesToHeads) {
  const HeadRows found = head_rows(builder_, *heads());
  EXPECT_EQ(found.why, "");
  EXPECT_EQ(found.heads.order, (std::vector<HeadPlace>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_EQ(found.columns, (std::vector{columns(0, 4), columns(4, 4)}));
  EXPECT_FALSE(found.are_pooled);
  EXPECT_TRUE(found.heads.are_complete(2));
  EXPECT_FALSE(found.heads.are_complete(1));
}

TEST_F(RowLayouts, HaveHeadsOfOneRowPerSequence) {
  const uint32_t mean = builder_.selected(producer_of(features_->at(0)), SelectKind::kMean);
  const HeadRows found = head_rows(builder_, *whole_producer(mean, {2, 1, 8}));
  EXPECT_EQ(found.why, "");
  EXPECT_TRUE(found.are_pooled);
  EXPECT_EQ(found.heads.order, (std::vector<HeadPlace>{{0, 0}, {1, 0}}));
}

TEST_F(RowLayouts, SayWhyAValueHasNoHeads) {
  const auto why = [&](const LinearExprRef& value) { return head_rows(builder_, *value).why; };
  const std::string_view mixes =
      "a row of a head mixes elements of several tokens; expected columns of one token in each row";
  EXPECT_EQ(why(transposed(heads())), mixes);
  // Two of the three tokens, and tokens in another order.
  EXPECT_EQ(why(moved({.shape = {2, 2, 8}, .walk = {2, 2, 8}, .strides = {24, 8, 1}}, features_)),
            mixes);
  EXPECT_EQ(why(permuted(with_shape(features_, {3, 2, 8}), {1, 0, 2})), mixes);
  std::vector<int64_t> ids = element_ids_of(*features_);
  std::fill_n(ids.begin(), 8, kNoElement);
  EXPECT_EQ(why(plain({2, 3, 8}, ids)),
            "a head contains zero rows; expected columns of each token");
  std::vector<int64_t> other = element_ids_of(*heads());
  std::swap_ranges(other.begin() + 24, other.begin() + 36, other.begin() + 36);
  EXPECT_EQ(
      why(plain({2, 2, 3, 4}, other)),
      "heads read different columns in different sequences; expected the same columns for all");
}

}  // namespace
}  // namespace arenite::convert
