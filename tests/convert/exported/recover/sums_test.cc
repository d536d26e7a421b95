// SPDX-License-Identifier: Apache-2.0
// Sums of elements become nodes that compute them: additions, scales, tables, and rotations, which
// are told by their factors.
#include "convert/exported/recover/sums.h"
#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/row_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "convert/graph/interpreter.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

constexpr uint32_t kTokens = 5;
constexpr uint32_t kWidth = 8;  // of a head

// One sequence of features, whose element (t, c) is t + c / 8.
class Sums : public ::testing::Test {
 protected:
  Sums() : builder_(program(), {TraceSizes{.sequences = 1, .tokens = kTokens}}, {"x"}) {
    builder_.name = "op";
    features_ = features_input(builder_, {1, kTokens, kWidth});
    for (uint32_t i = 0; i < kTokens * kWidth; ++i) input_.push_back(static_cast<float>(i) / 8.0f);
  }

  static std::shared_ptr<const ExportedProgram> program() {
    auto made = std::make_shared<ExportedProgram>();
    made->tensors = std::make_shared<TensorStore>("test");
    return made;
  }

  static ConstantRef constant(const Shape& shape, std::vector<double> values) {
    return std::make_shared<const Constant>(kNoValue, Array::real(shape, std::move(values)));
  }

  // The value's elements, computed by the graph.
  std::vector<double> computed(const LinearExprRef& value) {
    builder_.graph.output = output(builder_, value);
    builder_.graph.remove_unread();
    return evaluate(builder_.graph, {.features = input_}).values;
  }

  // Returns the first node with this body, or null.
  template <typename Body>
  const Body* node() {
    for (const ValueId id : builder_.graph.order()) {
      if (const auto* body = builder_.graph.as<Body>(id)) return body;
    }
    return nullptr;
  }

  // x cos(t f) + transposed(x) sin(t f) of each token t, with f of each column; halves apart, or
  // neighbours.
  LinearExprRef rotated(const std::vector<double>& angles, bool turns_neighbours) {
    std::vector<double> cosines, sines;
    for (const double angle : angles) {
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    const Shape table = {kTokens, kWidth};
    Movement turn{.shape = {1, kTokens, kWidth}, .sources = std::vector<int64_t>()};
    std::vector<double> signs;
    for (int64_t i = 0; i < kTokens * kWidth; ++i) {
      const int64_t c = i % kWidth;
      const int64_t partner = turns_neighbours ? c ^ 1 : (c + kWidth / 2) % kWidth;
      turn.sources->push_back(i - c + partner);
      signs.push_back(partner > c ? -1.0 : 1.0);
    }
    for (size_t i = 0; i < sines.size(); ++i) sines[i] *= signs[i];
    const LinearExprRef turned = moved(turn, features_);
    return sum(scaled(features_, Array::real(table, std::move(cosines))),
               scaled(turned, Array::real(table, std::move(sines))), 1.0);
  }

  // position(t) * 100^(-2 pair / width), one for each token and column.
  template <typename Position>
  static std::vector<double> angles(const Position& position, bool turns_neighbours) {
    std::vector<double> made;
    for (uint32_t t = 0; t < kTokens; ++t) {
      for (uint32_t c = 0; c < kWidth; ++c) {
        const uint32_t pair = turns_neighbours ? c / 2 : c % (kWidth / 2);
        made.push_back(position(t) * std::pow(100.0, -2.0 * pair / kWidth));
      }
    }
    return made;
  }

  GraphBuilder builder_;
  LinearExprRef features_;
  std::vector<float> input_;
};

TEST_F(Sums, AcrossTwoNodesAreAdditions) {
  const LinearExprRef other = activation(builder_, features_, {Activation::kRelu});
  const std::vector<double> found = computed(sum(features_, other, -3.0));
  EXPECT_NE(node<AddNode>(), nullptr);
  ASSERT_EQ(found.size(), input_.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_DOUBLE_EQ(found[i], -2.0 * input_[i]) << i;
}

TEST_F(Sums, WithOneFactorAreScales) {
  const std::vector<double> found = computed(scaled(features_, 0.25));
  const auto* scale = node<ScaleNode>();
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->factor, 0.25);
  EXPECT_DOUBLE_EQ(found[9], 0.25 * input_[9]);
}

TEST_F(Sums, WithFactorsOfColumnsMultiplyEachColumn) {
  std::vector<double> factors(kWidth);
  std::iota(factors.begin(), factors.end(), 1.0);
  const std::vector<double> found = computed(scaled(features_, Array::real({kWidth}, factors)));
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_DOUBLE_EQ(found[i], factors[i % kWidth] * input_[i]) << i;
  }
}

