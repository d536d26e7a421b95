// SPDX-License-Identifier: Apache-2.0
// Tests look-ups in plain and in packed tables, with and without positions.
#include "ops/row_ops.h"

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/packed_weights.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class EmbeddingOp : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(EmbeddingOp);

constexpr uint32_t kEntries = 37;

TEST_P(EmbeddingOp, FindsTheVectorsOfTokensAndPositions) {
  // Two sequences with room for four ids each; the second holds 7 positions already.
  const std::vector<SequenceRows> sequences = {{0, 0, 3}, {7, 3, 2}};
  const uint32_t ids[] = {0, 36, 5, 99, 31, 32, 99, 99};
  const uint32_t ids_of_rows[] = {0, 36, 5, 31, 32};
  const uint32_t positions[] = {0, 1, 2, 7, 8};
  for (const uint32_t columns : {1u, 5u, 16u, 65u}) {
    std::vector<float> table(size_t{kEntries} * columns), places(size_t{12} * columns + 4);
    Random(1).fill(table, 1.0f);
    Random(2).fill(places, 1.0f);
    const PackedWeights packed(packing(), table, std::vector<float>(kEntries, 7.0f), columns);
    for (const bool is_packed : {false, true}) {
      for (const bool with_positions : {false, true}) {
        for (const float scale : {1.0f, 2.0f, 3.0f}) {
          Embedding op;
          op.tokens = is_packed ? packed.view() : plain_rows(table.data(), kEntries, columns);
          op.scale = scale;
          if (with_positions) op.positions = plain_rows(places.data(), 12, columns);
          op.position_offset = 2;
          const FloatRows output(5, columns, 3, 1.0f);
          embedding(kernels(), op, {ids}, {sequences, 4}, output.matrix(), {});
          std::vector<float> expected;
          for (uint32_t r = 0; r < 5; ++r) {
            for (uint32_t c = 0; c < columns; ++c) {
              const float value = table[size_t{ids_of_rows[r]} * columns + c] * scale;
              const float place = places[(size_t{positions[r]} + 2) * columns + c];
              expected.push_back(with_positions ? value + place : value);
            }
          }
          ASSERT_TRUE(same_bits(output.dense(), expected)) << columns << is_packed;
          ASSERT_TRUE(output.surroundings_intact());
        }
      }
    }
  }
}

// Where rows stand in the caller's memory: sequences of four ids, with gaps, or back to back.
TEST_P(EmbeddingOp, FindsTokensAndTypesInEveryFormOfABatch) {
  constexpr uint32_t kColumns = 5;
  constexpr size_t kAhead = 4;  // floats that kernels may read after a row
  std::vector<float> table(size_t{kEntries} * kColumns), places(12 * kColumns + kAhead),
      types(3 * kColumns + kAhead);
  Random(1).fill(table, 1.0f);
  Random(2).fill(places, 1.0f);
  Random(3).fill(types, 1.0f);
  Embedding op;
  op.tokens = plain_rows(table.data(), static_cast<uint32_t>(table.size() / kColumns), kColumns);
  op.positions =
      plain_rows(places.data(), static_cast<uint32_t>(places.size() / kColumns), kColumns);
  op.types = plain_rows(types.data(), static_cast<uint32_t>(types.size() / kColumns), kColumns);
  const std::vector<SequenceRows> sequences = {{0, 0, 3}, {0, 3, 0}, {0, 3, 2}};
  const uint32_t ids[] = {7, 1, 2, 3, 9, 9, 9, 9, 4, 5, 6, 7};
  const uint8_t kinds[] = {0, 1, 2, 0, 0, 0, 0, 0, 1, 2, 0, 1};
  const uint8_t visible[] = {1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1};
  struct Form {
    size_t stride;
    const uint8_t* visible;
    uint32_t tokens[5], positions[5];
  };
  const Form forms[] = {{4, nullptr, {0, 1, 2, 8, 9}, {0, 1, 2, 0, 1}},
                        {4, visible, {0, 2, 3, 9, 11}, {0, 2, 3, 1, 3}},
                        {0, nullptr, {0, 1, 2, 3, 4}, {0, 1, 2, 0, 1}}};
  for (const Form& form : forms) {
    for (const bool with_types : {false, true}) {
      const FloatRows output(5, kColumns, 3, 1.0f);
      embedding(kernels(), op, {ids, with_types ? kinds : nullptr},
                {sequences, form.stride, form.visible}, output.matrix(), {});
      std::vector<float> expected;
      for (uint32_t r = 0; r < 5; ++r) {
        const size_t type = with_types ? kinds[form.tokens[r]] : 0;
        for (uint32_t c = 0; c < kColumns; ++c) {
          const float sum = table[size_t{ids[form.tokens[r]]} * kColumns + c] +
                            places[size_t{form.positions[r]} * kColumns + c];
          expected.push_back(sum + types[type * kColumns + c]);
        }
      }
      ASSERT_TRUE(same_bits(output.dense(), expected)) << form.stride << with_types;
    }
  }
}

