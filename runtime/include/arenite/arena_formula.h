// SPDX-License-Identifier: Apache-2.0
// The arena as a formula of a session's sizes: its coefficients are in the model file, plan_arena
// evaluates it, and a program evaluates it at compile time with the header that `arenite embed`
// writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/checked_math.h"
#include "arenite/language.h"
#include "arenite/tensor_type.h"

namespace arenite {

// Every part of an arena is a multiple of this.
inline constexpr uint64_t kArenaUnit = 64;

// Bytes at the start of every arena, whatever the pointer size: the session itself.
inline constexpr uint64_t kSessionBytes = 448;
// Bytes of state per sequence and axis.
inline constexpr uint64_t kSequenceBytes = 16;
// Bytes of state of each input but the first.
inline constexpr uint64_t kInputBytes = 64;
// Kernels may read this many bytes past the end of a row: slots and segments are padded by it.
inline constexpr uint32_t kReadAheadBytes = 16;
// Positions whose values lie together in a cache, with a row of zeros in front.
inline constexpr uint32_t kPagePositions = 512;
// One past the last position must still be a position, for the arithmetic of masks.
inline constexpr uint32_t kPositionsLimit = UINT32_MAX - kPagePositions;
// Floats between two rows of scores beyond their length: keeps the rows of a block from falling
// into the same cache sets, and covers kReadAheadBytes.
inline constexpr uint64_t kScoreRowPadding = 16;

// Of a row in int8, as products with q8 and q4 weights read it: the numbers, padded, then zero
// point and scale.
constexpr uint64_t quantized_scratch_bytes(uint32_t columns) {
  return (uint64_t{columns} + 15) / 16 * 16 + 8;
}

// What the rows of an activation are.
enum class AxisKind : uint32_t {
  kInput,      // the tokens that a call brings for input `source`
  kConstants,  // `rows` rows, which come with the first tokens of a sequence
  kJoined,     // the rows of `source`, then those of `other`
  kOne,        // one for each sequence that has rows on `source`
  kAsked,      // all rows of `source`, or the last one of each sequence, as the session asks
  kWindows,    // one for each window over the rows of `source`, of each sequence
  kPixels,     // one for each window over the pixels of an image, which `source` has
  kBlocks,     // at most `rows` of those of `source`, which ops make block after block
  kTurns,      // `rows` for each of those of `source`, in turn
};
inline constexpr uint32_t kAxisKinds = 9;

// Rows of which a call gives some, whatever its tokens are.
constexpr bool is_of_outputs(AxisKind kind) {
  return kind == AxisKind::kOne || kind == AxisKind::kAsked;
}

// Axis 0 is that of input 0; `source` and `other` are axes before this one, but of an input.
struct Axis {
  AxisKind kind = AxisKind::kInput;
  uint32_t source = 0;
  uint32_t other = 0;  // of images: rows in a line
  // Of constants, of a block, and in turn; of images all of one image, line by line.
  uint32_t rows = 0;
  // Of windows: rows of the source from one to the next, and those that one sees without the zeros
  // before and after a sequence. What zeros there are, and how windows look, is their op's. Of
  // pixels: lines of the source from one to the next, and 65536 times the columns.
  uint32_t stride = 0;
  int32_t window = 0;

  // Whether each sequence is an image, whose size is then known.
  constexpr bool is_image() const {
    return kind == AxisKind::kPixels || (kind == AxisKind::kInput && rows != 0);
  }

  friend constexpr bool operator==(const Axis&, const Axis&) = default;
};
inline constexpr uint32_t kAxesMax = 8;    // of a model
inline constexpr uint32_t kInputsMax = 4;  // of a model

// The inputs whose tokens the rows of an axis come with, as a bit set.
constexpr uint32_t inputs_of(std::span<const Axis> axes, uint32_t axis) {
  uint32_t inputs[kAxesMax] = {};
  for (uint32_t i = 0; i <= axis && i < axes.size() && i < kAxesMax; ++i) {
    const Axis& own = axes[i];
    const auto of = [&](uint32_t source) { return source < i ? inputs[source] : 0; };
    inputs[i] =
        own.kind == AxisKind::kInput ? uint32_t{1} << own.source % kInputsMax : of(own.source);
    if (own.kind == AxisKind::kJoined) inputs[i] |= of(own.other);
  }
  return axis < kAxesMax ? inputs[axis] : 0;
}

// How many inputs these axes are of.
constexpr uint32_t count_inputs(std::span<const Axis> axes) {
  uint32_t inputs = 0;
  for (const Axis& axis : axes) inputs += axis.kind == AxisKind::kInput ? 1 : 0;
  return inputs;
}

// A number of tokens for each input.
struct InputTokens {
  uint32_t of[kInputsMax] = {};