TEST_F(Sums, WithARowForEachPositionAreTablesOfPositions) {
  std::vector<double> rows(kTokens * kWidth);
  std::iota(rows.begin(), rows.end(), 0.5);
  const LinearExprRef table = builder_.constant_expr(constant({kTokens, kWidth}, rows));
  const LinearExprRef made = builder_.materialised(sum(features_, table, 2.0));
  EXPECT_FALSE(builder_.tables.empty());
  EXPECT_EQ(builder_.positions_max(0), kTokens);
  fill_position_tables(builder_, {kTokens}, [](uint32_t) { return Array(); });
  const std::vector<double> found = computed(made);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_DOUBLE_EQ(found[i], input_[i] + 2.0 * rows[i]) << i;
  }
}

TEST_F(Sums, AcrossTokensAreRefused) {
  Movement shift{.shape = {1, kTokens, kWidth}, .sources = std::vector<int64_t>()};
  for (int64_t i = 0; i < kTokens * kWidth; ++i) {
    shift.sources->push_back((i + kWidth) % (kTokens * kWidth));
  }
  const LinearExprRef neighbours = moved(shift, features_);
  EXPECT_TRUE(refuses([&] { builder_.materialised(sum(features_, neighbours, -1.0)); },
                      {"elements of different tokens"}));
}

TEST_F(Sums, WithOtherFactorsAtEachPositionAreProductsWithTables) {
  std::vector<double> factors(kTokens);
  std::iota(factors.begin(), factors.end(), 1.0);
  const LinearExprRef value = scaled(features_, Array::real({kTokens, 1}, factors));
  const LinearExprRef made = builder_.materialised(value);
  fill_position_tables(builder_, {kTokens}, [](uint32_t) { return Array(); });
  const std::vector<double> values = computed(made);
  ASSERT_EQ(values.size(), input_.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], input_[i] * factors[i / kWidth]) << i;
  }
  EXPECT_EQ(builder_.positions_max(0), kTokens);
}

// A number for each of five positions, and then one for a sixth.
TEST_F(Sums, RefuseTablesThatAreTooShort) {
  const LinearExprRef column =
      moved(Movement{.shape = {1, kTokens, 1}, .walk = {kTokens}, .strides = {kWidth}}, features_);
  const LinearExprRef value = scaled(column, Array::real({kTokens, 1}, {1, 2, 3, 4, 5}));
  const LinearExprRef made = builder_.materialised(value);
  fill_position_tables(builder_, {kTokens}, [](uint32_t) { return Array(); });
  EXPECT_EQ(computed(made).size(), kTokens);
  fill_position_tables(builder_, {kTokens + 1}, [](uint32_t) { return Array(); });
  EXPECT_TRUE(refuses([&] { computed(made); }, {"a position table has fewer rows than the input"}));
}

// Columns 0 to 3 get a number from one table, and the others from another.
TEST_F(Sums, WithConstantsOfTwoTablesAreNoRowOfOffsets) {
  constexpr int64_t kHalf = kWidth / 2;
  const auto with_constants = [&](const LinearExprRef& first, const LinearExprRef& second) {
    const Movement beside = {
        .shape = {1, kTokens, kWidth}, .walk = {kTokens, kWidth}, .strides = {0, 1}};
    const LinearExprRef parts[] = {first, second};
    return sum(scaled(features_, 2.0), moved(beside, parts), 1.0);
  };
  const LinearExprRef one = builder_.constant_expr(constant({kHalf}, {1, 2, 3, 4}));
  const LinearExprRef other = builder_.constant_expr(constant({kHalf}, {5, 6, 7, 8}));
  EXPECT_FALSE(folded_input(builder_, with_constants(one, other)).has_value());
  const auto found = folded_input(builder_, with_constants(one, one));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->offsets, (std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(found->factors, std::vector<double>(kWidth, 2.0));
}

TEST_F(Sums, TakeRowsInTurnSideBySideAgain) {
  const ValueId node = builder_.producer(features_->front()).node;
  const ValueId turns = builder_.graph.add_in_turn("turns", node, 2);
  EXPECT_EQ(builder_.side_by_side(turns), node);
}

TEST_F(Sums, TransposeMatrices) {
  const LinearExprRef matrix = with_shape(features_, {kTokens, kWidth});
  const LinearExprRef turned = transposed(matrix);
  EXPECT_EQ(turned->shape, (Shape{kWidth, kTokens}));
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t c = 0; c < kWidth; ++c) {
      EXPECT_EQ(turned->at(c * kTokens + t), matrix->at(t * kWidth + c));
    }
  }
  EXPECT_TRUE(refuses([&] { transposed(with_shape(features_, {kTokens * kWidth})); },
                      {"fewer than 2 dimensions"}));
}

