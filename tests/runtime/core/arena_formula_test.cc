// SPDX-License-Identifier: Apache-2.0
// Compares the arena formula with the sizes of the parts of an arena, and tests overflow.
#include "arenite/arena_formula.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "core/cache_layout.h"
#include "core/packing.h"

namespace arenite {
namespace {

// Tokens, and the rows that are asked for.
constexpr Axis kAxes[] = {{}, {AxisKind::kAsked, 0, 0, 0}};

constexpr ArenaFormula formula_of(AxisBytes tokens, uint32_t bytes_per_output,
                                  uint32_t scratch_bytes_per_thread, uint32_t nr,
                                  uint32_t score_rows = 0, uint32_t groups = 0) {
  ArenaFormula formula;
  formula.axes[0] = tokens;
  formula.axes[1].activations = bytes_per_output;
  formula.scratch_bytes_per_thread = scratch_bytes_per_thread;
  formula.nr = nr;
  formula.score_rows = score_rows;
  formula.group_count = groups;
  return formula;
}

constexpr TensorType kKvTypes[] = {TensorType::kF32, TensorType::kInt8};

ArenaFormula formula_of(Packing packing, TensorType kv_type, const CacheShape& shape,
                        uint32_t lookback) {
  ArenaFormula formula;
  formula.nr = packing.nr;
  formula.score_rows = packing.mr;
  formula.group_count = 1;
  formula.groups[0].lookback = lookback;
  formula.groups[0].bytes(kv_type) = {
      static_cast<uint32_t>(cache_bytes_per_panel(packing, shape).value()),
      static_cast<uint32_t>(cache_bytes_per_page(packing, shape).value())};
  return formula;
}

TEST(ArenaFormula, AgreesWithTheCacheForEveryShape) {
  for (uint32_t target = 0; target < kTargets; ++target) {
    for (const TensorType type : kKvTypes) {
      const Packing packing = packing_of(static_cast<Target>(target), type);
      const uint32_t nr = packing.nr;
      for (const uint32_t kv_heads : {1u, 3u}) {
        for (const uint32_t head_dim : {0u, 1u, 9u, 64u}) {
          for (const uint32_t value_dim : {1u, nr - 1, nr, nr + 1, 64u}) {
            const CacheShape shape = {kv_heads, head_dim, value_dim};
            for (const uint32_t positions : {1u, nr, nr + 1, 255u, 511u, 512u, 513u, 600u}) {
              const uint64_t bytes = CacheLayout(packing, shape, positions).bytes();
              const ArenaSizes sizes = evaluate(formula_of(packing, type, shape, UINT32_MAX), kAxes,
                                                {positions, 1, 2, false, 1, type});
              EXPECT_EQ(sizes.kv_cache_bytes.value(), round_up(2 * bytes, kArenaUnit).value())
                  << name(type) << " nr " << nr << " kv_heads " << kv_heads << " head_dim "
                  << head_dim << " value_dim " << value_dim << " positions " << positions;
            }
          }
        }
      }
    }
  }
}

// Where the window has passed, the ring needs every page that a query of a call can see, wherever
// in a page the call begins.
TEST(ArenaFormula, GivesARingEveryPageThatACallCanSee) {
  constexpr uint32_t kManyPositions = 1u << 20;
  for (const uint32_t lookback : {0u, 1u, 255u, 510u, 511u, 512u, 513u, 1023u, 4095u}) {
    for (const uint32_t tokens : {1u, 2u, 37u, 511u, 512u, 513u}) {
      uint32_t pages = 0;
      for (uint32_t offset = 0; offset < kPagePositions; ++offset) {
        const uint32_t first = 100 * kPagePositions + offset;  // of the call
        const uint32_t begin = (first - lookback) / kPagePositions;
        const uint32_t end = (first + tokens - 1) / kPagePositions;
        pages = std::max(pages, end - begin + 1);
      }
      EXPECT_EQ(cache_positions(lookback, 8, kManyPositions, tokens), pages * kPagePositions)
          << lookback << " back, " << tokens << " tokens";
    }
  }
}

TEST(ArenaFormula, MakesNoRingLargerThanTheContext) {
  EXPECT_EQ(cache_positions(600, 8, 1000, 1), 1000u);
  EXPECT_EQ(cache_positions(600, 8, 1023, 1), 1024u);
  EXPECT_EQ(cache_positions(600, 8, 1024, 1), 1024u);
  EXPECT_EQ(cache_positions(600, 8, 5000, 1), 1536u);
  EXPECT_EQ(cache_positions(UINT32_MAX, 8, 5001, 5001), 5008u);
  EXPECT_EQ(cache_positions(UINT32_MAX - 1, 8, 5001, UINT32_MAX), 5008u) << "an overflow";
}

TEST(ArenaFormula, AgreesWithTheCacheForEveryRing) {
  for (uint32_t target = 0; target < kTargets; ++target) {
    for (const TensorType type : kKvTypes) {
      const Packing packing = packing_of(static_cast<Target>(target), type);
      const CacheShape shape = {2, 9, 33};
      const SessionSizes sizes = {5000, 20, 3, false, 1, type};
      for (const uint32_t lookback : {0u, 100u, 600u, 2000u}) {
        const uint32_t positions = cache_positions(lookback, packing.nr, 5000, 20);
        EXPECT_EQ(evaluate(formula_of(packing, type, shape, lookback), kAxes, sizes)
                      .kv_cache_bytes.value(),
                  round_up(3 * CacheLayout(packing, shape, positions).bytes(), kArenaUnit).value());
      }
    }
  }
}

TEST(ArenaFormula, AddsUpItsParts) {
  ArenaFormula formula = formula_of({100, 0}, 20, 0, 8, 4, 2);
  formula.groups[0] = {0, UINT32_MAX, {1000, 10}, {}};
  formula.groups[1] = {0, 5, {3000, 70}, {}};
  const ArenaSizes sizes = evaluate(formula, kAxes, {2000, 7, 3, false, 2});
  EXPECT_EQ(sizes.session_bytes.value(), round_up(kSessionBytes + 3 * 2 * 16, 64).value());
  EXPECT_EQ(sizes.kv_cache_bytes.value(),
            round_up(3 * (250 * 1000 + 4 * 10 + 128 * 3000 + 2 * 70), 64).value());
  EXPECT_EQ(sizes.activation_bytes.value(), round_up(7 * 100 + 3 * 20 + 16, 64).value());
  const ArenaSizes all = evaluate(formula, kAxes, {2000, 7, 3, true, 2});
  EXPECT_EQ(all.activation_bytes.value(), round_up(7 * 100 + 7 * 20 + 16, 64).value());
  // Scores have a column for each position of the largest cache.
  EXPECT_EQ(sizes.scratch_bytes_per_thread.value(), round_up(4 * (2000 + 16 + 8) * 4, 64).value());
  EXPECT_EQ(sizes.scratch_bytes.value(), 2 * sizes.scratch_bytes_per_thread.value());
  EXPECT_EQ(sizes.total_bytes.value(), sizes.session_bytes.value() + sizes.kv_cache_bytes.value() +
                                           sizes.activation_bytes.value() +
                                           sizes.scratch_bytes.value());
  EXPECT_EQ(arena_bytes(formula, kAxes, {2000, 7, 3, false, 2}), sizes.total_bytes.value());
}

TEST(ArenaFormula, NeedsNoScratchWithoutAttention) {
  const ArenaSizes sizes = evaluate(formula_of({100, 0}, 0, 0, 8), kAxes, {300, 7, 1, false, 5});
  EXPECT_EQ(sizes.scratch_bytes.value(), 0u);
  EXPECT_EQ(sizes.kv_cache_bytes.value(), 0u);
}

// Ops run one after the other: what the largest of them needs is enough for all.
TEST(ArenaFormula, CoversTheScratchOfEveryOp) {
  ArenaFormula formula = formula_of({100, 30}, 0, 500, 8, 4, 1);
  formula.groups[0] = {0, UINT32_MAX, {1000, 10}, {}};
  const uint64_t scores = 4 * (64 + 16 + 8) * 4;
  ArenaSizes sizes = evaluate(formula, kAxes, {64, 7, 1, false, 3});
  EXPECT_EQ(sizes.scratch_bytes_of_rows.value(), round_up(7 * 30 + 16, 64).value());
  EXPECT_EQ(sizes.scratch_bytes_per_thread.value(), round_up(scores, 64).value());
  EXPECT_EQ(sizes.scratch_bytes.value(),
            round_up(7 * 30 + 16, 64).value() + 3 * round_up(scores, 64).value());
  formula.scratch_bytes_per_thread = 5000;
  sizes = evaluate(formula, kAxes, {64, 7, 1, false, 3});
  EXPECT_EQ(sizes.scratch_bytes_per_thread.value(), round_up(5000, 64).value());
}

TEST(ArenaFormula, CountsCachesOfTheTypeOfTheSession) {
  ArenaFormula formula = formula_of({}, 0, 0, 8, 4, 1);
  formula.groups[0] = {0, UINT32_MAX, {1000, 10}, {300, 5}};
  EXPECT_EQ(evaluate(formula, kAxes, {8, 1, 1}).kv_cache_bytes.value(), round_up(1010, 64).value());
  const SessionSizes in_int8 = {8, 1, 1, false, 1, TensorType::kInt8};
  EXPECT_EQ(evaluate(formula, kAxes, in_int8).kv_cache_bytes.value(), round_up(305, 64).value());
  // There is no arena for a type that no cache has.
  for (const TensorType type : {TensorType::kQ8, static_cast<TensorType>(kTensorTypes)}) {
    SessionSizes sizes = {8, 1, 1};
    sizes.kv_type = type;
    EXPECT_FALSE(evaluate(formula, kAxes, sizes).total_bytes.ok());
    EXPECT_EQ(arena_bytes(formula, kAxes, sizes), SIZE_MAX);
  }
}

TEST(ArenaFormula, GivesEveryPartAMultipleOfItsUnit) {
  for (uint32_t i = 1; i < 70; ++i) {
    ArenaFormula formula = formula_of({i, 5 * i}, 3 * i, 7 * i, 4, 4, 1);
    formula.groups[0] = {0, i, {4 * i, 4}, {}};
    const ArenaSizes sizes = evaluate(formula, kAxes, {i, i, i, true});
    for (const Checked part : {sizes.session_bytes, sizes.kv_cache_bytes, sizes.activation_bytes,
                               sizes.scratch_bytes_of_rows, sizes.scratch_bytes_per_thread}) {
      EXPECT_EQ(part.value() % kArenaUnit, 0u);
    }
  }
}

// Class token and prompt before the tokens, and the mean of all.
constexpr Axis kJoined[] = {{},
                            {AxisKind::kConstants, 0, 0, 3},
                            {AxisKind::kJoined, 1, 0, 0},
                            {AxisKind::kConstants, 0, 0, 1},
                            {AxisKind::kJoined, 3, 2, 0},
                            {AxisKind::kOne, 0, 0, 0},
                            {AxisKind::kAsked, 4, 0, 0}};

TEST(Axes, CountRowsFromTheirSources) {
  const auto rows = [](uint32_t tokens, uint32_t sequences, bool all) {
    const AxisRows found = rows_of_axes(kJoined, tokens, sequences, all);
    return std::vector<uint32_t>(found.of, found.of + std::size(kJoined));
  };
  EXPECT_EQ(rows(7, 1, false), (std::vector<uint32_t>{7, 3, 10, 1, 11, 1, 1}));
  EXPECT_EQ(rows(7, 1, true), (std::vector<uint32_t>{7, 3, 10, 1, 11, 1, 11}));
  EXPECT_EQ(rows(7, 2, true), (std::vector<uint32_t>{7, 6, 13, 2, 15, 2, 15}));
  EXPECT_EQ(rows(UINT32_MAX - 3, 1, true),
            (std::vector<uint32_t>{UINT32_MAX - 3, 3, UINT32_MAX, 1, UINT32_MAX, 1, UINT32_MAX}))
      << "more than can be counted";
  // A file may hold this axis before it is refused.
  const Axis cyclic[] = {{}, {AxisKind::kJoined, 1, 9, 0}};
  EXPECT_EQ(rows_of_axes(cyclic, 7, 1, true)[1], 0u);
}

// Returns the most windows over all ways to cut the tokens into sequences.
uint32_t most_windows(const Axis& axis, uint32_t tokens, uint32_t sequences) {
  uint32_t most = 0;
  for (uint32_t own = 0; own <= tokens && sequences != 0; ++own) {
    uint32_t windows = 0;
    const int64_t beyond = int64_t{own} - axis.window;
    if (own != 0 && beyond >= 0) windows = static_cast<uint32_t>(beyond / axis.stride) + 1;
    most = std::max(most, windows + most_windows(axis, tokens - own, sequences - 1));
  }
  return most;
}

TEST(Axes, HaveAllWindowsOfSequencesOfAnyLength) {
  for (const uint32_t stride : {1u, 2u, 3u, 5u}) {
    for (int32_t window = -4; window < 7; ++window) {
      const Axis axis = {.kind = AxisKind::kWindows, .stride = stride, .window = window};
      for (uint32_t tokens = 1; tokens < 12; ++tokens) {
        for (uint32_t sequences = 1; sequences < 4; ++sequences) {
          const uint32_t found = windows_of_rows(axis, tokens, sequences);
          const uint32_t expected = most_windows(axis, tokens, sequences);
          EXPECT_GE(found, expected);
          // Zeros around a sequence are less than a window, or there is one more at most for each.
          EXPECT_LE(found, expected + (window > 0 || sequences == 1 ? 0 : sequences)) << window;
        }
      }
    }
  }
  const Axis axes[] = {{}, {.kind = AxisKind::kWindows, .stride = 2, .window = 1}};
  EXPECT_EQ(rows_of_axes(axes, UINT32_MAX, 1, true)[1], (UINT32_MAX / 2) + 1);
  const Axis padded = {.kind = AxisKind::kWindows, .stride = 1, .window = -100};
  EXPECT_EQ(windows_of_rows(padded, UINT32_MAX - 50, 1), UINT32_MAX) << "more than can be counted";
  // A file may hold these axes before it is refused.
  EXPECT_EQ(windows_of_rows({.kind = AxisKind::kWindows}, 7, 1), 0u);
  EXPECT_EQ(windows_of_rows({.kind = AxisKind::kWindows, .stride = 1, .window = INT32_MIN}, 7, 1),
            0u);
}

TEST(ArenaFormula, CountsTheHistoryOfConvolutions) {
  ArenaFormula formula;
  formula.nr = 8;
  EXPECT_EQ(evaluate(formula, kAxes, {20, 5, 3}).kv_cache_bytes.value(), 0u);
  formula.history_bytes = 100;
  EXPECT_EQ(evaluate(formula, kAxes, {20, 5, 3}).kv_cache_bytes.value(),
            round_up(3 * 100 + 16, 64).value());
  formula.history_bytes = UINT32_MAX;
  EXPECT_EQ(evaluate(formula, kAxes, {20, 5, UINT32_MAX / 64}).total_bytes.ok(),
            sizeof(size_t) > sizeof(uint32_t));
  EXPECT_FALSE(evaluate(formula, kAxes, {20, 5, UINT32_MAX}).total_bytes.ok());
}

TEST(Axes, PartsShareTheAreaOfTheirConcatenation) {
  const uint32_t expected[] = {4, 4, 4, 4, 4, 5, 6};
  for (uint32_t i = 0; i < std::size(kJoined); ++i) EXPECT_EQ(area_of(kJoined, i), expected[i]);
}

TEST(ArenaFormula, CountsTheRowsOfEachAxis) {
  ArenaFormula formula;
  formula.nr = 8;
  formula.score_rows = 1;
  formula.group_count = 2;
  formula.groups[0] = {4, UINT32_MAX, {1000, 0}, {}};
  formula.groups[1] = {0, UINT32_MAX, {10, 0}, {}};
  formula.axes[4] = {100, 7};
  formula.axes[5] = {20, 900};
  formula.axes[6] = {3, 0};
  const ArenaSizes sizes = evaluate(formula, kJoined, {20, 5, 2});
  EXPECT_EQ(sizes.session_bytes.value(), round_up(kSessionBytes + 2 * 7 * 16, 64).value());
  EXPECT_EQ(sizes.kv_cache_bytes.value(), round_up(2 * 3 * 1010, 64).value())
      << "24 positions each";
  EXPECT_EQ(sizes.activation_bytes.value(), round_up(13 * 100 + 2 * 20 + 2 * 3 + 16, 64).value());
  EXPECT_EQ(sizes.scratch_bytes_of_rows.value(), round_up(2 * 900 + 16, 64).value());
  EXPECT_EQ(sizes.scratch_bytes_per_thread.value(), round_up((24 + 16 + 8) * 4, 64).value());
}

#if SIZE_MAX > UINT32_MAX
// Coefficients have 32 bits, so it takes sizes near their limit.
TEST(ArenaFormula, CatchesAnOverflowInEveryPart) {
  constexpr uint32_t kMany = UINT32_MAX;
  const auto with_cache = [](uint32_t per_panel, uint32_t per_page, uint32_t per_token = 0) {
    ArenaFormula formula = formula_of({per_token, 0}, 0, 0, 8, 0, 1);
    formula.groups[0] = {0, UINT32_MAX, {per_panel, per_page}, {}};
    return formula;
  };
  EXPECT_TRUE(evaluate(with_cache(1, 1, 1), kAxes, {kMany - 7, kMany, 1}).total_bytes.ok());
  EXPECT_TRUE(
      evaluate(formula_of({kMany, 0}, 0, 0, 8), kAxes, {1, kMany, 1}).activation_bytes.ok());
  EXPECT_FALSE(evaluate(formula_of({kMany, 0}, kMany, 0, 8), kAxes, {1, kMany, 1, true})
                   .activation_bytes.ok());
  EXPECT_FALSE(evaluate(with_cache(kMany, 0), kAxes, {kMany - 7, 1, kMany}).kv_cache_bytes.ok());
  EXPECT_FALSE(evaluate(with_cache(0, kMany), kAxes, {kMany - 7, 1, kMany}).kv_cache_bytes.ok());
  // Each part fits, but not their sum.
  const ArenaSizes sizes = evaluate(formula_of({kMany, kMany}, 0, 0, 8), kAxes, {1, kMany, 1});
  EXPECT_TRUE(sizes.scratch_bytes_of_rows.ok() && sizes.activation_bytes.ok());
  EXPECT_FALSE(sizes.total_bytes.ok());
  // Rows of scores; the most threads and positions there can be.
  ArenaFormula scores = with_cache(0, 0);
  scores.score_rows = kMany;
  EXPECT_FALSE(evaluate(scores, kAxes, {kMany - 7, 1, 1, false, kMany}).total_bytes.ok());
}
#endif

static_assert(arena_bytes(formula_of({4, 0}, 0, 0, 4), kAxes, {1, 1, 1}) == 512 + 64,
              "an application can evaluate it at compile time");

}  // namespace
}  // namespace arenite
