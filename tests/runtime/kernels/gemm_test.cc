// SPDX-License-Identifier: Apache-2.0
// Tests the GEMM kernels of every kernel set, at sizes around their tiles, between guard pages.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "reference/reference.h"
#include "support/compare.h"
#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/packed_weights.h"
#include "support/random.h"

namespace arenite::test {
namespace {

constexpr uint32_t kDepths[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64};

class Gemm : public KernelSetTest {
 protected:
  std::vector<uint32_t> column_counts() const {
    const uint32_t nr = packing().nr;
    return {1, nr - 1, nr, nr + 1, 2 * nr + 3};
  }
};
// Runs all kernel sets, in emulators too.
INSTANTIATE_TEST_SUITE_P(KernelSets, Gemm, testing::ValuesIn(targets_here()), test_name_of);

// One product with random operands. Inputs may be read kReadAheadBytes too far, the output not at
// all; rows of the output are `gap` floats apart that must stay as they are.
struct Product {
  Packing packing;
  uint32_t rows, columns, depth;
  std::vector<float> weights, bias;
  GuardedFloats input;
  PackedWeights packed;

  static std::vector<float> random_floats(size_t count, uint64_t seed) {
    std::vector<float> values(count);
    Random(seed).fill(values, 1.0f);
    return values;
  }

  Product(Packing packing_in, uint32_t rows_in, uint32_t columns_in, uint32_t depth_in)
      : packing(packing_in),
        rows(rows_in),
        columns(columns_in),
        depth(depth_in),
        weights(random_floats(size_t{columns} * depth, columns)),
        bias(random_floats(columns, depth)),
        input(size_t{rows} * depth, kReadAheadBytes),
        packed(packing, weights, bias, depth) {
    Random(rows + 1000).fill(input.span(), 1.0f);
  }