TEST_F(Sums, HalvesBecomeARotation) {
  const auto position = [](uint32_t t) { return static_cast<double>(t); };
  const LinearExprRef value = rotated(angles(position, false), false);
  ASSERT_TRUE(find_rotation(builder_, *value).has_value());
  const auto* rotate = node<RotateNode>();
  ASSERT_NE(rotate, nullptr);
  EXPECT_EQ(rotate->head_dim, kWidth);
  EXPECT_EQ(rotate->rope.rotary_dim, kWidth);
  EXPECT_FALSE(rotate->rope.turns_neighbours);
  EXPECT_EQ(rotate->rope.magnitude, 1.0);
  ASSERT_EQ(rotate->rope.inverse_frequencies.size(), kWidth / 2);
  // The base is a whole number, so that frequencies are exactly its powers.
  for (size_t i = 0; i < kWidth / 2; ++i) {
    EXPECT_EQ(rotate->rope.inverse_frequencies[i],
              std::pow(100.0, -static_cast<double>(i) / (kWidth / 2)))
        << i;
  }
}

TEST_F(Sums, NeighboursBecomeARotation) {
  const auto position = [](uint32_t t) { return static_cast<double>(t); };
  const LinearExprRef value = scaled(rotated(angles(position, true), true), 1.5);
  ASSERT_TRUE(find_rotation(builder_, *value).has_value());
  const auto* rotate = node<RotateNode>();
  ASSERT_NE(rotate, nullptr);
  EXPECT_TRUE(rotate->rope.turns_neighbours);
  EXPECT_DOUBLE_EQ(rotate->rope.magnitude, 1.5);
}

TEST_F(Sums, ColumnFactorsAreNoRotation) {
  std::vector<double> factors(kWidth);
  std::iota(factors.begin(), factors.end(), 1.0);
  const LinearExprRef columns = scaled(features_, Array::real({kWidth}, factors));
  EXPECT_FALSE(find_rotation(builder_, *columns).has_value());
  EXPECT_FALSE(find_rotation(builder_, *sum(features_, columns, 1.0)).has_value());
}

TEST_F(Sums, UnevenAnglesBecomeARotationTable) {
  const auto squares = [](uint32_t t) { return static_cast<double>(t) * t + 1.0; };
  const std::vector<double> of = angles(squares, true);
  const auto found = find_rotation(builder_, *rotated(of, true));
  ASSERT_TRUE(found.has_value());
  const auto* rotate = node<RotateNode>();
  ASSERT_NE(rotate, nullptr);
  EXPECT_TRUE(rotate->rope.turns_neighbours);
  EXPECT_EQ(rotate->rope.table.size(), size_t{kTokens} * kWidth);
  const std::vector<double> turned = computed(*found);
  for (size_t i = 0; i < turned.size(); i += 2) {
    const double x = input_[i], y = input_[i + 1];
    EXPECT_NEAR(turned[i], x * std::cos(of[i]) - y * std::sin(of[i]), 1e-9) << i;
    EXPECT_NEAR(turned[i + 1], y * std::cos(of[i]) + x * std::sin(of[i]), 1e-9) << i;
  }
}

// Sums and differences of two columns rotate by one angle at all positions: no table is needed.
TEST_F(Sums, OneAngleForAllPositionsIsNoRotation) {
  const auto one = [](uint32_t) { return 1.0; };
  const LinearExprRef value = rotated(angles(one, false), false);
  EXPECT_FALSE(find_rotation(builder_, *value).has_value());
}

// Rows may leave out the first one, where a table has no row by position.
TEST_F(Sums, AConstantIsAddedToRowsWithoutTheFirst) {
  const Shape shape = {1, kTokens - 1, kWidth};
  const Movement later{
      .shape = shape, .walk = shape, .strides = {kTokens * kWidth, kWidth, 1}, .offset = kWidth};
  const LinearExprRef rows = moved(later, features_);
  const auto with = [&](const ConstantRef& constants) {
    return builder_.materialised(
        sum(rows, stretched(builder_.constant_expr(constants), shape), 1.0));
  };
  EXPECT_TRUE(with(constant({kWidth}, std::vector<double>(kWidth, 2.0)))->is_plain());
  std::vector<double> table((kTokens - 1) * kWidth);
  std::iota(table.begin(), table.end(), 1.0);
  EXPECT_THROW(with(constant(shape, table)), NotRecognised);
}

}  // namespace
}  // namespace arenite::convert
