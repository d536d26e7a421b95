// SPDX-License-Identifier: Apache-2.0
// Views of what ops read and write, where it lies: matrices, masks, weights; they own nothing. And
// how images are cut.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/checked_math.h"
#include "arenite/tensor_type.h"
#include "core/packing.h"

namespace arenite {

// [rows, columns] with `stride` floats from one row to the next; stride >= columns.
template <typename Float>
struct MatrixView {
  Float* data = nullptr;
  uint32_t rows = 0;
  uint32_t columns = 0;
  size_t stride = 0;

  Float* row(uint32_t index) const { return data + index * stride; }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

// A compiled attention mask, as it lies in the model file.

enum class MaskKind : uint8_t { kBand, kStrip, kTiles, kPairs };

inline constexpr uint32_t kUnlimited = UINT32_MAX;
inline constexpr uint32_t kMaskTile = 32;  // rows and columns of a tile: one row is one uint32_t
inline constexpr uint16_t kTileHidden = 0;
inline constexpr uint16_t kTileVisible = 1;
inline constexpr uint16_t kTileMixed = 2;  // and above: mixed tile number 0, 1, ...

// Which keys a query sees. Band and strip depend on the distance alone:
//   visible within  query - lookback <= key <= query + lookahead,
// and a strip adds values[key - query + positions - 1] to the score. Tiles hold any mask. Pairs are
// a band within which each call says which keys a query sees.
struct MaskView {
  MaskKind kind = MaskKind::kBand;
  uint32_t positions = 0;  // rows and columns; 0: any number (band, pairs)
  uint32_t lookback = kUnlimited;
  uint32_t lookahead = kUnlimited;
  std::span<const float> values;        // strip: [2 * positions - 1]; kReadAheadBytes follow
  std::span<const uint16_t> map;        // tiles: [row tiles, column tiles]
  std::span<const uint32_t> bits;       // tiles: [mixed tiles, kMaskTile]
  std::span<const uint32_t> row_begin;  // tiles: [positions], the first visible key
  std::span<const uint32_t> row_end;    // tiles: [positions], one past the last visible key

  uint32_t tile_columns() const { return (positions + kMaskTile - 1) / kMaskTile; }
};

// A view of a tensor where it lies in the model file: what ops read as weights, and its numbers.

// [rows, columns] numbers of a type: packed for GEMM with a bias [rows], or plain rows.
struct WeightView {
  const std::byte* data = nullptr;  // null: there is none
  TensorType type = TensorType::kF32;
  Packing packing = {};  // nr is 0 for plain rows
  uint32_t rows = 0;     // of a linear layer: outputs
  uint32_t columns = 0;  // of a linear layer: inputs

  bool is_packed() const { return packing.nr != 0; }

  // The numbers of a tensor of this type; null if there is none.
  const float* f32() const {
    assert(type == TensorType::kF32);
    return reinterpret_cast<const float*>(data);
  }
};

// Writes the numbers of one row of a tensor, of any type, in whatever way it lies.
// REQUIRES: row < weights.rows; `to` has room for weights.columns.
void read_row(const WeightView& weights, uint32_t row, float* to);

// Plain rows of floats.
inline WeightView plain_rows(const float* data, uint32_t rows, uint32_t columns) {
  return {reinterpret_cast<const std::byte*>(data), TensorType::kF32, {}, rows, columns};
}

}  // namespace arenite
