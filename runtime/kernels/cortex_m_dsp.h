// SPDX-License-Identifier: Apache-2.0
// Common parts of the kernels for Cortex-M with the DSP extension: pairs of int16, which SMLAD
// multiplies. Two instructions make two pairs of four bytes:
//   k0 k1 k2 k3 becomes (k0, k2) and (k1, k3)
#pragma once

#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_DSP)
#include <arm_acle.h>

#include "kernels/integer_attention.h"

#if !defined(__clang__)
// The optimization level is fixed, whatever the firmware uses. The scheduler is off, since it does
// not count registers: it would compute all pairs first and run out of registers.
#pragma GCC optimize("O2", "no-schedule-insns")
#endif

// Forces lambdas inline: registers are few, and a call would keep captured variables in memory.
#define ARENITE_INLINE __attribute__((always_inline))

namespace arenite {

inline constexpr size_t kGroup = 4;  // bytes that become two pairs

using Pair = uint32_t;  // two int16

inline Pair even_bytes(uint32_t bytes) { return static_cast<Pair>(__sxtb16(bytes)); }
// Compilers do not know that the instruction rotates for free.
inline Pair odd_bytes(uint32_t bytes) {
  Pair pair;
  asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(bytes));
  return pair;
}

// Returns the pair of the lower halves of two words.
inline Pair lower_halves(uint32_t first, uint32_t second) {
  Pair pair;
  asm("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(first), "r"(second));
  return pair;
}

inline int32_t dot(Pair a, Pair b, int32_t sum) {
  return __smlad(static_cast<int16x2_t>(a), static_cast<int16x2_t>(b), sum);
}

// Loads two words by one instruction and moves on by kStep bytes. Compilers would load each word by
// itself, which takes as long as the products do.
template <typename Word, int kStep>
[[gnu::always_inline]] inline void load_two(const Word*& from, uint32_t& first, uint32_t& second) {
  asm("ldrd %0, %1, [%2], %3"
      : "=r"(first), "=r"(second), "+r"(from)
      : "i"(kStep), "m"(*reinterpret_cast<const uint32_t(*)[2]>(from)));
}

struct Sums {
  int32_t of[kLanes];
};

// Calls function(0), function(1) ... for the first `count` of four, without a loop.
template <typename Function>
[[gnu::always_inline]] inline void for_first(size_t count, Function function) {
  function(0);
  if (count > 1) function(1);
  if (count > 2) function(2);
  if (count > 3) function(3);
}

// Rounds four floats as rounded_bits() does, into two pairs. VMLA rounds the product before the
// sum, and a single load reads the four constants of the sums.
#if defined(__ARM_FP)
inline constexpr float kRoundingMagics[4] = {kRoundingMagic, kRoundingMagic, kRoundingMagic,
                                             kRoundingMagic};
#endif
[[gnu::always_inline]] inline void round_four(const float*& x, float per_unit, Pair& even,
                                              Pair& odd) {
  uint32_t bits[4];
#if defined(__ARM_FP)
  asm("vldm %4!, {s0-s3}\n"
      "vldm %6, {s4-s7}\n"
      "vmla.f32 s4, s0, %5\n"
      "vmla.f32 s5, s1, %5\n"
      "vmla.f32 s6, s2, %5\n"
      "vmla.f32 s7, s3, %5\n"
      "vmov %0, %1, s4, s5\n"
      "vmov %2, %3, s6, s7"
      : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3]), "+r"(x)
      : "t"(per_unit), "r"(kRoundingMagics), "m"(kRoundingMagics),
        "m"(*reinterpret_cast<const float(*)[4]>(x))
      : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7");
#else
  for (size_t i = 0; i < 4; ++i) bits[i] = rounded_bits(x[i], per_unit);
  x += 4;
#endif
  even = lower_halves(bits[0], bits[2]);
  odd = lower_halves(bits[1], bits[3]);
}

}  // namespace arenite
#endif
