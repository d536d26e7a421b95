// SPDX-License-Identifier: Apache-2.0
// What the numbers of a tensor or of a cache are. The list is longer than what can be computed with
// today, so that a file of a later version is refused by name.
#pragma once

#include <cstdint>

namespace arenite {

// Ids are part of the file format.
enum class TensorType : uint8_t { kF32, kF16, kBF16, kInt8, kInt4 };
inline constexpr uint32_t kTensorTypes = 5;

inline constexpr const char* kTensorTypeNames[kTensorTypes] = {"f32", "f16", "bf16", "int8",
                                                               "int4"};

// Any number may be asked about.
constexpr bool known(TensorType type) { return static_cast<uint32_t>(type) < kTensorTypes; }
constexpr const char* name(TensorType type) {
  return known(type) ? kTensorTypeNames[static_cast<uint32_t>(type)] : "unknown";
}

// Whether this version computes with it.
constexpr bool supported(TensorType type) { return type == TensorType::kF32; }

// Bits of one number.
constexpr uint32_t bits_of(TensorType type) {
  constexpr uint8_t kBits[kTensorTypes] = {32, 16, 16, 8, 4};
  return known(type) ? kBits[static_cast<uint32_t>(type)] : 0;
}

}  // namespace arenite