  constexpr InputTokens() = default;
  constexpr InputTokens(uint32_t all) : of{all, all, all, all} {}  // NOLINT: implicit
  constexpr uint32_t operator[](uint32_t input) const { return of[input]; }
};

// Strides, what windows span, and zeros on one side of a sequence.
inline constexpr int32_t kWindowRowsMax = 1 << 16;

// The most windows that so many rows have which are of `sequences` at most; UINT32_MAX: more than
// can be counted. Where a sequence's first window takes fewer rows than the next ones, many short
// sequences have more of them than a long one.
constexpr uint32_t windows_of_rows(const Axis& axis, uint32_t rows, uint32_t sequences) {
  const bool is_known = axis.stride != 0 && axis.stride <= uint32_t{kWindowRowsMax} &&
                        axis.window >= -2 * kWindowRowsMax && axis.window <= kWindowRowsMax;
  const uint32_t least = axis.window > 1 ? static_cast<uint32_t>(axis.window) : 1;
  if (!is_known || rows < least) return 0;
  uint32_t begun = 1;  // sequences
  if (axis.stride >= least) begun = rows / least < sequences ? rows / least : sequences;
  // `begun` windows take rows / begun at most, and each stride that is left is one more.
  const int64_t left = int64_t{rows} - int64_t{begun} * axis.window;
  if (left > int64_t{UINT32_MAX}) return UINT32_MAX;
  const uint32_t more = static_cast<uint32_t>(left) / axis.stride;
  return more <= UINT32_MAX - begun ? begun + more : UINT32_MAX;
}

// Rows of each axis; UINT32_MAX: more than can be counted.
struct AxisRows {
  uint32_t of[kAxesMax] = {};

  constexpr uint32_t operator[](uint32_t axis) const { return of[axis]; }
};

// The rows that all axes have where at most `sequences` begin, each with tokens, and with so many
// of each input together. `all_rows` is what sessions ask for.
constexpr AxisRows rows_of_axes(std::span<const Axis> axes, const InputTokens& tokens,
                                uint32_t sequences_max, bool all_rows) {
  AxisRows rows;
  uint32_t sequences_of[kAxesMax] = {};
  for (size_t i = 0; i < axes.size() && i < kAxesMax; ++i) {
    const Axis& axis = axes[i];
    const auto rows_on = [&](uint32_t source) { return source < i ? rows[source] : 0; };
    const uint32_t of_input = axis.source < kInputsMax ? tokens[axis.source] : 0;
    uint32_t sequences = axis.source < i ? sequences_of[axis.source] : 0;
    if (axis.kind == AxisKind::kInput) {
      sequences = of_input < sequences_max ? of_input : sequences_max;
    }
    sequences_of[i] = sequences;
    Checked count = sequences;
    if (axis.kind == AxisKind::kInput) count = of_input;
    if (axis.kind == AxisKind::kConstants) count = Checked(sequences) * axis.rows;
    if (axis.kind == AxisKind::kTurns) count = Checked(rows_on(axis.source)) * axis.rows;
    if (axis.kind == AxisKind::kJoined) {
      count = Checked(rows_on(axis.source)) + rows_on(axis.other);
    }
    if (axis.kind == AxisKind::kAsked && all_rows) count = rows_on(axis.source);
    if (axis.kind == AxisKind::kBlocks) {
      count = rows_on(axis.source) < axis.rows ? rows_on(axis.source) : axis.rows;
    }
    if (axis.kind == AxisKind::kWindows) {
      count = windows_of_rows(axis, rows_on(axis.source), sequences);
    }
    if (axis.kind == AxisKind::kPixels) {
      const uint32_t of_image = axis.source < i ? axes[axis.source].rows : 0;
      count = of_image == 0 ? Checked(0) : Checked(rows_on(axis.source) / of_image) * axis.rows;
    }
    rows.of[i] = count.value() < UINT32_MAX ? static_cast<uint32_t>(count.value()) : UINT32_MAX;
  }
  return rows;
}

// The axis in whose part of the activations the slots of `axis` lie: rows that are joined lie where
// the whole does, which has as many.
constexpr uint32_t area_of(std::span<const Axis> axes, uint32_t axis) {
  for (uint32_t i = axis + 1; i < axes.size() && axes[axis].kind != AxisKind::kOne; ++i) {
    const bool is_part =
        axes[i].kind == AxisKind::kJoined && (axes[i].source == axis || axes[i].other == axis);
    if (is_part) axis = i;
  }
  return axis;
}

// What an axis takes for each of its rows. Of all ops the one that needs most scratch counts.
struct AxisBytes {
  uint32_t activations = 0;
  uint32_t scratch = 0;  // shared by all threads

