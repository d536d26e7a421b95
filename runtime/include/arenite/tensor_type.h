// SPDX-License-Identifier: Apache-2.0
// What the numbers of a tensor or of a key/value cache are.
#pragma once

#include <cstdint>

namespace arenite {

// Ids are part of the file format.
enum class TensorType : uint32_t {
  kF32,
  kW8,    // weights: int8, a scale for each row; multiplied with float32
  kQ8,    // weights: the same numbers; what they are multiplied with is rounded to int8, too
  kQ4,    // weights: int4, a scale for each kQ4Block of a row; multiplied with int8
  kInt8,  // of a cache: int8, a scale for each position and head
};
inline constexpr uint32_t kTensorTypes = 5;

// Whether weights can be of this type. Any number may be asked about.
constexpr bool holds_weights(TensorType type) { return type <= TensorType::kQ4; }

// What a key/value cache can be made of.
constexpr bool holds_cache(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kInt8;
}

// Weights of a row that share a scale.
inline constexpr uint32_t kQ4Block = 32;

// Inputs of a row of q8 whose sums of products fit 32 bits, whatever the numbers are.
inline constexpr uint32_t kQ8InputsMax = 65536;

// "f32", "w8", "q8", "q4" or "int8"; "unknown" beyond the list. A static string.
constexpr const char* name(TensorType type) {
  constexpr const char* kNames[kTensorTypes] = {"f32", "w8", "q8", "q4", "int8"};
  const uint32_t index = static_cast<uint32_t>(type);
  return index < kTensorTypes ? kNames[index] : "unknown";
}

}  // namespace arenite
