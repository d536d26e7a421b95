// SPDX-License-Identifier: Apache-2.0
// The compiled mask is the cheapest form that is equal to the dense mask.
#include "convert/masks/masks.h"

#include <gtest/gtest.h>

#include "convert/modules/mask_patterns.h"
#include "support/refusal.h"

namespace arenite::test {
namespace {

using convert::band_mask;
using convert::compile_mask;
using convert::CompiledMask;
using convert::DenseMask;
using convert::expand_mask;

TEST(MaskCompiler, FindsTheCheapestFormOfTheSameMask) {
  for (const uint32_t positions : {9u, 31u, 32u, 33u, 64u, 65u, 100u}) {
    for (const MaskPattern& pattern : mask_patterns(positions)) {
      const CompiledMask mask = compile_mask(pattern.dense, "test");
      EXPECT_EQ(mask.kind, pattern.kind) << pattern.name << positions;
      EXPECT_EQ(mask.positions, positions);
      EXPECT_EQ(expand_mask(mask.view(), positions), pattern.dense) << pattern.name << positions;
    }
  }
}

TEST(MaskCompiler, GivesBandsTheirReach) {
  const auto band = [](uint32_t lookback, uint32_t lookahead) {
    return compile_mask(dense_where(20,
                                    [=](uint32_t q, uint32_t k) {
                                      return k + uint64_t{lookback} >= q &&
                                             k <= q + uint64_t{lookahead};
                                    }),
                        "test");
  };
  EXPECT_EQ(band(30, 0), band_mask(kUnlimited, 0, 20));
  EXPECT_EQ(band(19, 0), band_mask(kUnlimited, 0, 20));
  EXPECT_EQ(band(18, 0), band_mask(18, 0, 20));
  EXPECT_EQ(band(0, 18), band_mask(0, 18, 20));
  EXPECT_EQ(band(30, 30), band_mask(kUnlimited, kUnlimited, 20));
  EXPECT_EQ(band(0, 0), band_mask(0, 0, 20));
}

TEST(MaskCompiler, TakesASinglePosition) {
  DenseMask one(1);
  one.set(0, 0, true);
  const CompiledMask mask = compile_mask(one, "test");
  EXPECT_EQ(mask.kind, MaskKind::kBand);
  EXPECT_EQ(expand_mask(mask.view(), 1), one);
}

TEST(MaskCompiler, StoresEqualTilesOnce) {
  // Documents of 16: every diagonal tile looks the same, and all others are hidden.
  const CompiledMask mask = compile_mask(
      dense_where(320, [](uint32_t q, uint32_t k) { return q / 16 == k / 16; }), "test");
  ASSERT_EQ(mask.kind, MaskKind::kTiles);
  EXPECT_EQ(mask.map.size(), 100u);
  EXPECT_EQ(mask.bits.size(), kMaskTile);
  EXPECT_EQ(mask.map[0], kTileMixed);
  EXPECT_EQ(mask.map[1], kTileHidden);
  EXPECT_EQ(mask.map[11], kTileMixed);
}

TEST(MaskCompiler, MarksTilesThatAreAllVisibleUpToTheEdge) {
  // A prefix of two tiles; 70 positions leave tiles that the mask covers in part.
  const CompiledMask mask = compile_mask(
      dense_where(70, [](uint32_t q, uint32_t k) { return k < 64 || k <= q; }), "test");
  ASSERT_EQ(mask.kind, MaskKind::kTiles);
  EXPECT_EQ(mask.map[0], kTileVisible);
  EXPECT_EQ(mask.map[7], kTileVisible);
  EXPECT_EQ(mask.row_begin[3], 0u);
  EXPECT_EQ(mask.row_end[3], 64u);
  EXPECT_EQ(mask.row_end[69], 70u);
}

TEST(MaskCompiler, NamesARowThatIsHiddenWhole) {
  for (const uint32_t hidden : {0u, 7u, 39u}) {
    const DenseMask dense =
        dense_where(40, [&](uint32_t q, uint32_t k) { return q != hidden && k <= q; });
    EXPECT_TRUE(testing::refuses([&] { compile_mask(dense, "'m.pt': 'mask'"); },
                                 {"'m.pt': 'mask'", "row " + std::to_string(hidden) + " of 40",
                                  "at least one visible key"}));
  }
  EXPECT_TRUE(testing::refuses([] { compile_mask(DenseMask(), "m"); }, {"m", "empty"}));
}

// The ranges of the rows are exact: work follows them.
TEST(MaskCompiler, KnowsTheFirstAndTheLastKeyOfEachRow) {
  for (const MaskPattern& pattern : mask_patterns(67)) {
    const CompiledMask mask = compile_mask(pattern.dense, "test");
    if (mask.kind != MaskKind::kTiles) continue;
    for (uint32_t row = 0; row < 67; ++row) {
      uint32_t first = 0;
      uint32_t end = 67;
      while (!pattern.dense.at(row, first)) ++first;
      while (!pattern.dense.at(row, end - 1)) --end;
      EXPECT_EQ(mask.row_begin[row], first) << pattern.name << row;
      EXPECT_EQ(mask.row_end[row], end) << pattern.name << row;
    }
  }
}

TEST(MaskCompiler, DescribesMasksInWords) {
  const auto words = [](uint32_t lookback, uint32_t lookahead) {
    return band_mask(lookback, lookahead, 0).describe();
  };
  EXPECT_EQ(words(kUnlimited, 0), "causal");
  EXPECT_EQ(words(kUnlimited, kUnlimited), "bidirectional");
  EXPECT_EQ(words(3, 0), "causal window of 4");
  EXPECT_EQ(words(0, kUnlimited), "anti-causal");
  EXPECT_EQ(words(2, 5), "band, lookback 2, lookahead 5");
}

}  // namespace
}  // namespace arenite::test
