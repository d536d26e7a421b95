// SPDX-License-Identifier: Apache-2.0
// The arena as a formula of a session's sizes: its coefficients are in the model file, plan_arena
// evaluates it, and a program evaluates it at compile time with the header that `arenite embed`
// writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/checked_math.h"
#include "arenite/language.h"
#include "arenite/tensor_type.h"

namespace arenite {

// Every part of an arena is a multiple of this.
inline constexpr uint64_t kArenaUnit = 64;

// Bytes at the start of every arena, whatever the pointer size: the session itself.
inline constexpr uint64_t kSessionBytes = 448;
// Bytes of state per sequence.
inline constexpr uint64_t kSequenceBytes = 16;
// Kernels may read this many bytes past the end of a row: slots and segments are padded by it.
inline constexpr uint32_t kReadAheadBytes = 16;
// Positions whose values lie together in a cache, with a row of zeros in front.
inline constexpr uint32_t kPagePositions = 512;
// Floats between two rows of scores beyond their length: keeps the rows of a block from falling
// into the same cache sets, and covers kReadAheadBytes.
inline constexpr uint64_t kScoreRowPadding = 16;

// Of a row in int8, as products with q8 and q4 weights read it: the numbers, padded, then zero
// point and scale.
constexpr uint64_t quantized_scratch_bytes(uint32_t columns) {
  return (uint64_t{columns} + 15) / 16 * 16 + 8;
}

// Bytes of a cache of one type, for one sequence.
struct CacheBytes {
  uint32_t per_panel = 0;  // of `nr` positions
  uint32_t per_page = 0;   // of kPagePositions positions

  friend constexpr bool operator==(const CacheBytes&, const CacheBytes&) = default;
};

// Caches that hold equally many positions, taken together.
struct CacheGroup {
  uint32_t lookback = 0;  // positions before a query that must be held; UINT32_MAX: all
  CacheBytes f32;         // where the session keeps keys and values so
  CacheBytes int8;

  constexpr const CacheBytes& bytes(TensorType kv_type) const {
    return kv_type == TensorType::kInt8 ? int8 : f32;
  }
  constexpr CacheBytes& bytes(TensorType kv_type) {
    return kv_type == TensorType::kInt8 ? int8 : f32;
  }
  friend constexpr bool operator==(const CacheGroup&, const CacheGroup&) = default;
};
inline constexpr uint32_t kCacheGroupsMax = 4;  // different lookbacks in a model

// Coefficients for one target of one model. Scratch is what an op needs while it runs: of all ops
// the largest counts.
struct ArenaFormula {
  uint32_t activation_bytes_per_token = 0;
  uint32_t activation_bytes_per_output = 0;
  uint32_t scratch_bytes_per_token = 0;   // rows that all threads share
  uint32_t scratch_bytes_per_thread = 0;  // of other ops than attention
  uint32_t nr = 0;
  uint32_t score_rows = 0;  // rows of scores per thread; 0 without attention
  uint32_t group_count = 0;
  CacheGroup groups[kCacheGroupsMax] = {};