  friend constexpr bool operator==(const AxisBytes&, const AxisBytes&) = default;
};

// Bytes of a cache of one type, for one sequence.
struct CacheBytes {
  uint32_t per_panel = 0;  // of `nr` positions
  uint32_t per_page = 0;   // of kPagePositions positions

  friend constexpr bool operator==(const CacheBytes&, const CacheBytes&) = default;
};

// Caches that hold equally many positions, taken together.
struct CacheGroup {
  uint32_t axis = 0;      // of keys and values
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
inline constexpr uint32_t kCacheGroupsMax = 4;  // different axes and lookbacks in a model

// Coefficients for one target of one model. Scratch is what an op needs while it runs: of all ops
// the largest counts.
struct ArenaFormula {
  AxisBytes axes[kAxesMax] = {};
  uint32_t scratch_bytes_per_thread = 0;  // of other ops than attention
  uint32_t history_bytes = 0;             // rows that convolutions look back on, of each sequence
  uint32_t nr = 0;
  uint32_t score_rows = 0;  // rows of scores per thread; 0 without attention
  uint32_t group_count = 0;
  CacheGroup groups[kCacheGroupsMax] = {};

  friend constexpr bool operator==(const ArenaFormula&, const ArenaFormula&) = default;
};

// Of an input: the most tokens of a sequence, and in one call.
struct InputSizes {
  uint32_t positions_max = 0;
  uint32_t tokens_max = 0;
};

// What the formula is evaluated for.
struct SessionSizes {
  uint32_t positions_max = 0;  // tokens of input 0
  uint32_t tokens_max = 0;
  uint32_t sequences_max = 0;
  bool all_rows = false;  // given out where the model leaves it open; else the last ones
  uint32_t threads = 1;
  TensorType kv_type = TensorType::kF32;
  InputSizes others[kInputsMax - 1] = {};  // of the inputs after the first

