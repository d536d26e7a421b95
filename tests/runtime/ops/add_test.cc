// SPDX-License-Identifier: Apache-2.0
// Tests sums row by row: one rounding for each element, also in place.
#include "ops/row_ops.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class Add : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Add);

TEST_P(Add, GivesTheSumRowByRow) {
  Pool pool(3, Order::kShuffled);
  for (const uint32_t columns : {1u, 8u, 33u}) {
    const FloatRows input(40, columns, 1, 1.0f), other(40, columns, 2, 1.0f),
        output(40, columns, 3, 1.0f);
    std::vector<float> expected = input.dense();
    const std::vector<float> terms = other.dense();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += terms[i];
    add(kernels(), input.view(), other.view(), output.matrix(), pool.parallel_for());
    ASSERT_TRUE(same_bits(output.dense(), expected));
    ASSERT_TRUE(output.surroundings_intact());
    ASSERT_TRUE(same_bits(other.dense(), terms));
  }
}

TEST_P(Add, MayReplaceEitherOperand) {
  const FloatRows input(20, 33, 1, 1.0f), other(20, 33, 2, 1.0f), output(20, 33, 3, 1.0f);
  add(kernels(), input.view(), other.view(), output.matrix(), {});
  add(kernels(), input.view(), other.view(), other.matrix(), {});
  ASSERT_TRUE(same_bits(other.dense(), output.dense()));
  const FloatRows again(20, 33, 2, 1.0f);
  add(kernels(), input.view(), again.view(), input.matrix(), {});
  ASSERT_TRUE(same_bits(input.dense(), output.dense()));
  ASSERT_TRUE(input.surroundings_intact() && other.surroundings_intact());
}

}  // namespace
}  // namespace arenite::test
