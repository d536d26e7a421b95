// SPDX-License-Identifier: Apache-2.0
// One row of several, by every function, against double precision.
#include "ops/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"

namespace arenite::test {
namespace {

class PoolingOp : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(PoolingOp);

// Column `column` of rows [begin, end), with the weights that positions give.
double expected_value(PoolingFunction function, const std::vector<float>& values, uint32_t columns,
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
  switch (function) {
    case PoolingFunction::kMean:
      return sum / count;
    case PoolingFunction::kMax:
      return largest;
    case PoolingFunction::kMeanSqrtLength:
      return sum / std::sqrt(count);
    case PoolingFunction::kWeightedMean:
      return weighted / weights;
  }
  return NAN;
}

TEST_P(PoolingOp, AgreesWithDoublePrecision) {
  using enum PoolingFunction;
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
    for (const PoolingFunction function : {kMean, kMax, kMeanSqrtLength, kWeightedMean}) {
      for (const Form& form : forms) {
        const FloatRows to(1, columns, 2, 9.0f);
        pool_rows(kernels(), function, from.view(), form.step, 2, 7, to.matrix().data);
        for (uint32_t c = 0; c < columns; ++c) {
          const double expected = expected_value(function, values, columns, c, 2, form.positions);
          const double tolerance = function == kMax ? 0.0 : 32 * kRounding;
          ASSERT_NEAR(to.dense()[c], expected, tolerance)
              << static_cast<int>(function) << " of " << columns;
        }
        ASSERT_TRUE(to.surroundings_intact());
      }
    }
  }
}

TEST_P(PoolingOp, OfOneRowIsThatRow) {
  const std::vector<SequenceRows> sequences = {{0, 0, 1}};
  std::vector<float> values(19 + 4);  // kernels read up to 16 bytes past a row
  Random(3).fill(values, 1.0f);
  using enum PoolingFunction;
  for (const PoolingFunction function : {kMean, kMax, kMeanSqrtLength, kWeightedMean}) {
    std::vector<float> row(19 + 4);
    pool_rows(kernels(), function, {values.data(), 1, 19, 19}, {sequences, 1}, 0, 1, row.data());
    EXPECT_TRUE(same_bits(std::span(row).first(19), std::span(values).first(19)))
        << static_cast<int>(function);
  }
}

}  // namespace
}  // namespace arenite::test
