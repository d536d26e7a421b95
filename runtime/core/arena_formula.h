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

// Coefficients for one target of one model.
struct ArenaFormula {
  uint64_t activation_bytes_per_token = 0;
  uint64_t kv_bytes_per_panel = 0;  // per sequence, for each panel of `nr` positions
  uint64_t kv_bytes_per_page = 0;   // per sequence, for each page of kPagePositions positions
  uint32_t nr = 0;
  uint32_t score_rows = 0;  // rows of scores per thread; 0 without attention

  friend constexpr bool operator==(const ArenaFormula&, const ArenaFormula&) = default;
};

struct ArenaSizes {
  Checked session_bytes = 0;
  Checked kv_cache_bytes = 0;
  Checked activation_bytes = 0;
  Checked scratch_bytes_per_thread = 0;
  Checked scratch_bytes = 0;
  Checked total_bytes = 0;
};

constexpr ArenaSizes evaluate(const ArenaFormula& formula, uint32_t positions_max,
                              uint32_t tokens_max, uint32_t sequences_max, uint32_t threads) {
  const Checked panels = div_up(positions_max, formula.nr);
  ArenaSizes sizes;
  sizes.session_bytes =
      round_up(Checked(kSessionBytes) + Checked(sequences_max) * kSequenceBytes, kArenaUnit);
  sizes.kv_cache_bytes = round_up(
      Checked(sequences_max) * (panels * formula.kv_bytes_per_panel +
                                Checked(value_pages(positions_max)) * formula.kv_bytes_per_page),
      kArenaUnit);
  sizes.activation_bytes = round_up(
      Checked(tokens_max) * formula.activation_bytes_per_token + kReadAheadBytes, kArenaUnit);
  // Rows of scores, then a tile of nr columns for the product with one page of values.
  sizes.scratch_bytes_per_thread =
      round_up(Checked(formula.score_rows) * (panels * formula.nr + kScoreRowPadding + formula.nr) *
                   sizeof(float),
               kArenaUnit);
  sizes.scratch_bytes = sizes.scratch_bytes_per_thread * threads;
  sizes.total_bytes =
      sizes.session_bytes + sizes.kv_cache_bytes + sizes.activation_bytes + sizes.scratch_bytes;
  return sizes;
}

}  // namespace arenite
