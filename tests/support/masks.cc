// SPDX-License-Identifier: Apache-2.0
// Writes the dense mask and derives the compiled one from it, entry by entry.
#include "support/masks.h"

#include <cmath>
#include <utility>

#include "arenite/arena_formula.h"
#include "core/packing.h"
#include "support/random.h"

namespace arenite::test {
namespace {

template <typename Rule>
DenseMask dense_where(uint32_t positions, const Rule& sees) {
  DenseMask dense(positions);
  for (uint32_t query = 0; query < positions; ++query) {
    for (uint32_t key = 0; key < positions; ++key) {
      dense.visible[dense.index(query, key)] = sees(query, key) ? 1 : 0;
    }
  }
  return dense;
}

bool within_band(uint32_t query, uint32_t key, uint32_t lookback, uint32_t lookahead) {
  return int64_t{key} >= int64_t{query} - lookback && int64_t{key} <= int64_t{query} + lookahead;
}

// Appends the tile at (tile_row, tile_column) to the mask: its number, and its bits if it is mixed.
void add_tile(TestMask& mask, uint32_t tile_row, uint32_t tile_column) {
  std::vector<uint32_t> rows(kMaskTile, 0);
  uint32_t seen = 0;
  uint32_t entries = 0;
  for (uint32_t r = 0; r < kMaskTile; ++r) {
    for (uint32_t c = 0; c < kMaskTile; ++c) {
      const uint32_t query = tile_row * kMaskTile + r;
      const uint32_t key = tile_column * kMaskTile + c;
      if (query >= mask.dense.positions || key >= mask.dense.positions) continue;
      ++entries;
      if (!mask.dense.sees(query, key)) continue;
      ++seen;
      rows[r] |= 1u << c;
    }
  }
  if (seen == 0 || seen == entries) {
    mask.map.push_back(seen == 0 ? kTileHidden : kTileVisible);
    return;
  }
  mask.map.push_back(static_cast<uint16_t>(kTileMixed + mask.bits.size() / kMaskTile));
  mask.bits.insert(mask.bits.end(), rows.begin(), rows.end());
}

}  // namespace

MaskView TestMask::view() const {
  MaskView view;
  view.kind = kind;
  view.positions = kind == MaskKind::kBand ? 0 : dense.positions;
  view.lookback = lookback;
  view.lookahead = lookahead;
  view.values = std::span(values).first(values.empty() ? 0 : 2 * size_t{dense.positions} - 1);
  view.map = map;
  view.bits = bits;
  view.row_begin = row_begin;
  view.row_end = row_end;
  return view;
}

bool TestMask::causal() const {
  for (uint32_t query = 0; query < dense.positions; ++query) {
    for (uint32_t key = query + 1; key < dense.positions; ++key) {
      if (dense.sees(query, key)) return false;
    }
  }
  return true;
}

TestMask band_mask(uint32_t positions, uint32_t lookback, uint32_t lookahead) {
  TestMask mask("band -" + std::to_string(lookback) + " +" + std::to_string(lookahead),
                dense_where(positions, [&](uint32_t query, uint32_t key) {
                  return within_band(query, key, lookback, lookahead);
                }));
  mask.lookback = lookback;
  mask.lookahead = lookahead;
  return mask;
}

TestMask strip_mask(uint32_t positions, uint32_t lookback, uint32_t lookahead,
                    std::vector<float> values) {
  TestMask mask = band_mask(positions, lookback, lookahead);
  mask.name = "strip of " + mask.name;
  mask.kind = MaskKind::kStrip;
  mask.dense.bias.resize(mask.dense.visible.size());
  for (uint32_t query = 0; query < positions; ++query) {
    for (uint32_t key = 0; key < positions; ++key) {
      const size_t index = mask.dense.index(query, key);
      const float value = values[size_t{key} + positions - 1 - query];
      mask.dense.bias[index] = value;
      if (value == -INFINITY) mask.dense.visible[index] = 0;
    }
  }
  mask.values = std::move(values);
  // Kernels may read further than the strip; as not-a-numbers these would show in a result.
  mask.values.insert(mask.values.end(), kReadAheadBytes / sizeof(float), NAN);
  return mask;
}

TestMask slope_mask(uint32_t positions, uint32_t lookback, uint32_t lookahead, float slope) {
  std::vector<float> values(2 * size_t{positions} - 1, -INFINITY);
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (!within_band(positions - 1, i, lookback, lookahead)) continue;
    const int64_t distance = int64_t{i} - (int64_t{positions} - 1);
    values[i] = -slope * static_cast<float>(distance < 0 ? -distance : distance);
  }
  return strip_mask(positions, lookback, lookahead, std::move(values));
}

TestMask tile_mask(std::string name, const DenseMask& dense) {
  TestMask mask(std::move(name), dense);
  mask.kind = MaskKind::kTiles;
  const uint32_t tiles = (dense.positions + kMaskTile - 1) / kMaskTile;
  for (uint32_t row = 0; row < tiles; ++row) {
    for (uint32_t column = 0; column < tiles; ++column) add_tile(mask, row, column);
  }
  mask.row_begin.assign(dense.positions, 0);
  mask.row_end.assign(dense.positions, 0);
  for (uint32_t query = 0; query < dense.positions; ++query) {
    for (uint32_t key = dense.positions; key-- > 0;) {
      if (!dense.sees(query, key)) continue;
      mask.row_begin[query] = key;
      if (mask.row_end[query] == 0) mask.row_end[query] = key + 1;
    }
  }
  return mask;
}

TestMask prefix_mask(uint32_t positions, uint32_t prefix) {
  return tile_mask("prefix of " + std::to_string(prefix),
                   dense_where(positions, [&](uint32_t query, uint32_t key) {
                     return key < prefix || key <= query;
                   }));
}

TestMask document_mask(uint32_t positions, uint32_t length) {
  return tile_mask("documents of " + std::to_string(length),
                   dense_where(positions, [&](uint32_t query, uint32_t key) {
                     return key <= query && key / length == query / length;
                   }));
}

TestMask random_mask(uint32_t positions, uint32_t one_in, bool causal, uint64_t seed) {
  Random random(seed);
  return tile_mask((causal ? "random causal one in " : "random one in ") + std::to_string(one_in),
                   dense_where(positions, [&](uint32_t query, uint32_t key) {
                     const bool drawn = random.below(one_in) == 0;
                     return key == query || (drawn && (!causal || key < query));
                   }));
}

TestMask sink_mask(uint32_t positions, uint32_t sink) {
  return tile_mask("sink of " + std::to_string(sink),
                   dense_where(positions, [&](uint32_t query, uint32_t key) {
                     return key <= query && (key < sink || key / kMaskTile == query / kMaskTile);
                   }));
}

}  // namespace arenite::test