  constexpr InputTokens positions() const {
    InputTokens all = positions_max;
    for (uint32_t i = 1; i < kInputsMax; ++i) all.of[i] = others[i - 1].positions_max;
    return all;
  }
  constexpr InputTokens tokens() const {
    InputTokens all = tokens_max;
    for (uint32_t i = 1; i < kInputsMax; ++i) all.of[i] = others[i - 1].tokens_max;
    return all;
  }
};

constexpr uint32_t value_pages(uint32_t positions) { return div_up(positions, kPagePositions); }

// Positions that a cache holds, of a sequence that has `positions_max`, where a call has `rows_max`
// rows. One whose queries look `lookback` positions back at most is a ring of pages: those that any
// query of a call can see, and what shares a page with them.
constexpr uint32_t cache_positions(uint32_t lookback, uint32_t nr, uint32_t positions_max,
                                   uint32_t rows_max) {
  const Checked all = Checked(div_up(positions_max, nr)) * nr;
  const Checked seen = Checked(lookback) + rows_max + (kPagePositions - 2);
  const Checked ring = Checked(seen.value() / kPagePositions + 1) * kPagePositions;
  return static_cast<uint32_t>(ring.value() < all.value() ? ring.value() : all.value());
}

// Rows that convolutions look back on, of all sequences: the end of the caches.
constexpr Checked history_bytes(const ArenaFormula& formula, uint32_t sequences) {
  if (formula.history_bytes == 0) return 0;
  return round_up(Checked(sequences) * formula.history_bytes + kReadAheadBytes, kArenaUnit);
}

// Of a model and a session, besides rows.
struct ArenaCounts {
  uint32_t sequences_max;
  uint32_t threads;
  TensorType kv_type;
  uint32_t axes;
  uint32_t inputs;
};

struct ArenaSizes {
  Checked session_bytes = 0;
  Checked kv_cache_bytes = 0;
  Checked activation_bytes = 0;
  Checked scratch_bytes_of_rows = 0;  // shared by all threads
  Checked scratch_bytes_per_thread = 0;
  Checked scratch_bytes = 0;
  Checked total_bytes = 0;  // not ok() if it is too large, or a cache of this type is not supported
};

// For the rows that axes have: `positions` a whole sequence, and `rows` one call at most; `history`
// is what history_bytes() says.
constexpr ArenaSizes evaluate_rows(const ArenaFormula& formula, const ArenaCounts& sizes,
                                   const AxisRows& positions, const AxisRows& rows,
                                   const Checked& history) {
  Checked cache_bytes = holds_cache(sizes.kv_type) ? 0 : UINT64_MAX;
  uint32_t score_columns = 0;
  for (uint32_t i = 0; i < formula.group_count; ++i) {
    const CacheGroup& group = formula.groups[i];
    const uint32_t held =
        cache_positions(group.lookback, formula.nr, positions[group.axis], rows[group.axis]);
    if (held > score_columns) score_columns = held;
    const CacheBytes& bytes = group.bytes(sizes.kv_type);
    cache_bytes = cache_bytes + Checked(held / formula.nr) * bytes.per_panel +
                  Checked(value_pages(held)) * bytes.per_page;
  }
  ArenaSizes arena;
  const uint32_t others = (sizes.inputs - 1) * static_cast<uint32_t>(kInputBytes);
  arena.session_bytes = round_up(Checked(static_cast<uint32_t>(kSessionBytes) + others) +
                                     Checked(sizes.sequences_max) * (sizes.axes * kSequenceBytes),
                                 kArenaUnit);
  arena.kv_cache_bytes = round_up(Checked(sizes.sequences_max) * cache_bytes, kArenaUnit) + history;
  Checked activations = kReadAheadBytes;
  Checked scratch = 0;
  for (uint32_t i = 0; i < sizes.axes; ++i) {
    activations = activations + Checked(rows[i]) * formula.axes[i].activations;
    const Checked own = Checked(rows[i]) * formula.axes[i].scratch;
    if (own.value() > scratch.value()) scratch = own;
  }
  arena.activation_bytes = round_up(activations, kArenaUnit);
  arena.scratch_bytes_of_rows =
      round_up(scratch.value() == 0 ? scratch : scratch + kReadAheadBytes, kArenaUnit);
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

// Of a model with these axes, at most kAxesMax, of which one is of an input at least.
constexpr ArenaSizes evaluate(const ArenaFormula& formula, std::span<const Axis> axes,
                              const SessionSizes& sizes) {
  return evaluate_rows(formula,
                       {sizes.sequences_max, sizes.threads, sizes.kv_type,
                        static_cast<uint32_t>(axes.size()), count_inputs(axes)},
                       rows_of_axes(axes, sizes.positions(), 1, sizes.all_rows),
                       rows_of_axes(axes, sizes.tokens(), sizes.sequences_max, sizes.all_rows),
                       history_bytes(formula, sizes.sequences_max));
}

// What plan_arena says of sizes that it accepts; SIZE_MAX where there is no such arena.
constexpr size_t arena_bytes(const ArenaFormula& formula, std::span<const Axis> axes,
                             const SessionSizes& sizes) {
  const uint64_t bytes = evaluate(formula, axes, sizes).total_bytes.value();
  return bytes < SIZE_MAX ? static_cast<size_t>(bytes) : SIZE_MAX;
}

}  // namespace arenite
