// SPDX-License-Identifier: Apache-2.0
// On every kernel set, products of rows given as pointers to parts equal those of contiguous rows,
// with the same packed weights.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/compare.h"
#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/packed_weights.h"
#include "support/random.h"

namespace arenite::test {
namespace {

class IndirectGemm : public KernelSetTest {};
INSTANTIATE_TEST_SUITE_P(KernelSets, IndirectGemm, testing::ValuesIn(targets_here()), test_name_of);

// Pieces that each end at an inaccessible page.
struct Pieces {
  std::vector<GuardedFloats> memory;
  std::vector<const float*> list;  // [pieces, list_rows]
  std::vector<float> rows;         // [rows, pieces * columns]

  Pieces(uint32_t rows_in, uint32_t list_rows, uint32_t pieces, uint32_t columns)
      : rows(size_t{rows_in} * pieces * columns) {
    Random(rows_in + pieces + columns).fill(rows, 1.0f);
    for (uint32_t p = 0; p < pieces; ++p) {
      for (uint32_t r = 0; r < list_rows; ++r) {
        const float* const from = &rows[(std::min(r, rows_in - 1) * pieces + p) * size_t{columns}];
        memory.emplace_back(columns, kReadAheadBytes);
        std::copy_n(from, columns, memory.back().data());
        list.push_back(memory.back().data());
      }
    }
  }
};

TEST_P(IndirectGemm, GivesTheBitsOfRowsInOnePiece) {
  const IndirectKernels& indirect = *kernels().indirect;
  const uint32_t nr = packing().nr;
  for (uint32_t rows = 1; rows <= packing().mr; ++rows) {
    ASSERT_GE(indirect.list_rows[rows], rows);
    ASSERT_LE(indirect.list_rows[rows], packing().mr);
    for (const uint32_t columns : {1u, nr - 1, nr, 2 * nr + 3}) {
      for (const uint32_t pieces : {1u, 2u, 5u}) {
        for (const uint32_t piece : {1u, 2u, 3u, 4u, 7u, 16u, 19u}) {
          const uint32_t depth = pieces * piece;
          Pieces of(rows, indirect.list_rows[rows], pieces, piece);
          std::vector<float> weights(size_t{columns} * depth), bias(columns);
          Random(depth).fill(weights, 1.0f);
          Random(columns).fill(bias, 1.0f);
          const PackedWeights packed(packing(), weights, bias, depth);
          const GuardedFloats expected(size_t{rows} * columns), found(size_t{rows} * columns);
          const GuardedFloats input(of.rows.size(), kReadAheadBytes);
          std::ranges::copy(of.rows, input.data());
          kernels().f32.gemm[rows](rows, columns, depth * sizeof(float), input.data(),
                                   depth * sizeof(float), packed.data(), expected.data(),
                                   columns * sizeof(float));
          indirect.gemm[rows](rows, columns, pieces, piece * sizeof(float), of.list.data(),
                              packed.data(), found.data(), columns * sizeof(float));
          ASSERT_TRUE(same_bits(found.span(), expected.span()))
              << rows << " x " << columns << ", " << pieces << " pieces of " << piece;
          EXPECT_TRUE(found.surroundings_intact());
        }
      }
    }
  }
}

// A row with NaN gives NaN, which no limit of a kernel replaces; other rows know nothing of it.
TEST_P(IndirectGemm, KeepsNaNInItsRow) {
  const IndirectKernels& indirect = *kernels().indirect;
  const uint32_t columns = packing().nr + 1;
  const std::vector<float> weights(size_t{columns} * 6, 0.5f), bias(columns, 1.0f);
  const PackedWeights packed(packing(), weights, bias, 6);
  for (uint32_t rows = 1; rows <= packing().mr; ++rows) {
    const uint32_t list_rows = indirect.list_rows[rows];
    for (uint32_t bad = 0; bad < rows; ++bad) {
      const Pieces of(rows, list_rows, 2, 3);
      // Beyond `rows` they are the last row's.
      for (uint32_t r = bad; r < (bad + 1 < rows ? bad + 1 : list_rows); ++r) {
        of.memory[list_rows + r][1] = NAN;
      }
      const GuardedFloats found(size_t{rows} * columns);
      indirect.gemm[rows](rows, columns, 2, 3 * sizeof(float),
                          const_cast<const float**>(of.list.data()), packed.data(), found.data(),
                          columns * sizeof(float));
      for (uint32_t i = 0; i < rows * columns; ++i) {
        ASSERT_EQ(std::isnan(found[i]), i / columns == bad) << "row " << bad << " of " << rows;
      }
    }
  }
}

}  // namespace
}  // namespace arenite::test
