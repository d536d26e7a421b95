// SPDX-License-Identifier: Apache-2.0
// Tests the table of the ops' operands and numbers.
#include "format/op_table.h"

#include <gtest/gtest.h>

#include "convert/program/program.h"

namespace arenite::test {
namespace {

using format::Access;
using format::ColumnView;
using format::NumberType;

TEST(OpNumbers, AreFoundByType) {
  const format::OpView linear = convert::linear_op({0, 0, 4}, {1, 0, 4}, 7);
  EXPECT_EQ(number_of(linear, NumberType::kMatrix), 7u);
  EXPECT_EQ(number_of(linear, NumberType::kMask), format::kAbsent);
  const format::OpView attention =
      convert::attention_op({{1, 0, 4}, {1, 4, 4}, {1, 8, 4}, {2, 0, 4}, 3, 5});
  EXPECT_EQ(number_of(attention, NumberType::kMatrix), format::kAbsent);
  EXPECT_NE(number_of(attention, NumberType::kMask), format::kAbsent);
  EXPECT_NE(number_of(attention, NumberType::kCache), format::kAbsent);
}

// An op that may work in place reads and writes one operand only where both are the same columns.
TEST(OpAccess, IsAnUpdateWhereInputAndOutputAreTheSameColumns) {
  const ColumnView input = {1, 2, 4};
  const auto sum = [&](const ColumnView& output) {
    return convert::sum_op(input, {3, 0, 4}, output);
  };
  EXPECT_EQ(access_of(sum(input), format::kOutput), Access::kUpdate);
  EXPECT_EQ(access_of(sum(input), format::kInput), Access::kNone);
  EXPECT_EQ(access_of(sum(input), format::kOther), Access::kRead);
  for (const ColumnView& other : {ColumnView{2, 2, 4}, {1, 3, 4}, {1, 2, 5}}) {
    EXPECT_EQ(access_of(sum(other), format::kOutput), Access::kWrite);
    EXPECT_EQ(access_of(sum(other), format::kInput), Access::kRead);
  }
  const format::OpView alone = convert::linear_op(input, input, 0);
  EXPECT_EQ(access_of(alone, format::kOutput), Access::kWrite);
  EXPECT_EQ(access_of(alone, format::kOther), Access::kNone);
}

}  // namespace
}  // namespace arenite::test
