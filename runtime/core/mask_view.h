// SPDX-License-Identifier: Apache-2.0
// A compiled attention mask, as it lies in the model file.
#pragma once

#include <cstdint>
#include <span>

namespace arenite {

enum class MaskKind : uint8_t { kBand, kStrip, kTiles };

inline constexpr uint32_t kUnlimited = UINT32_MAX;
inline constexpr uint32_t kMaskTile = 32;  // rows and columns of a tile: one row is one uint32_t
inline constexpr uint16_t kTileHidden = 0;
inline constexpr uint16_t kTileVisible = 1;
inline constexpr uint16_t kTileMixed = 2;  // and above: mixed tile number 0, 1, ...

// Which keys a query sees. Band and strip depend on the distance alone:
//   visible within  query - lookback <= key <= query + lookahead,
// and a strip adds values[key - query + positions - 1] to the score. Tiles hold any mask.
struct MaskView {
  MaskKind kind = MaskKind::kBand;
  uint32_t positions = 0;  // rows and columns; 0: any number (band only)
  uint32_t lookback = kUnlimited;
  uint32_t lookahead = kUnlimited;
  std::span<const float> values;        // strip: [2 * positions - 1]; kReadAheadBytes follow
  std::span<const uint16_t> map;        // tiles: [row tiles, column tiles]
  std::span<const uint32_t> bits;       // tiles: [mixed tiles, kMaskTile]
  std::span<const uint32_t> row_begin;  // tiles: [positions], the first visible key
  std::span<const uint32_t> row_end;    // tiles: [positions], one past the last visible key

  uint32_t tile_columns() const { return (positions + kMaskTile - 1) / kMaskTile; }
};

}  // namespace arenite