  friend constexpr bool operator==(const ArenaFormula&, const ArenaFormula&) = default;
};

// What the formula is evaluated for.
struct SessionSizes {
  uint32_t positions_max = 0;  // tokens
  uint32_t tokens_max = 0;
  uint32_t sequences_max = 0;
  uint32_t outputs_max = 0;  // rows given out by one call
  uint32_t threads = 1;
  TensorType kv_type = TensorType::kF32;
};

// Rows of one call: its tokens, and `prefix_rows` of constants for each sequence that begins.
constexpr uint32_t rows_max(uint32_t prefix_rows, uint32_t tokens_max, uint32_t sequences_max) {
  if (prefix_rows == 0) return tokens_max;
  const Checked rows = tokens_max < sequences_max ? tokens_max : sequences_max;
  const size_t most = (Checked(tokens_max) + rows * prefix_rows).value();
  return most < UINT32_MAX ? static_cast<uint32_t>(most) : UINT32_MAX;
}

// Rows given out by one call: one for each of its rows, or one for each sequence that got tokens.
constexpr uint32_t outputs_max(bool each_token, uint32_t tokens_max, uint32_t sequences_max,
                               uint32_t prefix_rows = 0) {
  if (each_token) return rows_max(prefix_rows, tokens_max, sequences_max);
  return tokens_max < sequences_max ? tokens_max : sequences_max;
}

constexpr uint32_t value_pages(uint32_t positions) { return div_up(positions, kPagePositions); }

// Positions that a cache holds. One whose queries look `lookback` positions back at most is a ring
// of pages: those that any query of a call can see, and what shares a page with them.
constexpr uint32_t cache_positions(uint32_t lookback, uint32_t nr, const SessionSizes& sizes) {
  const Checked all = Checked(div_up(sizes.positions_max, nr)) * nr;
  const Checked seen = Checked(lookback) + sizes.tokens_max + (kPagePositions - 2);
  const Checked ring = Checked(seen.value() / kPagePositions + 1) * kPagePositions;
  return static_cast<uint32_t>(ring.value() < all.value() ? ring.value() : all.value());
}

struct ArenaSizes {
  Checked session_bytes = 0;
  Checked kv_cache_bytes = 0;
  Checked activation_bytes = 0;
  Checked scratch_bytes_of_rows = 0;  // shared by all threads
  Checked scratch_bytes_per_thread = 0;
  Checked scratch_bytes = 0;
  Checked total_bytes = 0;  // not ok() if it is too large, or a cache of this type is not supported
};

// `sizes` already include the rows of prefixes.
constexpr ArenaSizes evaluate_rows(const ArenaFormula& formula, const SessionSizes& sizes) {
  Checked cache_bytes = holds_cache(sizes.kv_type) ? 0 : UINT64_MAX;
  uint32_t score_columns = 0;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    const uint32_t positions = cache_positions(group.lookback, formula.nr, sizes);
    if (positions > score_columns) score_columns = positions;
    const CacheBytes& bytes = group.bytes(sizes.kv_type);
    cache_bytes = cache_bytes + Checked(positions / formula.nr) * bytes.per_panel +
                  Checked(value_pages(positions)) * bytes.per_page;
  }
  ArenaSizes arena;
  arena.session_bytes =
      round_up(Checked(kSessionBytes) + Checked(sizes.sequences_max) * kSequenceBytes, kArenaUnit);
  arena.kv_cache_bytes = round_up(Checked(sizes.sequences_max) * cache_bytes, kArenaUnit);
  arena.activation_bytes = round_up(
      Checked(sizes.tokens_max) * formula.activation_bytes_per_token +
          Checked(sizes.outputs_max) * formula.activation_bytes_per_output + kReadAheadBytes,
      kArenaUnit);
  const uint64_t after_rows = formula.scratch_bytes_per_token != 0 ? kReadAheadBytes : 0;
  arena.scratch_bytes_of_rows = round_up(
      Checked(sizes.tokens_max) * formula.scratch_bytes_per_token + after_rows, kArenaUnit);
  // A tile of nr columns for the product with one page of values, then rows of scores.
  const Checked attention_bytes = Checked(formula.score_rows) *
                                  (Checked(score_columns) + kScoreRowPadding + formula.nr) *
                                  sizeof(float);
  const bool is_most = attention_bytes.value() > formula.scratch_bytes_per_thread;
  arena.scratch_bytes_per_thread =
      round_up(is_most ? attention_bytes : formula.scratch_bytes_per_thread, kArenaUnit);
  arena.scratch_bytes =
      arena.scratch_bytes_of_rows + arena.scratch_bytes_per_thread * sizes.threads;
  arena.total_bytes =
      arena.session_bytes + arena.kv_cache_bytes + arena.activation_bytes + arena.scratch_bytes;
  return arena;
}

// Of a model whose sequences have so many rows before their tokens.
constexpr ArenaSizes evaluate(const ArenaFormula& formula, SessionSizes sizes,
                              uint32_t prefix_rows = 0) {
  sizes.tokens_max = rows_max(prefix_rows, sizes.tokens_max, sizes.sequences_max);
  const uint64_t positions = uint64_t{sizes.positions_max} + prefix_rows;
  sizes.positions_max = positions < UINT32_MAX ? static_cast<uint32_t>(positions) : UINT32_MAX;
  return evaluate_rows(formula, sizes);
}

// What plan_arena says of sizes that it accepts; SIZE_MAX where there is no such arena.
constexpr size_t arena_bytes(const ArenaFormula& formula, const SessionSizes& sizes,
                             uint32_t prefix_rows = 0) {
  const uint64_t bytes = evaluate(formula, sizes, prefix_rows).total_bytes.value();
  return bytes < SIZE_MAX ? static_cast<size_t>(bytes) : SIZE_MAX;
}

}  // namespace arenite
