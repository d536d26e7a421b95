// SPDX-License-Identifier: Apache-2.0
// What the numbers of a tensor or of a key/value cache are. The list is longer than what this
// version computes with, so that what it lacks is refused by name.
#pragma once

#include <cstdint>

namespace arenite {

// Ids are part of the file format.
enum class TensorType : uint32_t { kF32, kF16, kBF16, kInt8, kInt4 };
inline constexpr uint32_t kTensorTypes = 5;

// Whether this version computes with it. Any number may be asked about.
constexpr bool supported(TensorType type) { return type == TensorType::kF32; }

// What a key/value cache can be made of.
inline constexpr TensorType kKvTypes[] = {TensorType::kF32};

// "f32", "f16", "bf16", "int8" or "int4"; "unknown" beyond the list. A static string.
constexpr const char* name(TensorType type) {
  constexpr const char* kNames[kTensorTypes] = {"f32", "f16", "bf16", "int8", "int4"};
  const uint32_t index = static_cast<uint32_t>(type);
  return index < kTensorTypes ? kNames[index] : "unknown";
}

}  // namespace arenite
