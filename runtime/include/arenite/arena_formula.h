// SPDX-License-Identifier: Apache-2.0
// Computes the exact size of an arena from the sizes of a session. The coefficients are in the
// model file. plan_arena evaluates the formula at run time; a program evaluates the formula at
// compile time with the header written by `arenite embed`:
//
//     // One sequence of at most 512 tokens, with at most 64 tokens per call.
//     constexpr arenite::SessionSizes sizes{512, 64, 1};
//     constexpr size_t bytes = arenite::evaluate(formula, axes, sizes).total_bytes.value();
//
// Sizes that exceed the address space make total_bytes not ok().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/checked_math.h"
#include "arenite/language.h"
#include "arenite/tensor_type.h"

namespace arenite {

// Size and alignment unit of every part of an arena, in bytes.
inline constexpr uint64_t kArenaUnit = 64;

// Bytes of the Session object at the start of every arena, for any pointer size.
inline constexpr uint64_t kSessionBytes = 448;
// Bytes of state per sequence and axis.
inline constexpr uint64_t kSequenceBytes = 16;
// Bytes of state per input, for every input except the first.
inline constexpr uint64_t kInputBytes = 64;
// Kernels may read this many bytes past the end of a row, so slots and segments are padded by it.
inline constexpr uint32_t kReadAheadBytes = 16;
// Positions per page of a value cache. Each page starts with a row of zeros.
inline constexpr uint32_t kPagePositions = 512;
// Upper limit for positions. Mask arithmetic also uses one past the last position.
inline constexpr uint32_t kPositionsLimit = UINT32_MAX - kPagePositions;
// Floats of padding between two rows of attention scores. They keep the rows of a block from
// mapping to the same cache sets, and cover kReadAheadBytes.
inline constexpr uint64_t kScoreRowPadding = 16;

// Returns the bytes of one activation row quantized to int8, the input of products with q8 and q4
// weights: int8 [columns rounded up to 16], then the zero point (4 bytes) and the scale (4 bytes).
constexpr uint64_t quantized_scratch_bytes(uint32_t columns) {
  return (uint64_t{columns} + 15) / 16 * 16 + 8;
}

// Defines how many rows an activation has, and what each row stands for.
enum class AxisKind : uint32_t {
  kInput,      // one row per token that a call brings for input `source`
  kConstants,  // `rows` constant rows, added with the first tokens of a sequence
  kJoined,     // concatenation: the rows of `source`, then those of `other`
  kOne,        // one row for each sequence that has rows on `source`
  kAsked,      // all rows of `source` or the last one of each sequence, as the session asks
  kWindows,    // one row per window over the rows of `source`, within each sequence
  kPixels,     // one row per 2-D window over the pixels of an image on `source`
  kBlocks,     // up to `rows` rows of `source` at a time; ops run over them block by block
  kTurns,      // `rows` consecutive rows for each row of `source`
};
inline constexpr uint32_t kAxisKinds = 9;  // number of kinds

// Returns whether the axis has rows per sequence or per requested output, not one for each token.
constexpr bool is_output_axis(AxisKind kind) {
  return kind == AxisKind::kOne || kind == AxisKind::kAsked;
}

// Defines where the rows of an axis come from. Axis 0 belongs to input 0.
struct Axis {
  AxisKind kind = AxisKind::kInput;  // decides which of the other members count
  uint32_t source = 0;               // an earlier axis; kInput: an input
  uint32_t other = 0;  // kJoined: the second axis, an earlier one; images: pixels per line
  // kConstants, kBlocks, kTurns: `rows` of AxisKind. Images: pixels of one image, line by line.
  uint32_t rows = 0;
  // kWindows: `stride` is the step between windows in rows of the source, and `window` is their
  // span less the zero padding at both ends, so that n rows have (n - window) / stride + 1 windows.
  // The op has dilation and padding. kPixels: `stride` is 65536 * step in columns + step in lines.
  uint32_t stride = 0;
  int32_t window = 0;  // rows; 0 or less with much padding

  // Returns whether each sequence is an image, whose size is fixed.
  constexpr bool is_image() const {
    return kind == AxisKind::kPixels || (kind == AxisKind::kInput && rows != 0);
  }

  friend constexpr bool operator==(const Axis&, const Axis&) = default;
};
inline constexpr uint32_t kAxesMax = 15;   // per model
inline constexpr uint32_t kInputsMax = 4;  // per model

// Returns the inputs whose tokens add rows to `axis`, as a bit set.
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

// Returns the number of inputs that the axes belong to.
constexpr uint32_t count_inputs(std::span<const Axis> axes) {
  uint32_t inputs = 0;
  for (const Axis& axis : axes) inputs += axis.kind == AxisKind::kInput ? 1 : 0;
  return inputs;
}

// Tokens by input.
struct InputTokens {
  uint32_t of[kInputsMax] = {};  // by index of the input

