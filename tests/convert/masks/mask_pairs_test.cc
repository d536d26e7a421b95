// SPDX-License-Identifier: Apache-2.0
// Compares counting and drawing of masks with the dense masks.
#include "convert/masks/masks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace arenite::convert {
namespace {

constexpr uint32_t kPositions = 75;  // three tiles, the last one cut

template <typename Sees>
DenseMask dense_where(const Sees& sees) {
  DenseMask dense(kPositions);
  for (uint32_t query = 0; query < kPositions; ++query) {
    for (uint32_t key = 0; key < kPositions; ++key) dense.set(query, key, sees(query, key));
  }
  return dense;
}

std::vector<DenseMask> dense_masks() {
  return {
      dense_where([](uint32_t, uint32_t) { return true; }),
      dense_where([](uint32_t q, uint32_t k) { return k <= q; }),
      dense_where([](uint32_t q, uint32_t k) { return k >= q; }),
      dense_where([](uint32_t q, uint32_t k) { return k <= q && q - k < 9; }),
      dense_where([](uint32_t q, uint32_t k) { return k <= q + 5 && q <= k + 40; }),
      dense_where([](uint32_t q, uint32_t k) { return (q + kPositions - k) % 3 == 0; }),
      dense_where([](uint32_t q, uint32_t k) { return k <= q && q / 20 == k / 20; }),
      dense_where([](uint32_t q, uint32_t k) { return k == q || (q * 37 + k * 11) % 7 == 2; }),
  };
}

std::vector<std::string> draw_dense(const DenseMask& dense, uint32_t positions,
                                    uint32_t cells_max) {
  const uint32_t cells = std::min(positions, cells_max);
  std::vector<std::string> rows(cells, std::string(cells, ' '));
  for (uint32_t y = 0; y < cells; ++y) {
    for (uint32_t x = 0; x < cells; ++x) {
      uint32_t all = 0;
      uint32_t seen = 0;
      for (uint32_t q = y * positions / cells; q < (y + 1) * positions / cells; ++q) {
        for (uint32_t k = x * positions / cells; k < (x + 1) * positions / cells; ++k) {
          ++all;
          seen += dense.at(q, k) ? 1 : 0;
        }
      }
      rows[y][x] = seen == 0 ? '.' : seen == all ? '#' : '+';
    }
  }
  return rows;
}

TEST(MaskPairs, CountsAndDrawsThePairsOfTheDenseMask) {
  for (const DenseMask& dense : dense_masks()) {
    const CompiledMask mask = compile_mask(dense, "test");
    for (const uint32_t positions : {1u, 2u, 16u, 17u, 32u, 50u, kPositions}) {
      SCOPED_TRACE(mask.describe() + ", " + std::to_string(positions));
      uint64_t expected = 0;
      for (uint32_t query = 0; query < positions; ++query) {
        for (uint32_t key = 0; key < positions; ++key) expected += dense.at(query, key) ? 1 : 0;
      }
      const MaskPairs pairs(mask.view(), positions);
      EXPECT_EQ(pairs.visible(), expected);
      for (const uint32_t cells : {1u, 7u, 16u, 100u}) {
        EXPECT_EQ(pairs.draw(cells), draw_dense(dense, positions, cells));
      }
    }
  }
}

TEST(MaskPairs, CountsKeysThatAStripShowsWithAPenalty) {
  const std::vector<float> values = {-2.0f, -1.0f, 0.0f, -INFINITY, -INFINITY};
  MaskView mask;
  mask.kind = MaskKind::kStrip;
  mask.positions = 3;
  mask.lookback = 2;
  mask.lookahead = 0;
  mask.values = values;
  EXPECT_EQ(MaskPairs(mask, 3).visible(), 6u);
  EXPECT_EQ(MaskPairs(mask, 2).draw(2), (std::vector<std::string>{"#.", "##"}));
}

TEST(MaskPairs, TakesAnyLengthThatABandTakes) {
  const CompiledMask causal = band_mask(kUnlimited, 0, 0);
  constexpr uint64_t kMany = 4000000000;
  EXPECT_EQ(MaskPairs(causal.view(), kMany).visible(), kMany * (kMany + 1) / 2);
  EXPECT_EQ(MaskPairs(causal.view(), kMany).draw(2), (std::vector<std::string>{"+.", "#+"}));
  const CompiledMask window = band_mask(4, 0, 0);
  EXPECT_EQ(MaskPairs(window.view(), kMany).visible(), 5 * kMany - 10);
}

}  // namespace
}  // namespace arenite::convert
