// SPDX-License-Identifier: Apache-2.0
// Bit-level operations on floats: bit_cast, and checks for finite values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite {

// Reinterprets the bytes of `from` as another type of the same size, which the compiler checks.
template <typename To, typename From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

// The check for finite values works on the bits, in a loop that compilers vectorize: it runs at the
// speed of memory.

inline bool is_finite(float x) { return x - x == 0.0f; }

// Returns a value with the highest bit set if x is NaN or infinite: all bits of the exponent are
// set in these, so that adding one to the exponent carries into the sign.
inline uint32_t carry_of_not_finite(float x) {
  return (bit_cast<uint32_t>(x) & 0x7FFFFFFFu) + 0x00800000u;
}

// Returns true if no element of x [count] is NaN or infinite.
inline bool all_finite(const float* x, size_t count) {
  uint32_t carried = 0;
  for (size_t i = 0; i < count; ++i) carried |= carry_of_not_finite(x[i]);
  return carried >> 31 == 0;
}

}  // namespace arenite