  constexpr InputTokens() = default;  // none
  // Sets the same number for every input.
  constexpr InputTokens(uint32_t all) : of{all, all, all, all} {}  // NOLINT: implicit
  // Returns the tokens of one input.
  constexpr uint32_t operator[](uint32_t input) const { return of[input]; }
};

// Upper limit for strides, window lengths and the zero padding at each end of a sequence.
inline constexpr int32_t kWindowRowsMax = 1 << 16;

// Returns the maximum number of windows over `rows` rows of at most `sequences` sequences;
// UINT32_MAX if it exceeds 32 bits. If the first window of a sequence needs fewer rows than the
// following ones, many short sequences have more windows than one long sequence.
constexpr uint32_t windows_of_rows(const Axis& axis, uint32_t rows, uint32_t sequences) {
  const bool is_known = axis.stride != 0 && axis.stride <= uint32_t{kWindowRowsMax} &&
                        axis.window >= -2 * kWindowRowsMax && axis.window <= kWindowRowsMax;
  const uint32_t least = axis.window > 1 ? static_cast<uint32_t>(axis.window) : 1;
  if (!is_known || rows < least) return 0;
  uint32_t begun = 1;  // sequences
  if (axis.stride >= least) begun = rows / least < sequences ? rows / least : sequences;
  // `begun` first windows need at least begun * window rows; each further stride adds one window.
  const int64_t left = int64_t{rows} - int64_t{begun} * axis.window;
  if (left > int64_t{UINT32_MAX}) return UINT32_MAX;
  const uint32_t more = static_cast<uint32_t>(left) / axis.stride;
  return more <= UINT32_MAX - begun ? begun + more : UINT32_MAX;
}

// Rows by axis; UINT32_MAX if they exceed 32 bits.
struct AxisRows {
  uint32_t of[kAxesMax] = {};  // by index of the axis

  // Returns the rows of one axis.
  constexpr uint32_t operator[](uint32_t axis) const { return of[axis]; }
};

// Returns the rows of each axis for `tokens` new tokens per input, spread over at most
// `sequences_max` sequences that start with them. With `all_rows`, the session requests all rows of
// kAsked rather than the last ones.
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

// Returns the axis whose part of the activation area holds the slots of `axis`. The parts of a
// concatenation share the area of the whole, which has at least as many rows.
constexpr uint32_t area_of(std::span<const Axis> axes, uint32_t axis) {
  for (uint32_t i = axis + 1; i < axes.size() && axes[axis].kind != AxisKind::kOne; ++i) {
    const bool is_part =
        axes[i].kind == AxisKind::kJoined && (axes[i].source == axis || axes[i].other == axis);
    if (is_part) axis = i;
  }
  return axis;
}

// Bytes per row of an axis. `scratch` is the maximum over the ops of the axis.
struct AxisBytes {
  uint32_t activations = 0;  // all slots together
  uint32_t scratch = 0;      // shared by all threads

  friend constexpr bool operator==(const AxisBytes&, const AxisBytes&) = default;
};

// Bytes of the caches of one element type, for one sequence.
struct CacheBytes {
  uint32_t per_panel = 0;  // a panel has `nr` positions
  uint32_t per_page = 0;   // a page has kPagePositions positions

  friend constexpr bool operator==(const CacheBytes&, const CacheBytes&) = default;
};

// Caches that hold the same number of positions, counted together.
struct CacheGroup {
  uint32_t axis = 0;      // axis of keys and values
  uint32_t lookback = 0;  // positions before a query that must be kept; UINT32_MAX: all
  CacheBytes f32;         // for sessions with float32 caches
  CacheBytes int8;        // for sessions with int8 caches

  // Returns `int8` for kInt8, else `f32`.
  constexpr const CacheBytes& bytes(TensorType kv_type) const {
    return kv_type == TensorType::kInt8 ? int8 : f32;
  }
  // Returns `int8` for kInt8, else `f32`, as a mutable reference.
  constexpr CacheBytes& bytes(TensorType kv_type) {
    return kv_type == TensorType::kInt8 ? int8 : f32;
  }
  friend constexpr bool operator==(const CacheGroup&, const CacheGroup&) = default;
};
inline constexpr uint32_t kCacheGroupsMax = 4;  // different axes and lookbacks in a model

// The coefficients for one target of one model. `nr` is the panel width of its kernels, in columns.
// Ops reuse scratch, so only the op with the largest need counts.
struct ArenaFormula {
  AxisBytes axes[kAxesMax] = {};            // by index of the axis
  uint32_t scratch_bytes_per_thread = 0;    // maximum over the ops other than attention
  uint32_t history_bytes = 0;               // per sequence; see the function history_bytes
  uint32_t nr = 0;                          // columns of a panel
  uint32_t score_rows = 0;                  // rows of scores per thread; 0 without attention
  uint32_t group_count = 0;                 // elements of `groups` in use
  CacheGroup groups[kCacheGroupsMax] = {};  // all caches

