// SPDX-License-Identifier: Apache-2.0
// Compares rotary position embedding with complex numbers in double precision.
#include "ops/row_ops.h"

#include <gtest/gtest.h>

#include <complex>

#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class Rope : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Rope);

constexpr uint32_t kPositions = 40;

// [positions, rotary_dim]: cosines, then sines.
std::vector<float> angles(uint32_t rotary_dim) {
  std::vector<float> table(size_t{kPositions} * rotary_dim + kReadAheadBytes / sizeof(float));
  const uint32_t half = rotary_dim / 2;
  for (uint32_t p = 0; p < kPositions; ++p) {
    for (uint32_t i = 0; i < half; ++i) {
      const double angle = p * std::pow(10000.0, -2.0 * i / rotary_dim);
      table[size_t{p} * rotary_dim + i] = static_cast<float>(std::cos(angle));
      table[size_t{p} * rotary_dim + half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

TEST_P(Rope, TurnsHalvesOfHeadsByTheirPosition) {
  const std::vector<SequenceRows> sequences = {{4, 0, 3}, {0, 3, 0}, {30, 3, 2}};
  const uint32_t positions[] = {4, 5, 6, 30, 31};
  for (const uint32_t head_dim : {2u, 6u, 9u, 64u}) {
    for (const uint32_t rotary_dim : {0u, 2u, head_dim / 2 * 2}) {
      const uint32_t heads = 3;
      const uint32_t half = rotary_dim / 2;
      const FloatRows rows(5, heads * head_dim, head_dim, 1.0f);
      const FloatRows apart(5, heads * head_dim, 7, 1.0f);
      std::vector<double> expected;
      for (uint32_t r = 0; r < 5; ++r) {
        for (uint32_t column = 0; column < heads * head_dim; ++column) {
          const uint32_t i = column % head_dim;
          if (i >= rotary_dim) {
            expected.push_back(rows.at(r, column));
            continue;
          }
          const uint32_t real = column - (i >= half ? half : 0);
          const double angle =
              positions[r] * std::pow(10000.0, -2.0 * (real % head_dim) / rotary_dim);
          const std::complex<double> turned =
              std::complex<double>(rows.at(r, real), rows.at(r, real + half)) *
              std::polar(1.0, angle);
          expected.push_back(i >= half ? turned.imag() : turned.real());
        }
      }
      const std::vector<float> table = angles(rotary_dim);
      rope(kernels(), rows.view(), heads, table.data(), rotary_dim, {sequences}, apart.matrix(),
           {});
      rope(kernels(), rows.view(), heads, table.data(), rotary_dim, {sequences}, rows.matrix(), {});
      // Two products of numbers below 1, and the rounding of the angles' table.
      ASSERT_TRUE(all_near(rows.dense(), expected, 8 * kRounding)) << head_dim << " " << rotary_dim;
      ASSERT_TRUE(same_bits(apart.dense(), rows.dense()));
      ASSERT_TRUE(rows.surroundings_intact() && apart.surroundings_intact());
    }
  }
}

TEST_P(Rope, GivesTheSameBitsOnAnyThreads) {
  const std::vector<SequenceRows> sequences = {{3, 0, 35}, {0, 35, 5}};
  const std::vector<float> table = angles(6);
  const FloatRows alone(40, 24, 1, 1.0f), together(40, 24, 1, 1.0f);
  rope(kernels(), alone.view(), 3, table.data(), 6, {sequences}, alone.matrix(), {});
  Pool pool(3, Order::kShuffled);
  rope(kernels(), together.view(), 3, table.data(), 6, {sequences}, together.matrix(),
       pool.parallel_for());
  ASSERT_TRUE(same_bits(together.dense(), alone.dense()));
}

}  // namespace
}  // namespace arenite::test
