// SPDX-License-Identifier: Apache-2.0
// Verifies compiled masks: the sizes of their lists, the values of strips, the tile indices in
// maps, and that row_begin and row_end agree with the tiles.
#include <bit>
#include <cmath>

#include "core/needs.h"
#include "format/verify.h"

namespace arenite::format {
namespace {

bool verify_strip(const MaskView& mask, uint32_t index, const Refusal& refuse) {
  const uint32_t origin = mask.positions - 1;  // index of the value for key == query
  if (mask.lookback > origin || mask.lookahead > origin) {
    return refuse("a strip's band is wider than its positions", "masks.lookback", index,
                  mask.lookback, origin);
  }
  for (uint32_t i = 0; i < mask.values.size(); ++i) {
    const float value = mask.values[i];
    const bool within = i + mask.lookback >= origin && i <= origin + mask.lookahead;
    if (std::isnan(value) || value == INFINITY || (!within && value != -INFINITY)) {
      return refuse("a strip's value is not a mask value", "masks.values", i);
    }
  }
  if (!std::isfinite(mask.values[origin])) {
    return refuse("a strip must show each query its own position", "masks.values", origin);
  }
  return true;
}

// Returns the keys of a tile that are visible to a row: bit i for key tile_column * 32 + i.
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
  const uint32_t tiles = kTileMixed + static_cast<uint32_t>(mask.bits.size()) / kMaskTile;
  for (const uint16_t tile : mask.map) {
    if (tile >= tiles) {
      return refuse("a mask's map names a tile that does not exist", "masks.map", index, tile,
                    tiles);
    }
  }
  for (uint32_t row = 0; row < mask.positions; ++row) {
    if (!verify_row_range(mask, row, index, refuse)) return false;
  }
  return true;
}

// Returns the words of a strip (values), or of a tile mask without mixed tiles (map of uint16,
// row_begin, row_end). REQUIRES: positions <= kMaskPositionsMax, for tiles kTileMaskPositionsMax.
uint32_t least_words(MaskKind kind, uint32_t positions) {
  if (kind == MaskKind::kStrip) return 2 * positions - 1;
  const uint32_t side = div_up(positions, kMaskTile);
  return (side * side + 1) / 2 + 2 * positions;
}

// Verifies the header of a mask, and that its lists begin at word `begin` and lie within the
// model's mask words.
bool verify_record(const ModelReader& model, uint32_t index, uint32_t begin,
                   const Refusal& refuse) {
  const MaskRecord& mask = model.mask_record(index);
  constexpr MaskKind kLast = linked(Need::kPairMask) ? MaskKind::kPairs : MaskKind::kTiles;
  if (mask.kind > static_cast<uint32_t>(kLast)) {
    return refuse("a mask is of an unknown kind", "masks.kind", index, mask.kind,
                  static_cast<uint32_t>(kLast));
  }
  const MaskKind kind = static_cast<MaskKind>(mask.kind);
  const uint32_t most = kind == MaskKind::kTiles ? kTileMaskPositionsMax : kMaskPositionsMax;
  const bool is_band =
      kind == MaskKind::kBand || (linked(Need::kPairMask) && kind == MaskKind::kPairs);
  if (!is_band && (mask.positions == 0 || mask.positions > most)) {
    return refuse("a mask is empty or too large", "masks.positions", index, mask.positions, most);
  }
  const uint32_t least = is_band ? 0 : least_words(kind, mask.positions);
  const bool fits = kind == MaskKind::kTiles
                        ? mask.words >= least && (mask.words - least) % kMaskTile == 0
                        : mask.words == least;
  if (!fits) {
    return refuse("the lists of a mask have the wrong length", "masks.words", index, mask.words,
                  least);
  }
  if (mask.first_word != begin || mask.words > model.mask_words() - begin) {
    return refuse("the lists of masks are not contiguous", "masks.first_word", index,
                  mask.first_word, begin);
  }
  return true;
}

}  // namespace

bool verify_masks(const ModelReader& model, const Refusal& refuse) {
  uint32_t words = 0;
  for (uint32_t i = 0; i < model.masks(); ++i) {
    if (!verify_record(model, i, words, refuse)) return false;
    words += model.mask_record(i).words;
    const MaskView mask = model.mask(i);
    // verify_needs has refused masks of kinds that are not linked.
    if constexpr (linked(Need::kStripMask)) {
      if (mask.kind == MaskKind::kStrip && !verify_strip(mask, i, refuse)) return false;
    }
    if constexpr (linked(Need::kTileMask)) {
      if (mask.kind == MaskKind::kTiles && !verify_tiles(mask, i, refuse)) return false;
    }
  }
  if (words != model.mask_words()) {
    return refuse("mask words belong to no mask", "mask_words", 0, model.mask_words(), words);
  }
  return true;
}

}  // namespace arenite::format
