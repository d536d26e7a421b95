// SPDX-License-Identifier: Apache-2.0
// Tests joined rows and their sources, and rows of a sequence combined with rows of its tokens.
#include <gtest/gtest.h>

#include "ops/row_ops.h"
#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

// Two constant rows precede the tokens, and one constant row precedes both.
constexpr Axis kAxes[] = {{},
                          {AxisKind::kConstants, 0, 0, 2},
                          {AxisKind::kJoined, 1, 0, 0},
                          {AxisKind::kConstants, 0, 0, 1},
                          {AxisKind::kJoined, 3, 2, 0},
                          {AxisKind::kOne, 0, 0, 0}};
constexpr uint32_t kSequences = 4;
// The second sequence continues, and the third gets no rows in this call.
constexpr SequenceRows kRows[] = {
    {0, 0, 2}, {5, 2, 3}, {0, 5, 0}, {0, 5, 1},  // tokens
    {0, 0, 2}, {2, 2, 0}, {0, 2, 0}, {0, 2, 2},  // constants
    {0, 0, 4}, {7, 4, 3}, {0, 7, 0}, {0, 7, 3},  // joined
    {0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {0, 1, 1},  // constants
    {0, 0, 5}, {8, 5, 3}, {0, 8, 0}, {0, 8, 4},  // joined
    {0, 0, 1}, {0, 1, 1}, {0, 2, 0}, {0, 2, 1},  // one
};

std::span<const SequenceRows> rows_on(uint32_t axis) {
  return std::span(kRows).subspan(size_t{axis} * kSequences, kSequences);
}

TEST(Axes, GiveRowsThePositionsOfTheirSource) {
  const auto positions = [](uint32_t axis) {
    const StepRows step = {rows_on(axis), 3, nullptr, kAxes, axis};
    std::vector<uint32_t> found;
    const SequenceRows& last = rows_on(axis).back();
    for (uint32_t row = 0; row < last.row_begin + last.rows; ++row) {
      found.push_back(place_of_row(step, row).position);
    }
    return found;
  };
  EXPECT_EQ(positions(0), (std::vector<uint32_t>{0, 1, 5, 6, 7, 0}));
  EXPECT_EQ(positions(1), (std::vector<uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(positions(2), (std::vector<uint32_t>{0, 1, 2, 3, 7, 8, 9, 0, 1, 2}));
  EXPECT_EQ(positions(4), (std::vector<uint32_t>{0, 1, 2, 3, 4, 8, 9, 10, 0, 1, 2, 3}));
}

// Rows of constants count, and so do the gaps that a mask leaves between tokens.
TEST(Axes, KeepTheGapsOfTheTokens) {
  const uint8_t visible[] = {0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1};
  const StepRows step = {rows_on(2), 3, visible, kAxes, 2};
  EXPECT_EQ(place_of_row(step, 1).position, 1u);
  EXPECT_EQ(place_of_row(step, 2).position, 2u + 1);
  EXPECT_EQ(place_of_row(step, 9).position, 2u + 2);
}

TEST(Join, PutsRowsEndToEnd) {
  for (const uint32_t columns : {1u, 6u, 33u}) {
    const FloatRows first(4, columns, 1, 1.0f), second(6, columns, 3, 1.0f);
    const FloatRows output(10, columns, 2, 1.0f);
    join(first.view(), rows_on(1), second.view(), rows_on(0), rows_on(2), output.matrix(), {});
    const std::vector<float> a = first.dense(), b = second.dense();
    std::vector<float> expected;
    const auto add = [&](const std::vector<float>& from, uint32_t begin, uint32_t rows) {
      const auto at = from.begin() + begin * columns;
      expected.insert(expected.end(), at, at + rows * columns);
    };
    add(a, 0, 2), add(b, 0, 2), add(b, 2, 3), add(a, 2, 2), add(b, 5, 1);
    EXPECT_TRUE(same_bits(output.dense(), expected)) << columns;
    EXPECT_TRUE(output.surroundings_intact());
  }
}

class Broadcast : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Broadcast);

// A row for each sequence that has rows, beside each of these.
TEST_P(Broadcast, GivesAllRowsOfASequenceTheSameOperand) {
  const uint32_t sequence_of_row[] = {0, 0, 1, 1, 1, 2};
  for (const uint32_t columns : {1u, 6u, 300u}) {
    const FloatRows input(6, columns, 1, 1.0f), other(3, columns, 3, 1.0f);
    OtherRows rows = other.view();
    rows.op_rows = rows_on(0);
    rows.own_rows = rows_on(5);
    FloatRows wide(6, columns, 2, 1.0f);
    for (uint32_t row = 0; row < 6; ++row) {
      const float* const from = other.view().row(sequence_of_row[row]);
      std::copy_n(from, columns, wide.matrix().row(row));
    }
    const FloatRows found(6, columns, 4, 1.0f), expected(6, columns, 4, 1.0f);
    Pool pool(3, Order::kShuffled);
    add(kernels(), input.view(), rows, found.matrix(), pool.parallel_for());
    add(kernels(), input.view(), wide.view(), expected.matrix(), {});
    EXPECT_TRUE(same_bits(found.dense(), expected.dense())) << columns;
    EXPECT_TRUE(found.surroundings_intact());
    activation(kernels(), Activation::kTanh, 0.0f, input.view(), rows, found.matrix(), {});
    activation(kernels(), Activation::kTanh, 0.0f, input.view(), wide.view(), expected.matrix(),
               {});
    EXPECT_TRUE(same_bits(found.dense(), expected.dense())) << columns;
    OtherRows first = rows;
    first.columns = 1;  // the factor of all columns
    for (uint32_t row = 0; row < 6; ++row) {
      std::fill_n(wide.matrix().row(row), columns, first.row(row)[0]);
    }
    activation(kernels(), Activation::kTanh, 0.0f, input.view(), first, found.matrix(), {});
    activation(kernels(), Activation::kTanh, 0.0f, input.view(), wide.view(), expected.matrix(),
               {});
    EXPECT_TRUE(same_bits(found.dense(), expected.dense())) << columns;
  }
}

}  // namespace
}  // namespace arenite::test
