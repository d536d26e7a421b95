// SPDX-License-Identifier: Apache-2.0
// Finds structure in a dense mask, from the cheapest form to the most general, and counts visible
// pairs: bands by arithmetic, strips by a running count over distances, tiles by counting bits.
#include "convert/masks/masks.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include "convert/files/error.h"
#include "core/packing.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"
#include "ops/attention_block.h"

namespace arenite::convert {
namespace {

void check_rows(const DenseMask& dense, const std::string& origin) {
  if (dense.positions == 0) throw InputError("{}: the mask is empty", origin);
  for (uint32_t row = 0; row < dense.positions; ++row) {
    bool seen = false;
    for (uint32_t key = 0; key < dense.positions && !seen; ++key) seen = dense.at(row, key);
    refuse_if(!seen,
              "{}: the mask hides every key of row {} of {}: expected at least one "
              "visible key in each row",
              origin, row, dense.positions);
  }
}

// Returns visible[distance + positions - 1] if visibility depends only on the distance key - query.
std::optional<std::vector<bool>> by_distance(const DenseMask& dense) {
  const uint32_t n = dense.positions;
  std::vector<bool> visible(2 * size_t{n} - 1);
  for (uint32_t key = 0; key < n; ++key) visible[key + n - 1] = dense.at(0, key);
  for (uint32_t row = 0; row < n; ++row) visible[n - 1 - row] = dense.at(row, 0);
  for (uint32_t row = 0; row < n; ++row) {
    for (uint32_t key = 0; key < n; ++key) {
      if (dense.at(row, key) != visible[key + n - 1 - row]) return std::nullopt;
    }
  }
  return visible;
}

// REQUIRES: distance 0 is visible.
CompiledMask compile_distances(const std::vector<bool>& visible, uint32_t positions) {
  const size_t origin = positions - 1;
  size_t first = 0;
  size_t last = visible.size() - 1;
  while (!visible[first]) ++first;
  while (!visible[last]) --last;
  const bool one_range =
      std::all_of(visible.begin() + static_cast<ptrdiff_t>(first),
                  visible.begin() + static_cast<ptrdiff_t>(last) + 1, [](bool v) { return v; });
  CompiledMask mask;
  mask.positions = positions;
  mask.lookback = static_cast<uint32_t>(origin - first);
  mask.lookahead = static_cast<uint32_t>(last - origin);
  if (one_range) {
    if (mask.lookback == origin) mask.lookback = kUnlimited;
    if (mask.lookahead == origin && origin != 0) mask.lookahead = kUnlimited;
    return mask;
  }
  mask.kind = MaskKind::kStrip;
  for (const bool v : visible) mask.values.push_back(v ? 0.0f : -INFINITY);
  return mask;
}

// Returns one tile as 32 words, with keys beyond the mask hidden.
std::vector<uint32_t> tile_bits(const DenseMask& dense, uint32_t row_begin, uint32_t key_begin) {
  std::vector<uint32_t> bits(kMaskTile, 0);
  for (uint32_t r = 0; r < kMaskTile && row_begin + r < dense.positions; ++r) {
    for (uint32_t k = 0; k < kMaskTile && key_begin + k < dense.positions; ++k) {
      if (dense.at(row_begin + r, key_begin + k)) bits[r] |= 1u << k;
    }
  }
  return bits;
}

CompiledMask compile_tiles(const DenseMask& dense, const std::string& origin) {
  refuse_if(dense.positions > format::kTileMaskPositionsMax,
            "{}: a mask without structure may have {} positions, this one has {}; "
            "use --context to keep fewer",
            origin, format::kTileMaskPositionsMax, dense.positions);
  CompiledMask mask;
  mask.kind = MaskKind::kTiles;
  mask.positions = dense.positions;
  mask.lookback = mask.lookahead = kUnlimited;
  DenseMask full(dense.positions);
  full.visible.assign(full.visible.size(), true);
  std::map<std::vector<uint32_t>, uint16_t> stored;
  for (uint32_t row = 0; row < dense.positions; row += kMaskTile) {
    for (uint32_t key = 0; key < dense.positions; key += kMaskTile) {
      const std::vector<uint32_t> bits = tile_bits(dense, row, key);
      if (std::all_of(bits.begin(), bits.end(), [](uint32_t word) { return word == 0; })) {
        mask.map.push_back(kTileHidden);
        continue;
      }
      if (bits == tile_bits(full, row, key)) {
        mask.map.push_back(kTileVisible);
        continue;
      }
      const size_t next = kTileMixed + stored.size();
      const auto [place, is_new] = stored.try_emplace(bits, static_cast<uint16_t>(next));
      refuse_if(next > UINT16_MAX,
                "{}: the mask has more than {} different tiles of 32 x 32; use --context "
                "to keep fewer positions",
                origin, UINT16_MAX - kTileMixed);
      if (is_new) mask.bits.insert(mask.bits.end(), bits.begin(), bits.end());
      mask.map.push_back(place->second);
    }
  }
  for (uint32_t row = 0; row < dense.positions; ++row) {
    uint32_t begin = 0;
    uint32_t end = dense.positions;
    while (!dense.at(row, begin)) ++begin;
    while (!dense.at(row, end - 1)) --end;
    mask.row_begin.push_back(begin);
    mask.row_end.push_back(end);
  }
  return mask;
}

CompiledMask require_same(CompiledMask mask, const DenseMask& dense) {
  if (expand_mask(mask.view(), dense.positions) == dense) return mask;
  throw std::logic_error("a compiled mask differs from the dense one: this is a bug");
}

}  // namespace

MaskView CompiledMask::view() const {
  return {kind, positions, lookback, lookahead, values, map, bits, row_begin, row_end};
}

size_t mask_bytes(const MaskView& mask) {
  return mask.kind == MaskKind::kBand || mask.kind == MaskKind::kPairs
             ? 2 * sizeof(uint32_t)
             : mask.values.size_bytes() + mask.map.size_bytes() + mask.bits.size_bytes() +
                   mask.row_begin.size_bytes() + mask.row_end.size_bytes();
}

std::string describe_mask(const MaskView& mask) {
  switch (mask.kind) {
    case MaskKind::kBand:
      if (mask.lookback == kUnlimited && mask.lookahead == kUnlimited) return "bidirectional";
      if (mask.lookback == kUnlimited && mask.lookahead == 0) return "causal";
      if (mask.lookahead == 0)
        return fmt::format("causal window of {}", uint64_t{mask.lookback} + 1);
      if (mask.lookback == 0 && mask.lookahead == kUnlimited) return "anti-causal";
      return fmt::format("band, lookback {}, lookahead {}",
                         mask.lookback == kUnlimited ? "all" : std::to_string(mask.lookback),
                         mask.lookahead == kUnlimited ? "all" : std::to_string(mask.lookahead));
    case MaskKind::kStrip:
      return fmt::format("strip by distance, {} values", mask.values.size());
    case MaskKind::kPairs: {
      MaskView band = mask;
      band.kind = MaskKind::kBand;
      return "pair mask of each call, " + describe_mask(band);
    }
    case MaskKind::kTiles:
      return fmt::format("tiles, {} of {} stored", mask.bits.size() / kMaskTile, mask.map.size());
  }
  return "";
}

CompiledMask pair_mask(bool is_causal) {
  CompiledMask mask;
  mask.kind = MaskKind::kPairs;
  if (is_causal) mask.lookahead = 0;
  return mask;
}

bool is_made_up_pair(uint32_t query, uint32_t key) {
  uint64_t mixed = (uint64_t{query} << 32 | key) + 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
  return key == query / 2 || (mixed >> 40 & 1) != 0;
}

CompiledMask band_mask(uint32_t lookback, uint32_t lookahead, uint32_t positions) {
  CompiledMask mask;
  mask.positions = positions;
  mask.lookback = lookback;
  mask.lookahead = lookahead;
  return mask;
}

uint32_t positions_of(const Mask& mask) {
  const auto* buffer = std::get_if<BufferMask>(&mask);
  return buffer != nullptr ? buffer->dense->positions : std::get<CompiledMask>(mask).positions;
}

bool is_of_pairs(const Mask& mask) {
  const auto* compiled = std::get_if<CompiledMask>(&mask);
  return compiled != nullptr && compiled->kind == MaskKind::kPairs;
}

bool is_causal(const Mask& mask) {
  const auto* buffer = std::get_if<BufferMask>(&mask);
  if (buffer == nullptr) return format::is_causal(std::get<CompiledMask>(mask).view());
  for (uint32_t row = 0; row < positions_of(mask); ++row) {
    for (uint32_t key = row + 1; key < positions_of(mask); ++key) {
      if (buffer->dense->at(row, key)) return false;
    }
  }
  return true;
}

std::string describe(const Mask& mask) {
  const auto* buffer = std::get_if<BufferMask>(&mask);
  return buffer != nullptr ? fmt::format("a buffer's mask of {} positions", positions_of(mask))
                           : std::get<CompiledMask>(mask).describe();
}

CompiledMask compile_mask(const DenseMask& dense, const std::string& origin) {
  check_rows(dense, origin);
  const auto distances = by_distance(dense);
  if (!distances || !(*distances)[dense.positions - 1]) return tile_mask(dense, origin);
  return require_same(compile_distances(*distances, dense.positions), dense);
}

CompiledMask tile_mask(const DenseMask& dense, const std::string& origin) {
  check_rows(dense, origin);
  return require_same(compile_tiles(dense, origin), dense);
}

DenseMask expand_mask(const Mask& mask, uint32_t positions) {
  const auto* buffer = std::get_if<BufferMask>(&mask);
  if (buffer == nullptr) return expand_mask(std::get<CompiledMask>(mask).view(), positions);
  DenseMask dense(positions);
  for (uint32_t row = 0; row < positions; ++row) {
    for (uint32_t key = 0; key < positions; ++key) dense.set(row, key, buffer->dense->at(row, key));
  }
  return dense;
}

DenseMask expand_mask(const MaskView& mask, uint32_t positions) {
  const KernelSet& kernels = *kernel_set(Target::kPortable);
  DenseMask dense(positions);
  std::vector<float> scores(positions + kReadAheadBytes / sizeof(float));
  for (uint32_t row = 0; row < positions; ++row) {
    const KeyRange range = visible_keys(mask, row, positions);
    std::fill(scores.begin(), scores.end(), 0.0f);
    if (range.begin < range.end) apply_mask(kernels, mask, row, range, scores.data());
    for (uint32_t key = range.begin; key < range.end; ++key) {
      dense.set(row, key, scores[key - range.begin] == 0.0f);
    }
  }
  return dense;
}

// ---- visible pairs ----

namespace {

uint64_t triangle(uint64_t side) { return side * (side + 1) / 2; }

// Returns a word with bits [begin, end) of a tile's row set. REQUIRES: begin < end <= kMaskTile.
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
  if (mask_.kind != MaskKind::kStrip) {
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
