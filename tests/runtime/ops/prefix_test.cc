// SPDX-License-Identifier: Apache-2.0
// Rows of constants where a sequence begins; all other rows are those of the input.
#include "ops/row_ops.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

// The first sequence begins with three rows of a prefix, of which the last two are constants here;
// the second goes on after its own.
constexpr SequenceRows kSequences[] = {{0, 0, 5}, {8, 5, 2}};

StepRows step_of(uint32_t prefix) { return {kSequences, 2, nullptr, prefix}; }

TEST(Prefix, PutsItsRowsWhereASequenceBegins) {
  for (const uint32_t columns : {1u, 6u, 33u}) {
    const FloatRows input(7, columns, 1, 1.0f), output(7, columns, 2, 1.0f);
    std::vector<float> constants(size_t{2} * columns);
    Random(3).fill(constants, 1.0f);
    std::vector<float> expected = input.dense();
    std::copy(constants.begin(), constants.end(), expected.begin() + columns);
    const WeightView view = plain_rows(constants.data(), 2, columns);
    put_prefix(view, 1, input.view(), step_of(3), output.matrix(), {});
    EXPECT_TRUE(same_bits(output.dense(), expected)) << columns;
    EXPECT_TRUE(output.surroundings_intact());
    Pool pool(3, Order::kShuffled);
    put_prefix(view, 1, input.view(), step_of(3), input.matrix(), pool.parallel_for());
    EXPECT_TRUE(same_bits(input.dense(), expected)) << "in place, " << columns;
  }
}

}  // namespace
}  // namespace arenite::test
