// SPDX-License-Identifier: Apache-2.0
// Reads a compiled mask for one query: its range of keys, and what to add to its scores.
#pragma once

#include <cfloat>
#include <cstdint>

#include "core/mask_view.h"
#include "core/needs.h"
#include "kernels/kernel_set.h"

namespace arenite {

// Keys [begin, end).
struct KeyRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// The keys that query `position` may see among the first `keys`. Empty only for a tile mask that
// shows this query nothing but later keys.
KeyRange visible_keys(const MaskView& mask, uint32_t position, uint32_t keys);

// Whether scores of hidden keys become -infinity by an addition, as only a strip's do.
inline bool hides_by_adding(const MaskView& mask) {
  return linked(Need::kStripMask) && mask.kind == MaskKind::kStrip;
}

// What a tile mask makes of the scores of hidden keys: their weight is 0 beside any larger score.
inline constexpr float kHiddenScore = -FLT_MAX;

// What the mask adds to the score of one of the visible_keys: -infinity where it hides the key.
float mask_term(const MaskView& mask, uint32_t position, uint32_t key);

// Applies the mask to scores of query `position`; scores[i] is that of key range.begin + i. Hidden
// keys become kHiddenScore in a tile mask and -infinity (or NaN, if their scores were not finite)
// in a strip; a band has no work to do. Scores that lie in hidden tiles need not be initialised.
void apply_mask(const KernelSet& kernels, const MaskView& mask, uint32_t position, KeyRange range,
                float* scores);

// The next run of tile columns, within `range`, that any query of [first, last] sees: the keys for
// which scores must be computed. Other masks are one run. Empty at the end.
// REQUIRES: range.begin is where the last run ended, or where the block begins.
KeyRange next_visible_run(const MaskView& mask, uint32_t first, uint32_t last, KeyRange range);

}  // namespace arenite
