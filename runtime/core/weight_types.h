// SPDX-License-Identifier: Apache-2.0
// The storage of each weight type, one table row per type. Size formulas, verifier, packers and
// quantizers use the table.
#pragma once

#include <cstdint>

#include "arenite/tensor_type.h"
#include "core/needs.h"

namespace arenite {

struct WeightType {
  TensorType type;
  uint8_t bits;           // per element
  uint8_t block;          // elements of a row that share a scale; 0: all
  uint8_t scale_bytes;    // 4: float; 2: bfloat16, after its block in a panel; 0: no scales
  uint8_t floats_before;  // floats per output of a panel before its elements ...
  uint8_t floats_after;   // ... and after them: scales of whole rows, and the bias
  // Whether activations are quantized to int8 for the product. Then a panel starts with the terms
  // that correct their zero points and ends with the bias; otherwise it starts with the bias.
  bool rounds_inputs;
  uint32_t inputs_max;  // per row, so that sums of products fit 32 bits
};
inline constexpr uint32_t kWeightTypeCount = 4;
inline constexpr WeightType kWeightTypeRows[kWeightTypeCount] = {
    {TensorType::kF32, 32, 0, 0, 1, 0, false, UINT32_MAX},
    {TensorType::kW8, 8, 0, 4, 1, 1, false, UINT32_MAX},
    {TensorType::kQ8, 8, 0, 4, 1, 2, true, kQ8InputsMax},
    {TensorType::kQ4, 4, kQ4Block, 2, 1, 1, true, UINT32_MAX},
};

// Maps the type of int8 caches to kW8, which has the same layout.
constexpr TensorType as_weights(TensorType type) {
  return type == TensorType::kInt8 ? TensorType::kW8 : type;
}

// Returns the type, as a compile-time constant if the build has no quantized weights and caches.
constexpr TensorType linked_type(TensorType type) {
  return kQuantizedLinked || linked(Need::kInt8Cache) ? as_weights(type) : TensorType::kF32;
}

// Returns the table row. REQUIRES: holds_weights(type) or holds_cache(type).
constexpr const WeightType& weight_type(TensorType type) {
  return kWeightTypeRows[static_cast<uint32_t>(linked_type(type))];
}

constexpr bool weight_types_are_in_order() {
  for (uint32_t i = 0; i < kWeightTypeCount; ++i) {
    const TensorType type = static_cast<TensorType>(i);
    if (kWeightTypeRows[i].type != type || !holds_weights(type)) return false;
  }
  return !holds_weights(static_cast<TensorType>(kWeightTypeCount));
}
static_assert(weight_types_are_in_order());

}  // namespace arenite
