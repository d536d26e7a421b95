// SPDX-License-Identifier: Apache-2.0
// Verifies compiled masks: sizes, tile numbers, and that ranges say what the tiles say.
#include <bit>
#include <cmath>

#include "core/needs.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

bool verify_strip(const MaskView& mask, uint32_t index, const Refusal& refuse) {
  if (mask.positions == 0 || mask.positions > kMaskPositionsMax) {
    return refuse("a strip mask has no sensible size", "masks.positions", index, mask.positions,
                  kMaskPositionsMax);
  }
  const uint32_t origin = mask.positions - 1;  // where the distance is 0
  if (mask.values.size() != uint64_t{2} * mask.positions - 1) {
    return refuse("a strip has 2 * positions - 1 values", "masks.values", index, mask.values.size(),
                  uint64_t{2} * mask.positions - 1);
  }
  if (mask.behind > origin || mask.ahead > origin) {
    return refuse("a strip's band is wider than its positions", "masks.behind", index, mask.behind,
                  origin);
  }
  for (uint32_t i = 0; i < mask.values.size(); ++i) {
    const float value = mask.values[i];
    const bool within = i + mask.behind >= origin && i <= origin + mask.ahead;
    if (std::isnan(value) || value == INFINITY || (!within && value != -INFINITY)) {
      return refuse("a strip's value is not a mask value", "masks.values", i);
    }
  }
  if (!std::isfinite(mask.values[origin])) {
    return refuse("a strip must show each query its own position", "masks.values", origin);
  }
  return true;
}

// One bit per key of the tile: is it visible for this row?
uint32_t tile_row(const MaskView& mask, uint32_t row, uint32_t tile_column) {
  const uint16_t tile = mask.map[size_t{row / kMaskTile} * mask.tile_columns() + tile_column];
  uint32_t visible = 0;
  if (tile == kTileVisible) visible = UINT32_MAX;
  if (tile >= kTileMixed) {
    visible = mask.bits[size_t{tile - uint32_t{kTileMixed}} * kMaskTile + row % kMaskTile];
  }
  const uint32_t keys = mask.positions - tile_column * kMaskTile;
  return keys < kMaskTile ? visible & ((1u << keys) - 1) : visible;
}

bool verify_row_range(const MaskView& mask, uint32_t row, uint32_t mask_index,
                      const Refusal& refuse) {
  uint32_t begin = mask.positions;
  uint32_t end = 0;
  for (uint32_t column = 0; column < mask.tile_columns(); ++column) {
    const uint32_t visible = tile_row(mask, row, column);
    if (visible == 0) continue;
    const uint32_t first_key = column * kMaskTile;
    if (begin == mask.positions) {
      begin = first_key + static_cast<uint32_t>(std::countr_zero(visible));
    }
    end = first_key + kMaskTile - static_cast<uint32_t>(std::countl_zero(visible));
  }
  if (end == 0) return refuse("a mask hides a whole row", "masks.map", row);
  if (mask.row_begin[row] != begin) {
    return refuse("a row's range differs from its tiles", "masks.row_begin", mask_index,
                  mask.row_begin[row], begin);
  }
  if (mask.row_end[row] != end) {
    return refuse("a row's range differs from its tiles", "masks.row_end", mask_index,
                  mask.row_end[row], end);
  }
  return true;
}

bool verify_tiles(const MaskView& mask, uint32_t index, const Refusal& refuse) {
  if (mask.positions == 0 || mask.positions > kTileMaskPositionsMax) {
    return refuse("a tile mask has no sensible size", "masks.positions", index, mask.positions,
                  kTileMaskPositionsMax);
  }
  const uint64_t tiles = uint64_t{mask.tile_columns()} * mask.tile_columns();
  if (mask.map.size() != tiles) {
    return refuse("a tile map does not cover its mask", "masks.map", index, mask.map.size(), tiles);
  }
  if (mask.bits.size() % kMaskTile != 0) {
    return refuse("mixed tiles have 32 rows each", "masks.bits", index, mask.bits.size(),
                  kMaskTile);
  }
  if (mask.row_begin.size() != mask.positions || mask.row_end.size() != mask.positions) {
    return refuse("a tile mask has a range for each row", "masks.row_begin", index,
                  mask.row_begin.size(), mask.positions);
  }
  const uint64_t mixed = mask.bits.size() / kMaskTile;
  for (const uint16_t tile : mask.map) {
    if (tile >= kTileMixed + mixed) {
      return refuse("a tile map names a mixed tile that is not there", "masks.map", index, tile,
                    kTileMixed + mixed);
    }
  }
  for (uint32_t row = 0; row < mask.positions; ++row) {
    if (!verify_row_range(mask, row, index, refuse)) return false;
  }
  return true;
}

// Bytes of the lists of a mask, in the metadata.
uint64_t list_bytes(const MaskView& mask) {
  return mask.values.size_bytes() + mask.map.size_bytes() + mask.bits.size_bytes() +
         mask.row_begin.size_bytes() + mask.row_end.size_bytes();
}

}  // namespace

bool verify_masks(const ModelReader& model, uint64_t metadata_bytes, const Refusal& refuse) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < model.masks(); ++i) {
    if (!model.mask_known(i)) {
      return refuse("a mask is of a kind that this version does not know", "masks.body", i);
    }
    const MaskView mask = model.mask(i);
    // A small file could name one large list in many masks, and verifying it would take that often.
    bytes += list_bytes(mask);
    if (bytes > metadata_bytes) {
      return refuse("masks share their lists", "masks", i, bytes, metadata_bytes);
    }
    // verify_needs refused what is not linked.
    if constexpr (linked(Need::kStripMask)) {
      if (mask.kind == MaskKind::kStrip && !verify_strip(mask, i, refuse)) return false;
    }
    if constexpr (linked(Need::kTileMask)) {
      if (mask.kind == MaskKind::kTiles && !verify_tiles(mask, i, refuse)) return false;
    }
    const bool bounded = mask.positions != 0;
    if (bounded && (model.positions_max() == 0 || model.positions_max() > mask.positions)) {
      return refuse("a mask is smaller than the model's context", "masks.positions", i,
                    mask.positions, model.positions_max());
    }
  }
  return true;
}

}  // namespace arenite::format
