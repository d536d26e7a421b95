// SPDX-License-Identifier: Apache-2.0
// Element types of weights and of KV caches.
#pragma once

#include <cstdint>

namespace arenite {

// Ids are part of the file format.
enum class TensorType : uint32_t {
  kF32,
  kW8,    // weights: int8, one scale per row; activations stay float32
  kQ8,    // weights: int8, one scale per row; activations are quantized to int8
  kQ4,    // weights: int4, one scale per kQ4Block of a row; activations are quantized to int8
  kInt8,  // caches: int8, one scale per position and head
};
inline constexpr uint32_t kTensorTypes = 5;  // number of types

// Returns whether weights can have this type; false for values that are no TensorType.
constexpr bool holds_weights(TensorType type) { return type <= TensorType::kQ4; }

// Returns whether a KV cache can have this type.
constexpr bool holds_cache(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kInt8;
}

// Consecutive q4 weights of a row that share a scale.
inline constexpr uint32_t kQ4Block = 32;

// Upper limit for the inputs of a q8 row: the sum of products fits 32 bits for any values.
inline constexpr uint32_t kQ8InputsMax = 65536;

// Returns "f32", "w8", "q8", "q4" or "int8", else "unknown", as a static string.
constexpr const char* name(TensorType type) {
  constexpr const char* kNames[kTensorTypes] = {"f32", "w8", "q8", "q4", "int8"};
  const uint32_t index = static_cast<uint32_t>(type);
  return index < kTensorTypes ? kNames[index] : "unknown";
}

}  // namespace arenite
