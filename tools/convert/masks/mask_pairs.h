// SPDX-License-Identifier: Apache-2.0
// The pairs of a query and a key that a compiled mask shows: counted, and drawn in characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mask_view.h"

namespace arenite::convert {

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
