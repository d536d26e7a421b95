// SPDX-License-Identifier: Apache-2.0
// Tests the output rows of a call: copied, or pooled in double precision.
#include "ops/row_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"

namespace arenite::test {
namespace {

class Select : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Select);

// Column `column` of rows [begin, end), with the weights that positions give.
double expected_value(SelectKind kind, const std::vector<float>& values, uint32_t columns,
                      uint32_t column, uint32_t begin, const std::vector<uint32_t>& positions) {
  double sum = 0.0, weighted = 0.0, weights = 0.0, largest = -INFINITY;
  for (uint32_t i = 0; i < positions.size(); ++i) {
    const double value = values[size_t{begin + i} * columns + column];
    sum += value;
    weighted += value * (positions[i] + 1.0);
    weights += positions[i] + 1.0;
    largest = std::max(largest, value);
  }
  const double count = static_cast<double>(positions.size());
  switch (kind) {
    case SelectKind::kMean:
      return sum / count;
    case SelectKind::kMax:
      return largest;
    case SelectKind::kMeanSqrtLength:
      return sum / std::sqrt(count);
    case SelectKind::kWeightedMean:
      return weighted / weights;
    case SelectKind::kSum:
      return sum;
    default:
      return NAN;
  }
}

TEST_P(Select, MakesOneRowOfSeveralAsInDoublePrecision) {
  using enum SelectKind;
  // The second of two sequences with room for nine tokens each.
  const uint8_t visible[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1};
  const std::vector<SequenceRows> sequences = {{0, 0, 2}, {0, 2, 5}};
  struct Form {
    StepRows step;
    std::vector<uint32_t> positions;
  };
  const Form forms[] = {{{sequences, 9}, {0, 1, 2, 3, 4}},
                        {{sequences, 9, visible}, {1, 3, 4, 5, 8}},
                        {{sequences, 0}, {0, 1, 2, 3, 4}}};
  for (const uint32_t columns : {1u, 3u, 16u, 77u}) {
    const FloatRows from(7, columns, columns, 2.0f);
    for (uint32_t r = 0; r < 7 && columns == 3; ++r) {  // all of them below zero
      for (uint32_t c = 0; c < columns; ++c) from.matrix().row(r)[c] -= 3.0f;
    }
    const std::vector<float> values = from.dense();
    for (const SelectKind kind : {kMean, kMax, kMeanSqrtLength, kWeightedMean, kSum}) {
      for (const Form& form : forms) {
        const FloatRows to(2, columns, 2, 9.0f);
        const SequenceRows ones[] = {{0, 0, 1}, {0, 1, 1}};
        select(kernels(), kind, from.view(), form.step, ones, to.matrix(), {});
        for (uint32_t c = 0; c < columns; ++c) {
          const double expected = expected_value(kind, values, columns, c, 2, form.positions);
          const double tolerance = kind == kMax ? 0.0 : 32 * kRounding;
          ASSERT_NEAR(to.at(1, c), expected, tolerance) << name(kind) << " of " << columns;
        }
        ASSERT_TRUE(to.surroundings_intact());
      }
    }
  }
}

TEST_P(Select, KeepsASingleRow) {
  const std::vector<SequenceRows> sequences = {{0, 0, 1}};
  std::vector<float> values(19 + 4);  // kernels read up to 16 bytes past a row
  Random(3).fill(values, 1.0f);
  values[7] = 0.0f;  // to which nothing was added
  using enum SelectKind;
  for (const SelectKind kind : {kMean, kMax, kMeanSqrtLength, kWeightedMean, kSum}) {
    std::vector<float> row(19 + 4);
    select(kernels(), kind, {values.data(), 1, 19, 19}, {sequences, 1}, sequences,
           {row.data(), 1, 19, 19}, {});
    EXPECT_TRUE(same_bits(std::span(row).first(19), std::span(values).first(19))) << name(kind);
  }
}

TEST_P(Select, TakesTheRequestedRows) {
  const std::vector<SequenceRows> sequences = {{5, 0, 3}, {2, 3, 0}, {0, 3, 2}};
  const FloatRows from(5, 9, 1, 1.0f);
  const auto expect_rows = [&](SelectKind kind, const std::vector<uint32_t>& counts,
                               const std::vector<uint32_t>& expected) {
    const FloatRows to(5, 9, 2, 1.0f);
    const std::vector<float> before = to.dense();
    const SequenceRows taken[] = {
        {0, 0, counts[0]}, {0, counts[0], counts[1]}, {0, counts[0] + counts[1], counts[2]}};
    select(kernels(), kind, from.view(), {sequences}, taken, to.matrix(), {});
    for (uint32_t r = 0; r < 5; ++r) {
      for (uint32_t c = 0; c < 9; ++c) {
        const float want = r < expected.size() ? from.at(expected[r], c) : before[r * 9 + c];
        ASSERT_EQ(to.at(r, c), want) << name(kind) << " row " << r;
      }
    }
  };
  expect_rows(SelectKind::kAsAsked, {1, 0, 1}, {2, 4});
  expect_rows(SelectKind::kAsAsked, {3, 0, 2}, {0, 1, 2, 3, 4});
  expect_rows(SelectKind::kFirst, {1, 0, 1}, {0, 3});
  expect_rows(SelectKind::kLast, {1, 0, 1}, {2, 4});
  // Parts of rows that were joined.
  expect_rows(SelectKind::kFirst, {2, 0, 1}, {0, 1, 3});
  expect_rows(SelectKind::kLast, {2, 0, 0}, {1, 2});
}

TEST_P(Select, TakesRowsByAList) {
  const uint32_t list[] = {4, 0, 4, 2, 1, 1, 3};
  const std::vector<SequenceRows> from = {{0, 0, 5}, {0, 5, 0}, {0, 5, 5}};
  const std::vector<SequenceRows> to = {{0, 0, 7}, {0, 7, 0}, {0, 7, 7}};
  for (const uint32_t columns : {1u, 3u, 8u, 33u}) {
    const FloatRows input(10, columns, 1, 1.0f);
    const FloatRows output(14, columns, 2, 9.0f);
    select(kernels(), SelectKind::kTaken, input.view(), {from}, to, output.matrix(), {}, list);
    for (uint32_t row = 0; row < 14; ++row) {
      for (uint32_t c = 0; c < columns; ++c) {
        ASSERT_EQ(output.at(row, c), input.at(row / 7 * 5 + list[row % 7], c)) << row << " " << c;
      }
    }
    ASSERT_TRUE(output.surroundings_intact());
  }
}

TEST_P(Select, TransposesEachSequence) {
  for (const uint32_t columns : {1u, 3u, 8u, 33u}) {
    for (const uint32_t rows : {1u, 5u, 16u}) {
      const std::vector<SequenceRows> from = {{0, 0, rows}, {0, rows, 0}, {0, rows, rows}};
      const std::vector<SequenceRows> to = {
          {0, 0, columns}, {0, columns, 0}, {0, columns, columns}};
      const FloatRows input(2 * rows, columns, 1, 1.0f);
      const FloatRows output(2 * columns, rows, 2, 9.0f);
      select(kernels(), SelectKind::kTransposed, input.view(), {from}, to, output.matrix(), {});
      for (uint32_t i = 0; i < 2 * columns * rows; ++i) {
        const uint32_t row = i / rows, column = i % rows;
        ASSERT_EQ(output.at(row, column), input.at(row / columns * rows + column, row % columns))
            << rows << " rows of " << columns;
      }
      ASSERT_TRUE(output.surroundings_intact());
    }
  }
}

}  // namespace
}  // namespace arenite::test
