// SPDX-License-Identifier: Apache-2.0
// A matrix of weights in few bits, in the order of its author's rows, before it is packed.
#pragma once

#include <cstdint>
#include <vector>

#include "arenite/tensor_type.h"

namespace arenite::convert {

// What weights can be, the largest first.
inline constexpr TensorType kWeightTypes[] = {TensorType::kF32, TensorType::kW8, TensorType::kQ8,
                                              TensorType::kQ4};

// A weight is its value times the scale of its row or, of q4, of its block.
struct QuantizedMatrix {
  TensorType type = TensorType::kQ8;  // kW8, kQ8 or kQ4
  uint32_t rows = 0;
  uint32_t columns = 0;             // of q4 a multiple of kQ4Block
  std::vector<int8_t> values = {};  // [rows, columns]: -128 to 127; of q4 -8 to 7
  std::vector<float> scales = {};   // [rows]; of q4 [rows, columns / kQ4Block], each a bfloat16
};

}  // namespace arenite::convert