  // Rows [first, first + count), each `columns` floats, in one call of the kernel for `count` rows.
  std::vector<float> run(const KernelSet& kernels, uint32_t first, uint32_t count) const {
    constexpr uint32_t kGap = 3;
    const size_t stride = columns + kGap;
    const GuardedFloats output((count - 1) * stride + columns);
    kernels.f32.gemm[count](count, columns, depth * sizeof(float), input.data() + first * depth,
                            depth * sizeof(float), packed.data(), output.data(),
                            stride * sizeof(float));
    EXPECT_TRUE(output.surroundings_intact());
    std::vector<float> result;
    for (uint32_t r = 0; r < count; ++r) {
      const float* const row = output.data() + r * stride;
      result.insert(result.end(), row, row + columns);
      for (uint32_t i = 0; i < kGap && r + 1 < count; ++i)
        EXPECT_TRUE(std::isnan(row[columns + i]));
    }
    return result;
  }
};

TEST_P(Gemm, AgreesWithTheReferenceForEveryNumberOfRows) {
  for (uint32_t rows = 1; rows <= packing().mr; ++rows) {
    for (const uint32_t columns : column_counts()) {
      for (const uint32_t depth : kDepths) {
        const Product product(packing(), rows, columns, depth);
        const std::vector<double> expected =
            reference_linear(product.input.span(), product.weights, product.bias, depth);
        // Each of the depth products and sums is rounded once, and no partial sum exceeds depth
        // + 1.
        const double tolerance = kRounding * 2 * depth * (depth + 1);
        ASSERT_TRUE(all_near(product.run(kernels(), 0, rows), expected, tolerance))
            << rows << " x " << columns << " x " << depth;
      }
    }
  }
}

TEST_P(Gemm, GivesARowTheSameBitsBesideAnyRows) {
  const uint32_t mr = packing().mr;
  for (const uint32_t columns : column_counts()) {
    for (const uint32_t depth : kDepths) {
      const Product product(packing(), mr, columns, depth);
      std::vector<std::vector<float>> alone;
      for (uint32_t row = 0; row < mr; ++row) alone.push_back(product.run(kernels(), row, 1));
      for (uint32_t rows = 2; rows <= mr; ++rows) {
        for (uint32_t first = 0; first + rows <= mr; ++first) {
          const std::vector<float> together = product.run(kernels(), first, rows);
          for (uint32_t r = 0; r < rows; ++r) {
            const std::span<const float> row(together.data() + r * columns, columns);
            ASSERT_TRUE(same_bits(row, alone[first + r]))
                << "row " << r << " of " << rows << ", " << columns << " x " << depth;
          }
        }
      }
    }
  }
}

TEST_P(Gemm, GivesAColumnTheSameBitsBesideAnyColumns) {
  const uint32_t nr = packing().nr;
  const Product wide(packing(), packing().mr, 2 * nr + 3, 33);
  const std::vector<float> all = wide.run(kernels(), 0, wide.rows);
  for (uint32_t columns = 1; columns < wide.columns; ++columns) {
    const GuardedFloats output(size_t{wide.rows} * columns);
    kernels().f32.gemm[wide.rows](wide.rows, columns, wide.depth * sizeof(float), wide.input.data(),
                                  wide.depth * sizeof(float), wide.packed.data(), output.data(),
                                  columns * sizeof(float));
    for (uint32_t r = 0; r < wide.rows; ++r) {
      ASSERT_TRUE(same_bits({output.data() + r * columns, columns},
                            {all.data() + r * wide.columns, columns}))
          << columns;
    }
  }
}

TEST_P(Gemm, PassesLargeSumsThroughUnclamped) {
  const std::vector<float> weights = {1e30f};
  const std::vector<float> bias = {-1e38f};
  const PackedWeights packed(packing(), weights, bias, 1);
  GuardedFloats input(1, kReadAheadBytes);
  input[0] = -1e8f;
  const GuardedFloats output(1);
  kernels().f32.gemm[1](1, 1, sizeof(float), input.data(), sizeof(float), packed.data(),
                        output.data(), sizeof(float));
  EXPECT_FLOAT_EQ(output[0], -2e38f);
}

// A row with NaN gives NaN, which no limit of a kernel replaces; other rows know nothing of it.
TEST_P(Gemm, KeepsNaNInItsRow) {
  for (uint32_t rows = 1; rows <= packing().mr; ++rows) {
    for (const uint32_t columns : column_counts()) {
      const Product product(packing(), rows, columns, 5);
      const std::vector<float> clean = product.run(kernels(), 0, rows);
      for (uint32_t bad = 0; bad < rows; ++bad) {
        const float before = std::exchange(product.input[bad * 5 + 2], NAN);
        const std::vector<float> found = product.run(kernels(), 0, rows);
        product.input[bad * 5 + 2] = before;
        for (uint32_t i = 0; i < found.size(); ++i) {
          if (i / columns == bad) {
            ASSERT_TRUE(std::isnan(found[i])) << "row " << bad << " of " << rows;
          } else {
            ASSERT_TRUE(same_bits({&found[i], 1}, {&clean[i], 1})) << "row " << bad;
          }
        }
      }
    }
  }
}

// Sums that overflow both ways are NaN, too.
TEST_P(Gemm, KeepsNaNOfInfiniteProducts) {
  const std::vector<float> weights = {1.0f, -1.0f};
  const std::vector<float> bias = {0.0f};
  const PackedWeights packed(packing(), weights, bias, 2);
  for (uint32_t rows = 1; rows <= packing().mr; ++rows) {
    GuardedFloats input(size_t{rows} * 2, kReadAheadBytes);
    std::ranges::fill(input.span(), INFINITY);
    const GuardedFloats output(rows);
    kernels().f32.gemm[rows](rows, 1, 2 * sizeof(float), input.data(), 2 * sizeof(float),
                             packed.data(), output.data(), sizeof(float));
    for (const float found : output.span()) ASSERT_TRUE(std::isnan(found)) << found;
  }
}

// Keys with weight 0 add nothing to a row, whatever their finite values.
TEST_P(Gemm, IgnoresFiniteWeightsOfZeroInputs) {
  const uint32_t nr = packing().nr;
  std::vector<float> weights(size_t{nr} * 3);
  Random(5).fill(weights, 1e38f);
  const std::vector<float> bias(nr, 0.0f);
  for (uint32_t n = 0; n < nr; ++n) weights[n * 3 + 1] = 1.0f;
  const PackedWeights packed(packing(), weights, bias, 3);
  GuardedFloats input(3, kReadAheadBytes);
  input[0] = 0.0f;
  input[1] = 0.25f;
  input[2] = 0.0f;
  const GuardedFloats output(nr);
  kernels().f32.gemm[1](1, nr, 3 * sizeof(float), input.data(), 3 * sizeof(float), packed.data(),
                        output.data(), nr * sizeof(float));
  EXPECT_TRUE(same_bits(output.span(), std::vector<float>(nr, 0.25f)));
}

}  // namespace
}  // namespace arenite::test
