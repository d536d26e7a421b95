// SPDX-License-Identifier: Apache-2.0
// Applies attention masks to scores. Bands and strips are computed; tile masks are looked up.
#include "ops/attention_block.h"

#if defined(__ARM_FEATURE_MVE) && !defined(__clang__)
#pragma GCC optimize("O2")  // the kernels of attention are so fast that code around them counts
#endif

#include <cmath>

#include "core/needs.h"

namespace arenite {
namespace {

bool is_tiles(const MaskView& mask) {
  return linked(Need::kTileMask) && mask.kind == MaskKind::kTiles;
}

uint16_t tile_at(const MaskView& mask, uint32_t row, uint32_t key) {
  return mask.map[size_t{row / kMaskTile} * mask.tile_columns() + key / kMaskTile];
}

uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Returns a bit for each key of the tile: 1 if row `position` sees it.
uint32_t visible_in_tile(const MaskView& mask, uint32_t position, uint16_t tile) {
  if (tile < kTileMixed) return tile == kTileVisible ? UINT32_MAX : 0;
  return mask.bits[size_t{tile - uint32_t{kTileMixed}} * kMaskTile + position % kMaskTile];
}

// Returns the strip's values for query `position`, beginning with that of `key`.
const float* strip_value(const MaskView& mask, uint32_t position, uint32_t key) {
  return mask.values.data() + (mask.positions - 1 + key - position);
}

void apply_tiles(const MaskView& mask, uint32_t position, KeyRange range, float* scores) {
  for (uint32_t key = range.begin; key < range.end;) {
    const uint32_t tile_end = min((key / kMaskTile + 1) * kMaskTile, range.end);
    const uint16_t tile = tile_at(mask, position, key);
    if (tile == kTileVisible) {
      key = tile_end;
      continue;
    }
    const uint32_t visible = visible_in_tile(mask, position, tile);
    for (; key < tile_end; ++key) {
      if ((visible >> (key % kMaskTile) & 1u) == 0) scores[key - range.begin] = kHiddenScore;
    }
  }
}

}  // namespace

float mask_term(const MaskView& mask, uint32_t position, uint32_t key) {
  if (hides_by_adding(mask)) return *strip_value(mask, position, key);
  if (!is_tiles(mask)) return 0.0f;
  const uint32_t visible = visible_in_tile(mask, position, tile_at(mask, position, key));
  return (visible >> (key % kMaskTile) & 1u) != 0 ? 0.0f : -INFINITY;
}

KeyRange visible_keys(const MaskView& mask, uint32_t position, uint32_t keys) {
  if (is_tiles(mask)) {
    return {mask.row_begin[position], min(mask.row_end[position], keys)};
  }
  return keys_of_band(mask, position, keys);
}

void apply_mask(const KernelSet& kernels, const MaskView& mask, uint32_t position, KeyRange range,
                float* scores) {
  if (is_tiles(mask)) {
    apply_tiles(mask, position, range, scores);
  } else if (hides_by_adding(mask)) {
    kernels.add((range.end - range.begin) * sizeof(float), scores,
                strip_value(mask, position, range.begin), scores);
  }
}

KeyRange next_visible_run(const MaskView& mask, uint32_t first, uint32_t last, KeyRange range) {
  if (!is_tiles(mask)) return range;
  const auto hidden = [&](uint32_t key) {
    for (uint32_t row = first - first % kMaskTile; row <= last; row += kMaskTile) {
      if (tile_at(mask, row, key) != kTileHidden) return false;
    }
    return true;
  };
  const auto next_tile = [&](uint32_t key) {
    return min((key / kMaskTile + 1) * kMaskTile, range.end);
  };
  uint32_t begin = range.begin;
  while (begin < range.end && hidden(begin)) begin = next_tile(begin);
  uint32_t end = begin;
  while (end < range.end && !hidden(end)) end = next_tile(end);
  return {begin, end};
}

}  // namespace arenite
