// SPDX-License-Identifier: Apache-2.0
// A view of a tensor where it lies in the model file: what ops read as weights, and its numbers.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "arenite/tensor_type.h"
#include "core/packing.h"

namespace arenite {

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
