// SPDX-License-Identifier: Apache-2.0
// The floats of 16 bits that checkpoints store, given as their bits. Every one of them is a float.
#pragma once

#include <bit>
#include <cstdint>

namespace arenite::convert {

// bfloat16: the upper half of a float.
inline float float_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// IEEE binary16, all of it: subnormals, infinities and NaN payloads.
inline float float_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t exponent_f32 = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | exponent_f32 << 23 | fraction << 13);
}

}  // namespace arenite::convert
