// SPDX-License-Identifier: Apache-2.0
// How the numbers of a type of weights lie in memory, a row for each type: sizes, verifier, packers
// and quantizers go by the rows.
#pragma once

#include <cstdint>

#include "arenite/tensor_type.h"
#include "core/needs.h"

namespace arenite {

struct WeightType {
  TensorType type;
  uint8_t bits;           // of a number
  uint8_t block;          // numbers of a row that share a scale; 0: all of them
  uint8_t scale_bytes;    // 4: a float; 2: a bfloat16, after its block in a panel; 0: no scales
  uint8_t floats_before;  // of each output in a panel, in front of its numbers ...
  uint8_t floats_after;   // ... and after them: scales of whole rows, and the bias
  // Rows that are multiplied with it are rounded to int8, too. What stands first in a panel then
  // corrects their zero points, and the bias stands last; else the bias stands first.
  bool rounds_inputs;
  uint32_t inputs_max;  // of a row, so that sums of products fit 32 bits
};
inline constexpr uint32_t kWeightTypeCount = 4;
inline constexpr WeightType kWeightTypeRows[kWeightTypeCount] = {
    {TensorType::kF32, 32, 0, 0, 1, 0, false, UINT32_MAX},
    {TensorType::kW8, 8, 0, 4, 1, 1, false, UINT32_MAX},
    {TensorType::kQ8, 8, 0, 4, 1, 2, true, kQ8InputsMax},
    {TensorType::kQ4, 4, kQ4Block, 2, 1, 1, true, UINT32_MAX},
};

// Caches in int8 lie as weights in w8 do.
constexpr TensorType as_weights(TensorType type) {
  return type == TensorType::kInt8 ? TensorType::kW8 : type;
}

// The type, which the compiler knows where no model of the build has anything in few bits.
constexpr TensorType linked_type(TensorType type) {
  return kFewBitsLinked || linked(Need::kInt8Cache) ? as_weights(type) : TensorType::kF32;
}

// REQUIRES: holds_weights(type) or holds_cache(type).
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
