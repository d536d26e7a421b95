// SPDX-License-Identifier: Apache-2.0
// Floats by their bits: std::bit_cast, and whether numbers are finite.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite {

// The bytes of `from` as a value of another type of the same size, which the compiler checks.
template <typename To, typename From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

// Whether numbers are finite, by their bits: a loop that compilers turn into a few vector
// instructions, at the speed of reading the numbers.

inline bool is_finite(float x) { return x - x == 0.0f; }

// Its highest bit is set if x is NaN or infinite: those have all bits of the exponent set, so that
// one more carries into the sign.
inline uint32_t carry_of_not_finite(float x) {
  return (bit_cast<uint32_t>(x) & 0x7FFFFFFFu) + 0x00800000u;
}

// True if none of x [count] is NaN or infinite.
inline bool all_finite(const float* x, size_t count) {
  uint32_t carried = 0;
  for (size_t i = 0; i < count; ++i) carried |= carry_of_not_finite(x[i]);
  return carried >> 31 == 0;
}

}  // namespace arenite