TEST_P(EmbeddingOp, CountsPositionsWithoutPadding) {
  constexpr uint32_t kColumns = 5;
  std::vector<float> table(kEntries * kColumns), places(12 * kColumns + 4);
  Random(1).fill(table, 1.0f);
  Random(2).fill(places, 1.0f);
  Embedding op;
  op.tokens = plain_rows(table.data(), static_cast<uint32_t>(table.size() / kColumns), kColumns);
  op.positions =
      plain_rows(places.data(), static_cast<uint32_t>(places.size() / kColumns), kColumns);
  op.position_offset = 4;
  op.padding_id = 3;
  const uint32_t ids[] = {3, 3, 7, 3, 8, 5, 99, 6, 3, 9, 3, 2};
  const uint8_t visible[] = {0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1};
  struct Form {
    size_t stride;
    const uint8_t* visible;
    std::vector<SequenceRows> sequences;
    uint32_t tokens[5], rows[5];
  };
  const Form forms[] = {{6, nullptr, {{0, 0, 3}, {0, 3, 2}}, {0, 1, 2, 6, 7}, {3, 3, 4, 4, 5}},
                        {6, visible, {{0, 0, 3}, {0, 3, 2}}, {1, 2, 3, 7, 9}, {3, 4, 3, 5, 6}},
                        {0, nullptr, {{0, 0, 3}, {0, 3, 2}}, {0, 1, 2, 3, 4}, {3, 3, 4, 3, 4}}};
  for (const Form& form : forms) {
    const FloatRows output(5, kColumns, 3, 1.0f);
    std::vector<uint32_t> known(std::begin(ids), std::end(ids));
    if (form.visible == nullptr) known[6] = 4;
    embedding(kernels(), op, {known.data()}, {form.sequences, form.stride, form.visible},
              output.matrix(), {});
    std::vector<float> expected;
    for (uint32_t r = 0; r < 5; ++r) {
      for (uint32_t c = 0; c < kColumns; ++c) {
        expected.push_back(table[size_t{known[form.tokens[r]]} * kColumns + c] +
                           places[size_t{form.rows[r]} * kColumns + c]);
      }
    }
    ASSERT_TRUE(same_bits(output.dense(), expected)) << form.stride;
  }
}

TEST_P(EmbeddingOp, WithoutTokensGivesThePositions) {
  std::vector<float> places(12 * 7);
  Random(2).fill(places, 1.0f);
  Embedding op;
  op.positions = plain_rows(places.data(), static_cast<uint32_t>(places.size() / 7), 7);
  op.position_offset = 3;
  const std::vector<SequenceRows> sequences = {{0, 0, 2}, {0, 2, 3}};
  const FloatRows output(5, 7, 3, 1.0f);
  embedding(kernels(), op, {}, {sequences}, output.matrix(), {});
  std::vector<float> expected;
  for (const uint32_t position : {0u, 1u, 0u, 1u, 2u}) {
    const auto row = places.begin() + (position + 3) * 7;
    expected.insert(expected.end(), row, row + 7);
  }
  EXPECT_TRUE(same_bits(output.dense(), expected));
}

TEST_P(EmbeddingOp, GivesTheSameBitsOnAnyThreads) {
  constexpr uint32_t kColumns = 19, kRows = 50;
  std::vector<float> table(size_t{kEntries} * kColumns);
  Random(1).fill(table, 1.0f);
  Embedding op;
  op.tokens = plain_rows(table.data(), static_cast<uint32_t>(table.size() / kColumns), kColumns);
  op.scale = 1.7f;
  std::vector<uint32_t> ids(kRows);
  Random random(4);
  for (uint32_t& id : ids) id = random.below(kEntries);
  const std::vector<SequenceRows> sequences = {{0, 0, kRows}};
  const FloatRows alone(kRows, kColumns, 1, 1.0f), together(kRows, kColumns, 2, 1.0f);
  const StepRows rows = {sequences, kRows};
  embedding(kernels(), op, {ids.data()}, rows, alone.matrix(), {});
  Pool pool(3, Order::kShuffled);
  embedding(kernels(), op, {ids.data()}, rows, together.matrix(), pool.parallel_for());
  ASSERT_TRUE(same_bits(together.dense(), alone.dense()));
}

}  // namespace
}  // namespace arenite::test
