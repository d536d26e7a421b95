// SPDX-License-Identifier: Apache-2.0
// Compares compiled masks, read the way attention reads them, with their dense masks.
#include "ops/attention_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/masks.h"

namespace arenite::test {
namespace {

// Sizes around the tile of 32 positions, and several tiles.
constexpr uint32_t kSizes[] = {1, 31, 32, 33, 100};

std::vector<TestMask> bands(uint32_t positions) {
  std::vector<TestMask> masks;
  for (const uint32_t lookback : {0u, 1u, 7u, 32u, 99u, 1000u, kUnlimited - 1, kUnlimited}) {
    for (const uint32_t lookahead : {0u, 1u, 40u, 1000u, kUnlimited - 1, kUnlimited}) {
      masks.push_back(band_mask(positions, lookback, lookahead));
    }
  }
  return masks;
}

std::vector<TestMask> strips(uint32_t positions) {
  const uint32_t most = positions - 1;
  return {slope_mask(positions, most, 0, 0.25f), slope_mask(positions, most, most, 0.5f),
          slope_mask(positions, std::min(most, 5u), std::min(most, 2u), 1.0f)};
}

std::vector<TestMask> tiles(uint32_t positions) {
  return {random_mask(positions, 2, false, 1),
          random_mask(positions, 50, false, 2),
          random_mask(positions, 20, true, 3),
          document_mask(positions, 7),
          document_mask(positions, 40),
          prefix_mask(positions, positions / 2),
          prefix_mask(positions, 3),
          sink_mask(positions, 2),
          tile_mask("full", band_mask(positions, kUnlimited, kUnlimited).dense),
          tile_mask("diagonal", band_mask(positions, 0, 0).dense)};
}

// The smallest range that holds all keys below `keys` that the query sees.
KeyRange dense_range(const DenseMask& dense, uint32_t query, uint32_t keys) {
  KeyRange range = {0, 0};
  for (uint32_t key = 0; key < keys; ++key) {
    if (!dense.sees(query, key)) continue;
    if (range.end == 0) range.begin = key;
    range.end = key + 1;
  }
  return range;
}

class Masks : public KernelSetTest {
 protected:
  // Every score of every query, with `keys` keys held, is what the dense mask makes of it.
  void expect_scores(const TestMask& mask, uint32_t query, uint32_t keys) const {
    const MaskView view = mask.view();
    const KeyRange range = visible_keys(view, query, keys);
    ASSERT_LE(range.end, keys);
    ASSERT_LT(range.begin, range.end);
    const GuardedFloats scores(range.end - range.begin, kReadAheadBytes);
    std::ranges::fill(scores.span(), 0.75f);
    apply_mask(kernels(), view, query, range, scores.data());
    for (uint32_t key = 0; key < keys; ++key) {
      const bool within = key >= range.begin && key < range.end;
      if (!within) {
        ASSERT_FALSE(mask.dense.sees(query, key)) << query << " " << key;
        continue;
      }
      const bool sees = mask.dense.sees(query, key);
      const float term = sees ? mask.dense.bias_of(query, key) : -INFINITY;
      const float hidden = mask.kind == MaskKind::kTiles ? kHiddenScore : -INFINITY;
      ASSERT_EQ(scores[key - range.begin], sees ? 0.75f + term : hidden) << query << " " << key;
      ASSERT_EQ(mask_term(view, query, key), term) << query << " " << key;
    }
    ASSERT_TRUE(scores.surroundings_intact());
  }

