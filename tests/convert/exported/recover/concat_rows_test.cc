// SPDX-License-Identifier: Apache-2.0
// Rows of constants beside rows of a model.
#include "convert/exported/recover/concat_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
namespace {

ConstantRef constant(const Shape& shape, Array::Reals values) {
  return std::make_shared<const Constant>(kNoValue, Array::real(shape, std::move(values)));
}

// Two sequences of three tokens, and a row of constants for each of them.
TEST(RowsOfConstants, AreTheSameInEachSequence) {
  const auto program = std::make_shared<const ExportedProgram>();
  GraphBuilder builder(program, {TraceSizes{.sequences = 2, .tokens = 3}}, {"x"});
  builder.name = "op";
  const LinearExprRef tokens = features_input(builder, {2, 3, 2});
  const auto same = rows_of_constants(builder, constant({2, 1, 2}, {5, 6, 5, 6}), tokens);
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ((*same)->shape, (Shape{2, 1, 2}));
  const auto other = rows_of_constants(builder, constant({2, 1, 2}, {5, 6, 5, 7}), tokens);
  EXPECT_FALSE(other.has_value());
}

}  // namespace
}  // namespace arenite::convert
