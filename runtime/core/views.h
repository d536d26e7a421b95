// SPDX-License-Identifier: Apache-2.0
// Non-owning views of what ops read and write in place: matrices, attention masks and weights.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/checked_math.h"
#include "arenite/tensor_type.h"
#include "core/packing.h"

namespace arenite {

// A matrix [rows, columns] with `stride` floats from one row to the next; stride >= columns.
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

// The compiled attention mask as it is stored in the model file.

enum class MaskKind : uint8_t { kBand, kStrip, kTiles, kPairs };

inline constexpr uint32_t kUnlimited = UINT32_MAX;
inline constexpr uint32_t kMaskTile = 32;  // rows and columns of a tile; one row is one uint32_t
inline constexpr uint16_t kTileHidden = 0;
inline constexpr uint16_t kTileVisible = 1;
inline constexpr uint16_t kTileMixed = 2;  // first of the ids of mixed tiles 0, 1, ...

// The keys that a query sees. For bands and strips, these depend on the distance alone:
//   visible if  query - lookback <= key <= query + lookahead,
// and a strip adds values[key - query + positions - 1] to the score. Tiles represent any mask. A
// pair mask is a band within which each call passes the keys that a query sees.
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

// A weight tensor [rows, columns] in the model file: packed for GEMM with a bias [rows], or plain
// rows.
struct WeightView {
  const std::byte* data = nullptr;  // null: no tensor
  TensorType type = TensorType::kF32;
  Packing packing = {};  // nr is 0 for plain rows
  uint32_t rows = 0;     // outputs of a linear layer
  uint32_t columns = 0;  // inputs of a linear layer

  bool is_packed() const { return packing.nr != 0; }

  // The elements of a float32 tensor; null if there is none.
  const float* f32() const {
    assert(type == TensorType::kF32);
    return reinterpret_cast<const float*>(data);
  }
};

// Writes one row of a tensor, of any type and packing, as floats. REQUIRES: row < weights.rows;
// `to` has room for weights.columns.
void read_row(const WeightView& weights, uint32_t row, float* to);

inline WeightView plain_rows(const float* data, uint32_t rows, uint32_t columns) {
  return {reinterpret_cast<const std::byte*>(data), TensorType::kF32, {}, rows, columns};
}

}  // namespace arenite
