// SPDX-License-Identifier: Apache-2.0
// Bands are arithmetic, strips a running count over the distances, tiles a count of bits.
#include "convert/masks/masks.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace arenite::convert {
namespace {

uint64_t triangle(uint64_t side) { return side * (side + 1) / 2; }

// Bits [begin, end) of a tile's row. REQUIRES: begin < end <= kMaskTile.
uint32_t bit_range(uint32_t begin, uint32_t end) {
  const uint32_t below_end = end == kMaskTile ? UINT32_MAX : (1u << end) - 1;
  return below_end & ~((1u << begin) - 1);
}

}  // namespace

MaskPairs::MaskPairs(const MaskView& mask, uint32_t positions)
    : mask_(mask), positions_(positions) {
  if (mask.kind != MaskKind::kStrip) return;
  const size_t first = mask.positions - positions;
  visible_before_.assign(1, 0);
  for (size_t i = 0; i + 1 < 2 * size_t{positions}; ++i) {
    visible_before_.push_back(visible_before_.back() +
                              (std::isinf(mask.values[first + i]) ? 0 : 1));
  }
}

uint64_t MaskPairs::count_distances(uint64_t begin, uint64_t end) const {
  if (mask_.kind == MaskKind::kStrip) {
    return visible_before_[static_cast<size_t>(end)] - visible_before_[static_cast<size_t>(begin)];
  }
  const uint64_t origin = positions_ - 1;
  const uint64_t first = origin > mask_.lookback ? origin - mask_.lookback : 0;
  const uint64_t last = origin + mask_.lookahead;
  const uint64_t low = std::max(begin, first);
  const uint64_t high = std::min(end, last + 1);
  return low < high ? high - low : 0;
}

uint64_t MaskPairs::count_tiles(Range queries, Range keys) const {
  uint64_t count = 0;
  for (uint32_t query = queries.begin; query < queries.end; ++query) {
    const size_t map_row = size_t{query / kMaskTile} * mask_.tile_columns();
    for (uint32_t key = keys.begin; key < keys.end;) {
      const uint32_t column = key / kMaskTile;
      const uint32_t next = std::min((column + 1) * kMaskTile, keys.end);
      const uint16_t tile = mask_.map[map_row + column];
      uint32_t bits = tile == kTileVisible ? UINT32_MAX : 0;
      if (tile >= kTileMixed) {
        bits = mask_.bits[size_t{tile - uint32_t{kTileMixed}} * kMaskTile + query % kMaskTile];
      }
      bits &= bit_range(key % kMaskTile, next - column * kMaskTile);
      count += static_cast<uint64_t>(std::popcount(bits));
      key = next;
    }
  }
  return count;
}

uint64_t MaskPairs::visible() const {
  if (mask_.kind == MaskKind::kTiles) {
    const Range all{0, static_cast<uint32_t>(positions_)};
    return count_tiles(all, all);
  }
  if (mask_.kind == MaskKind::kBand) {
    const uint64_t last = positions_ - 1;
    const uint64_t hidden_ahead = mask_.lookahead < last ? triangle(last - mask_.lookahead) : 0;
    const uint64_t hidden_behind = mask_.lookback < last ? triangle(last - mask_.lookback) : 0;
    return positions_ * positions_ - hidden_ahead - hidden_behind;
  }
  uint64_t pairs = 0;
  for (uint64_t i = 0; i + 1 < 2 * positions_; ++i) {
    pairs += count_distances(i, i + 1) * std::min(i + 1, 2 * positions_ - 1 - i);
  }
  return pairs;
}

MaskPairs::Shade MaskPairs::shade_by_distance(Range queries, Range keys) const {
  const uint64_t begin = keys.begin + positions_ - queries.end;
  const uint64_t end = keys.end + positions_ - 1 - queries.begin;
  const uint64_t count = count_distances(begin, end);
  return count == 0 ? Shade::kNone : count == end - begin ? Shade::kAll : Shade::kSome;
}

MaskPairs::Shade MaskPairs::shade(Range queries, Range keys) const {
  if (mask_.kind != MaskKind::kTiles) return shade_by_distance(queries, keys);
  const uint64_t count = count_tiles(queries, keys);
  const uint64_t cells = uint64_t{queries.end - queries.begin} * (keys.end - keys.begin);
  return count == 0 ? Shade::kNone : count == cells ? Shade::kAll : Shade::kSome;
}

std::vector<std::string> MaskPairs::draw(uint32_t cells_max) const {
  const uint64_t cells = std::min<uint64_t>(cells_max, positions_);
  const auto range = [&](uint64_t cell) {
    return Range{static_cast<uint32_t>(cell * positions_ / cells),
                 static_cast<uint32_t>((cell + 1) * positions_ / cells)};
  };
  std::vector<std::string> rows;
  for (uint64_t query = 0; query < cells; ++query) {
    std::string row;
    for (uint64_t key = 0; key < cells; ++key) {
      row += static_cast<char>(shade(range(query), range(key)));
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace arenite::convert