  void expect_scores(const TestMask& mask) const {
    SCOPED_TRACE(mask.name + " of " + std::to_string(mask.dense.positions));
    for (uint32_t query = 0; query < mask.dense.positions; ++query) {
      for (const uint32_t keys : {query + 1, mask.dense.positions}) {
        if (dense_range(mask.dense, query, keys).end != 0) expect_scores(mask, query, keys);
      }
    }
  }
};
ARENITE_FOR_EACH_KERNEL_SET(Masks);

TEST_P(Masks, BandEqualsTheDenseMask) {
  for (const uint32_t positions : kSizes) {
    for (const TestMask& mask : bands(positions)) expect_scores(mask);
  }
}

TEST_P(Masks, StripEqualsTheDenseMask) {
  for (const uint32_t positions : kSizes) {
    for (const TestMask& mask : strips(positions)) expect_scores(mask);
  }
}

TEST_P(Masks, StripIsReadNoFurtherThanKernelsMay) {
  for (const uint32_t positions : kSizes) {
    const TestMask mask = slope_mask(positions, positions - 1, positions - 1, 0.5f);
    const GuardedFloats values(2 * size_t{positions} - 1, kReadAheadBytes);
    std::ranges::copy(mask.view().values, values.data());
    MaskView view = mask.view();
    view.values = values.span();
    for (uint32_t query = 0; query < positions; ++query) {
      const GuardedFloats scores(positions, kReadAheadBytes);
      std::ranges::fill(scores.span(), 0.0f);
      apply_mask(kernels(), view, query, {0, positions}, scores.data());
      ASSERT_EQ(scores[positions - 1], mask.dense.bias_of(query, positions - 1));
    }
  }
}

// A strip may hide distances in its middle: every other key, say.
TEST_P(Masks, StripHidesDistancesInItsBand) {
  constexpr uint32_t kPositions = 100;
  std::vector<float> values(2 * kPositions - 1);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 != 0 ? 0.5f : -INFINITY;
  expect_scores(strip_mask(kPositions, kPositions - 1, kPositions - 1, values));
}

TEST_P(Masks, TilesEqualTheDenseMask) {
  for (const uint32_t positions : kSizes) {
    for (const TestMask& mask : tiles(positions)) expect_scores(mask);
  }
}

TEST_P(Masks, TilesOverwriteScoresThatWereNotComputed) {
  const TestMask mask = sink_mask(100, 2);
  const MaskView view = mask.view();
  const KeyRange range = visible_keys(view, 99, 100);
  ASSERT_EQ(range.begin, 0u);
  const GuardedFloats scores(range.end - range.begin, kReadAheadBytes);  // not a number
  for (const uint32_t key : {0u, 1u, 96u, 97u, 98u, 99u}) scores[key] = 1.0f;
  apply_mask(kernels(), view, 99, range, scores.data());
  for (uint32_t key = 2; key < 96; ++key) ASSERT_EQ(scores[key], kHiddenScore) << key;
  EXPECT_EQ(scores[1], 1.0f);
}

TEST(VisibleKeys, AreTheSmallestRangeOfEveryMask) {
  for (const uint32_t positions : kSizes) {
    for (const auto& masks : {bands(positions), strips(positions), tiles(positions)}) {
      for (const TestMask& mask : masks) {
        for (uint32_t query = 0; query < positions; ++query) {
          const KeyRange expected = dense_range(mask.dense, query, positions);
          const KeyRange range = visible_keys(mask.view(), query, positions);
          ASSERT_EQ(range.begin, expected.begin) << mask.name << " " << query;
          ASSERT_EQ(range.end, expected.end) << mask.name << " " << query;
        }
      }
    }
  }
}

TEST(VisibleKeys, DoNotOverflowAtTheLastPositions) {
  MaskView band;
  constexpr uint32_t kLast = UINT32_MAX - kPagePositions - 1;
  for (const uint32_t limit : {kUnlimited, kUnlimited - 1}) {
    band.lookback = limit;
    band.lookahead = limit;
    const KeyRange range = visible_keys(band, kLast, kLast + 1);
    EXPECT_EQ(range.begin, 0u);
    EXPECT_EQ(range.end, kLast + 1);
  }
  band.lookback = 10;
  band.lookahead = 0;
  EXPECT_EQ(visible_keys(band, kLast, kLast + 1).begin, kLast - 10);
}

// The runs that a block of queries is given: in order, apart, and nothing visible outside them.
void expect_runs(const TestMask& mask, uint32_t first, uint32_t last, KeyRange range) {
  const MaskView view = mask.view();
  const auto seen = [&](uint32_t key) {
    for (uint32_t query = first; query <= last; ++query) {
      if (mask.dense.sees(query, key)) return true;
    }
    return false;
  };
  uint32_t covered = range.begin;
  KeyRange run = {range.begin, range.begin};
  while (true) {
    run = next_visible_run(view, first, last, {run.end, range.end});
    ASSERT_LE(run.begin, run.end);
    for (; covered < run.begin; ++covered) {
      ASSERT_FALSE(seen(covered)) << mask.name << " " << first << " " << covered;
    }
    if (run.begin == run.end) break;
    ASSERT_TRUE(run.begin == range.begin || view.kind != MaskKind::kTiles ||
                run.begin % kMaskTile == 0);
    ASSERT_TRUE(run.end == range.end || run.end % kMaskTile == 0);
    covered = run.end;
  }
  ASSERT_EQ(run.end, range.end) << mask.name;
}

TEST(NextVisibleRun, CoversEveryVisibleKeyOfABlock) {
  for (const uint32_t positions : kSizes) {
    for (const auto& masks : {bands(positions), strips(positions), tiles(positions)}) {
      for (const TestMask& mask : masks) {
        for (const uint32_t rows : {1u, 4u, 8u}) {
          for (uint32_t first = 0; first < positions; first += 3) {
            const uint32_t last = std::min(first + rows, positions) - 1;
            KeyRange range = {positions, 0};
            for (uint32_t query = first; query <= last; ++query) {
              const KeyRange row = visible_keys(mask.view(), query, positions);
              range = {std::min(range.begin, row.begin), std::max(range.end, row.end)};
            }
            ASSERT_NO_FATAL_FAILURE(expect_runs(mask, first, last, range));
          }
        }
      }
    }
  }
}

TEST(NextVisibleRun, SkipsTileColumnsThatNoQuerySees) {
  const TestMask mask = sink_mask(200, 2);
  const KeyRange first = next_visible_run(mask.view(), 192, 199, {0, 200});
  EXPECT_EQ(first.begin, 0u);
  EXPECT_EQ(first.end, 32u);
  const KeyRange second = next_visible_run(mask.view(), 192, 199, {first.end, 200});
  EXPECT_EQ(second.begin, 192u);
  EXPECT_EQ(second.end, 200u);
  const KeyRange end = next_visible_run(mask.view(), 192, 199, {second.end, 200});
  EXPECT_EQ(end.begin, end.end);
}

// Rows 30 to 33 lie in two rows of tiles: what either of them shows is in a run.
TEST(NextVisibleRun, LooksAtEveryRowOfTilesThatABlockTouches) {
  const TestMask mask = tile_mask("diagonal", band_mask(100, 0, 0).dense);
  const KeyRange run = next_visible_run(mask.view(), 30, 33, {30, 34});
  EXPECT_EQ(run.begin, 30u);
  EXPECT_EQ(run.end, 34u);
}

}  // namespace
}  // namespace arenite::test
