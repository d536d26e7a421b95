// SPDX-License-Identifier: Apache-2.0
// What is left of a row of activations when it is multiplied with q8 or q4 weights, and of keys and
// values that are kept in int8.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "arenite/tensor_type.h"

namespace arenite::convert {

// Whether activations are rounded before they are multiplied with weights of this type.
constexpr bool rounds_activations(TensorType type) {
  return type == TensorType::kQ8 || type == TensorType::kQ4;
}

// Rounds each row to 256 steps between its least and its largest number, 0 being one of them, as
// QuantizedRows of runtime/ops/linear.h says. Numbers that are not finite make all of the row NaN.
void round_activations(std::span<double> rows, size_t width);

// Keys or values, in rows of so many numbers, as a cache of this type keeps them: in int8 rounded
// to 255 steps between a row's largest magnitude and the same below 0, as Int8Row of
// runtime/ops/kv_cache.h does. Numbers that are not finite make all of the row NaN.
std::vector<double> as_kept(TensorType kv_cache, std::vector<double> rows, size_t width);

}  // namespace arenite::convert
