// SPDX-License-Identifier: Apache-2.0
// The arena as a formula: what a model file stores, what plan_arena evaluates and what a program
// can evaluate at compile time from an embedded model's header.
#pragma once

#include <cstdint>

#include "core/checked_math.h"
#include "core/packing.h"

namespace arenite {

inline constexpr uint64_t kArenaUnit = 64;

// Bytes at the start of every arena, whatever the pointer size: the session itself.
inline constexpr uint64_t kSessionBytes = 448;
// Bytes of state per sequence.
inline constexpr uint64_t kSequenceBytes = 16;
// Floats between two rows of scores beyond their length: keeps the rows of a block from falling
// into the same cache sets, and covers kReadAheadBytes.
inline constexpr uint64_t kScoreRowPadding = 16;

// Caches that hold equally many positions, taken together. Bytes are per sequence.
struct CacheGroup {
  uint32_t behind = 0;           // positions before a query that must be held; UINT32_MAX: all
  uint64_t bytes_per_panel = 0;  // for each panel of `nr` positions
  uint64_t bytes_per_page = 0;   // for each page of kPagePositions positions

  friend constexpr bool operator==(const CacheGroup&, const CacheGroup&) = default;
};
inline constexpr uint32_t kCacheGroupsMax = 4;

// Coefficients for one target of one model.
struct ArenaFormula {
  uint64_t activation_bytes_per_token = 0;
  uint64_t activation_bytes_per_output = 0;
  uint32_t nr = 0;
  uint32_t score_rows = 0;  // rows of scores per thread; 0 without attention
  uint32_t group_count = 0;
  CacheGroup groups[kCacheGroupsMax] = {};

  friend constexpr bool operator==(const ArenaFormula&, const ArenaFormula&) = default;
};

// What the formula is evaluated for.
struct SessionSizes {
  uint32_t positions_max = 0;
  uint32_t tokens_max = 0;
  uint32_t sequences_max = 0;
  uint32_t outputs_max = 0;  // rows given out by one call
  uint32_t threads = 1;
};

// Positions that a cache holds. One whose queries look `behind` positions back at most is a ring
// of pages: those that any query of a call can see, and what shares a page with them.
constexpr uint32_t cache_positions(uint32_t behind, uint32_t nr, const SessionSizes& sizes) {
  const uint64_t all = (uint64_t{sizes.positions_max} + nr - 1) / nr * nr;
  const uint64_t seen = uint64_t{behind} + sizes.tokens_max;
  const uint64_t ring = ((seen + kPagePositions - 2) / kPagePositions + 1) * kPagePositions;
  return static_cast<uint32_t>(ring < all ? ring : all);
}

struct ArenaSizes {
  Checked session_bytes = 0;
  Checked kv_cache_bytes = 0;
  Checked activation_bytes = 0;
  Checked scratch_bytes_per_thread = 0;
  Checked scratch_bytes = 0;
  Checked total_bytes = 0;
};

constexpr ArenaSizes evaluate(const ArenaFormula& formula, const SessionSizes& sizes) {
  Checked cache_bytes = 0;
  uint32_t score_columns = 0;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    const uint32_t positions = cache_positions(group.behind, formula.nr, sizes);
    if (positions > score_columns) score_columns = positions;
    cache_bytes = cache_bytes + Checked(positions / formula.nr) * group.bytes_per_panel +
                  Checked(value_pages(positions)) * group.bytes_per_page;
  }
  ArenaSizes arena;
  arena.session_bytes =
      round_up(Checked(kSessionBytes) + Checked(sizes.sequences_max) * kSequenceBytes, kArenaUnit);
  arena.kv_cache_bytes = round_up(Checked(sizes.sequences_max) * cache_bytes, kArenaUnit);
  arena.activation_bytes = round_up(
      Checked(sizes.tokens_max) * formula.activation_bytes_per_token +
          Checked(sizes.outputs_max) * formula.activation_bytes_per_output + kReadAheadBytes,
      kArenaUnit);
  // A tile of nr columns for the product with one page of values, then rows of scores.
  arena.scratch_bytes_per_thread =
      round_up(Checked(formula.score_rows) *
                   (Checked(score_columns) + kScoreRowPadding + formula.nr) * sizeof(float),
               kArenaUnit);
  arena.scratch_bytes = arena.scratch_bytes_per_thread * sizes.threads;
  arena.total_bytes =
      arena.session_bytes + arena.kv_cache_bytes + arena.activation_bytes + arena.scratch_bytes;
  return arena;
}

}  // namespace arenite
