// SPDX-License-Identifier: Apache-2.0
// Attention masks: dense, compiled to the runtime's forms (band, strip or tiles), and inspected as
// pairs of a query and a key.
//
//   DenseMask dense(8);                                           // set(query, key, true) ...
//   const CompiledMask mask = compile_mask(dense, "'m.pt'");
//   mask.describe();                                              // "causal window of 4"
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/views.h"

namespace arenite::convert {

// A mask [positions, positions]: the keys (columns) that each query (row) may attend to.
struct DenseMask {
  uint32_t positions = 0;
  std::vector<bool> visible;

  DenseMask() = default;
  explicit DenseMask(uint32_t positions_in)
      : positions(positions_in), visible(size_t{positions_in} * positions_in) {}

  bool at(uint32_t query, uint32_t key) const { return visible[size_t{query} * positions + key]; }
  void set(uint32_t query, uint32_t key, bool value) {
    visible[size_t{query} * positions + key] = value;
  }

  friend bool operator==(const DenseMask&, const DenseMask&) = default;
};

// Bytes of the mask in a model file, without its fixed fields.
size_t mask_bytes(const MaskView& mask);

// Describes a mask: "causal", "causal window of 16", "tiles, 12 of 1024 stored", ...
std::string describe_mask(const MaskView& mask);

// Owns the arrays that a MaskView points to.
struct CompiledMask {
  MaskKind kind = MaskKind::kBand;
  uint32_t positions = 0;  // 0: unlimited (band, pairs)
  uint32_t lookback = kUnlimited;
  uint32_t lookahead = kUnlimited;
  std::vector<float> values;
  std::vector<uint16_t> map;
  std::vector<uint32_t> bits;
  std::vector<uint32_t> row_begin;
  std::vector<uint32_t> row_end;

  MaskView view() const;
  size_t bytes() const { return mask_bytes(view()); }
  std::string describe() const { return describe_mask(view()); }

  friend bool operator==(const CompiledMask&, const CompiledMask&) = default;
};

// A query sees keys from `lookback` positions before it to `lookahead` after it. `positions` 0:
// unlimited.
CompiledMask band_mask(uint32_t lookback, uint32_t lookahead, uint32_t positions);

// For calls that pass the visible pairs; a causal mask also hides later keys.
CompiledMask pair_mask(bool is_causal);

// Defines a deterministic pair mask for checks: shows about half of the pairs, does not show every
// query its own position, but always shows key query / 2, so that each of the first n queries sees
// one of the first n keys.
bool is_made_up_pair(uint32_t query, uint32_t key);

// A mask that is stored as a buffer in the author's model.
struct BufferMask {
  std::shared_ptr<const DenseMask> dense;
  std::string origin;  // file and tensor, for messages

  friend bool operator==(const BufferMask& a, const BufferMask& b) { return *a.dense == *b.dense; }
};

// A mask of a graph: compiled, or the author's buffer until the pass compile-masks finds its
// structure.
using Mask = std::variant<CompiledMask, BufferMask>;

uint32_t positions_of(const Mask& mask);  // 0: unlimited
bool is_of_pairs(const Mask& mask);       // whether each call passes the visible pairs
bool is_causal(const Mask& mask);         // no query sees a later key
std::string describe(const Mask& mask);

// Compiles a mask to the smallest form that is exactly equal: a band if the visible distances are
// one range around 0, a strip if visibility depends only on the distance, else tiles. Verifies the
// result with the runtime's own mask code. Throws InputError if a row is completely hidden or the
// mask is too large for its form; `origin` names the source of the mask.
CompiledMask compile_mask(const DenseMask& dense, const std::string& origin);

// Compiles to tiles, whatever the structure. Throws InputError as compile_mask does.
CompiledMask tile_mask(const DenseMask& dense, const std::string& origin);

// Expands a mask for the first `positions` positions, as the runtime applies it.
DenseMask expand_mask(const MaskView& mask, uint32_t positions);
// Expands any mask; returns a buffer's mask unchanged. REQUIRES: the mask has `positions`
// positions.
DenseMask expand_mask(const Mask& mask, uint32_t positions);

// Counts and draws the visible pairs of a mask.
class MaskPairs {
 public:
  // Covers the first `positions` positions. The arrays of the mask must outlive this object.
  // REQUIRES: 1 <= positions, and at most mask.positions where that is not 0.
  MaskPairs(const MaskView& mask, uint32_t positions);

  // Counts the visible pairs without expanding the mask, so large masks are fast.
  uint64_t visible() const;

  // Draws a square of at most `cells_max` rows, one row per query with its keys from left to right:
  // '#' visible, '.' hidden. If a cell covers several pairs, '+' means that only some are visible.
  std::vector<std::string> draw(uint32_t cells_max) const;

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  enum class Shade : char { kNone = '.', kSome = '+', kAll = '#' };

  Shade shade(Range queries, Range keys) const;
  Shade shade_by_distance(Range queries, Range keys) const;
  uint64_t count_tiles(Range queries, Range keys) const;
  // Counts visible distances in [begin, end), where a distance is key - query + positions - 1.
  uint64_t count_distances(uint64_t begin, uint64_t end) const;

  MaskView mask_;
  uint64_t positions_;
  std::vector<uint32_t> visible_before_;  // strip: [2 * positions], visible distances below each
};

}  // namespace arenite::convert
