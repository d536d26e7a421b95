// SPDX-License-Identifier: Apache-2.0
// Attention masks: written out, compiled into what the runtime reads (a band, a strip or tiles),
// and the pairs of a query and a key that they show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/views.h"

namespace arenite::convert {

// [positions, positions]: may query row see key column?
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

// Bytes of the mask in a model file, without the fields around it.
size_t mask_bytes(const MaskView& mask);

// "causal", "causal window of 16", "tiles, 12 of 1024 stored", ...
std::string describe_mask(const MaskView& mask);

// Owns what a MaskView points to.
struct CompiledMask {
  MaskKind kind = MaskKind::kBand;
  uint32_t positions = 0;  // 0: any number (band, pairs)
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

// A band of any length; `positions` 0: any number.
CompiledMask band_mask(uint32_t lookback, uint32_t lookahead, uint32_t positions);

// Keys that each call says, of later ones or of none.
CompiledMask pair_mask(bool is_causal);

// Whether a query sees a key where a converter has to say so itself: half of them, not each its
// own, and as many as it takes for the first rows of any number to see one of theirs.
bool is_made_up_pair(uint32_t query, uint32_t key);

// A mask that a buffer of the author's model holds.
struct BufferMask {
  std::shared_ptr<const DenseMask> dense;
  std::string origin;  // the file and the tensor, for messages

  friend bool operator==(const BufferMask& a, const BufferMask& b) { return *a.dense == *b.dense; }
};

// A mask of a graph: keys by their distance or, until the pass compile-masks looks for structure in
// it, what the author's buffer shows.
using Mask = std::variant<CompiledMask, BufferMask>;

uint32_t positions_of(const Mask& mask);  // 0: any number
bool is_of_pairs(const Mask& mask);       // each call says which
bool is_causal(const Mask& mask);         // no key is later than a query that sees it
std::string describe(const Mask& mask);

// The smallest form that says exactly the same: a band where the visible distances are one range
// around 0, a strip where only the distance counts, tiles otherwise. Checks the result against
// `dense` with the runtime's own mask code. Throws InputError if a row is hidden whole or the mask
// is too large for its form; `origin` names where the mask comes from.
CompiledMask compile_mask(const DenseMask& dense, const std::string& origin);

// As tiles, whatever its structure. Throws as compile_mask does.
CompiledMask tile_mask(const DenseMask& dense, const std::string& origin);

// The mask of the first `positions` positions as the runtime applies it.
DenseMask expand_mask(const MaskView& mask, uint32_t positions);
// The same of any mask; a buffer's as it is. REQUIRES: it has so many positions.
DenseMask expand_mask(const Mask& mask, uint32_t positions);

// The visible pairs of a mask: counted, and drawn in characters.
class MaskPairs {
 public:
  // Of the first `positions` positions. What the mask points to must outlive this.
  // REQUIRES: 1 <= positions, and at most mask.positions where that is not 0.
  MaskPairs(const MaskView& mask, uint32_t positions);

  // How many pairs are visible. Fast for large masks: never writes them out.
  uint64_t visible() const;

  // A square of at most `cells_max` rows, one for each query and its keys from left to right:
  // '#' sees, '.' does not. A smaller picture of a larger mask has '+' where only some do.
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
  // Visible distances in [begin, end), where a distance is key - query + positions - 1.
  uint64_t count_distances(uint64_t begin, uint64_t end) const;

  MaskView mask_;
  uint64_t positions_;
  std::vector<uint32_t> visible_before_;  // strip: [2 * positions], how many lower distances show
};

}  // namespace arenite::convert