  friend constexpr bool operator==(const ArenaFormula&, const ArenaFormula&) = default;
};

// Sizes of one input: the length of the longest sequence, and the maximum tokens per call over all
// sequences.
struct InputSizes {
  uint32_t positions_max = 0;  // tokens of the longest sequence
  uint32_t tokens_max = 0;     // tokens of one call, over all sequences
};

// Sizes of a session. Zero is not resolved to a default here, unlike in SessionOptions.
struct SessionSizes {
  uint32_t positions_max = 0;  // longest sequence of input 0, in tokens
  uint32_t tokens_max = 0;     // most tokens of input 0 in one call, over all sequences
  uint32_t sequences_max = 0;  // sequences that the session holds at once
  bool all_rows = false;       // kAsked axes have all rows; else the last one per sequence
  uint32_t threads = 1;        // as ParallelFor::threads
  TensorType kv_type = TensorType::kF32;   // kF32 or kInt8
  InputSizes others[kInputsMax - 1] = {};  // the inputs after the first

  // Returns the longest sequence of each input.
  constexpr InputTokens positions() const {
    InputTokens all = positions_max;
    for (uint32_t i = 1; i < kInputsMax; ++i) all.of[i] = others[i - 1].positions_max;
    return all;
  }
  // Returns the maximum tokens of one call, by input.
  constexpr InputTokens tokens() const {
    InputTokens all = tokens_max;
    for (uint32_t i = 1; i < kInputsMax; ++i) all.of[i] = others[i - 1].tokens_max;
    return all;
  }
};

// Returns how many pages a value cache of `positions` positions has.
constexpr uint32_t value_pages(uint32_t positions) { return div_up(positions, kPagePositions); }

// Returns the positions that a cache holds for a sequence of at most `positions_max` positions,
// where one call adds at most `rows_max` rows. With a bounded `lookback` the cache is a ring of
// pages: it covers all positions that any query of a call can see, rounded up to whole pages.
constexpr uint32_t cache_positions(uint32_t lookback, uint32_t nr, uint32_t positions_max,
                                   uint32_t rows_max) {
  const Checked all = Checked(div_up(positions_max, nr)) * nr;
  const Checked seen = Checked(lookback) + rows_max + (kPagePositions - 2);
  const Checked ring = Checked(seen.value() / kPagePositions + 1) * kPagePositions;
  return static_cast<uint32_t>(ring.value() < all.value() ? ring.value() : all.value());
}

// Returns the bytes at the end of the KV cache part, for all sequences: past rows that causal
// convolutions read, and the work space of sound streams.
constexpr Checked history_bytes(const ArenaFormula& formula, uint32_t sequences) {
  if (formula.history_bytes == 0) return 0;
  return round_up(Checked(sequences) * formula.history_bytes + kReadAheadBytes, kArenaUnit);
}

// Parameters of the formula besides rows.
struct ArenaCounts {
  uint32_t sequences_max;  // as in SessionSizes
  uint32_t threads;        // as in SessionSizes
  TensorType kv_type;      // as in SessionSizes
  uint32_t axes;           // number of axes of the model
  uint32_t inputs;         // number of inputs of the model
};

// Bytes of each part of an arena, as in ArenaPlan.
struct ArenaSizes {
  Checked session_bytes = 0;             // the Session and the state of its sequences
  Checked kv_cache_bytes = 0;            // packed keys and values, and history_bytes
  Checked activation_bytes = 0;          // results of ops
  Checked scratch_bytes_of_rows = 0;     // shared by all threads
  Checked scratch_bytes_per_thread = 0;  // rows of scores, or the work space of another op
  Checked scratch_bytes = 0;             // of the rows and of all threads
  Checked total_bytes = 0;  // not ok(): exceeds the address space, or kv_type is unsupported
};

// Evaluates the formula for given rows: `positions` are the rows of one sequence at full length,
// `rows` the maximum rows of one call, and `history` is the result of history_bytes().
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
  // attention: score_rows x (scores of all held positions + padding + a tile of nr columns for P V)
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

// Evaluates the formula for a model with these axes. REQUIRES: axes.size() <= kAxesMax, and at
// least one axis has kind kInput.
constexpr ArenaSizes evaluate(const ArenaFormula& formula, std::span<const Axis> axes,
                              const SessionSizes& sizes) {
  return evaluate_rows(formula,
                       {sizes.sequences_max, sizes.threads, sizes.kv_type,
                        static_cast<uint32_t>(axes.size()), count_inputs(axes)},
                       rows_of_axes(axes, sizes.positions(), 1, sizes.all_rows),
                       rows_of_axes(axes, sizes.tokens(), sizes.sequences_max, sizes.all_rows),
                       history_bytes(formula, sizes.sequences_max));
}

// Returns ArenaPlan::total_bytes for sizes that plan_arena accepts; SIZE_MAX if they exceed the
// address space.
constexpr size_t arena_bytes(const ArenaFormula& formula, std::span<const Axis> axes,
                             const SessionSizes& sizes) {
  const uint64_t bytes = evaluate(formula, axes, sizes).total_bytes.value();
  return bytes < SIZE_MAX ? static_cast<size_t>(bytes) : SIZE_MAX;
}

}  // namespace arenite
