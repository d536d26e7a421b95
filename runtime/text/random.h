// SPDX-License-Identifier: Apache-2.0
// A counter-based random number generator and an exponential function, for sampling. Both are
// bit-identical on all platforms.
//   uniform(seed, 0), uniform(seed, 1), ...   the random numbers of `seed`, in any order of calls
#pragma once

#include <cstdint>

#include "core/float_bits.h"

namespace arenite::text {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection that scrambles all bits.
[[gnu::noinline]] constexpr uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Returns random number `counter` of the sequence of `seed`, in [0, 1): the high 53 bits of output
// `counter` of SplitMix64, whose initial state is scrambled from the seed.
constexpr double uniform(uint64_t seed, uint64_t counter) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  const uint64_t bits = scramble(scramble(seed + kGolden) + (counter + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

inline constexpr float kReciprocals[] = {1.0f / 7.0f, 1.0f / 6.0f, 1.0f / 5.0f, 1.0f / 4.0f,
                                         1.0f / 3.0f, 1.0f / 2.0f, 1.0f};

// e^x = 2^n e^r, where x = n ln 2 + r with |r| <= ln 2 / 2, and e^r is a Taylor series. Accurate to
// seven digits; 0 below x = -87, where normal floats end. REQUIRES: x <= 0, not NaN.
constexpr float exp_nonpositive(float x) {
  if (x < -87.0f) return 0.0f;
  const int32_t n = static_cast<int32_t>(x * 0x1.715476p+0f - 0.5f);
  const float steps = static_cast<float>(n);
  const float r = (x - steps * 0x1.62e4p-1f) - steps * 0x1.7f7d1cp-20f;  // ln 2 in two parts
  float sum = 1.0f;
  for (const float reciprocal : kReciprocals) sum = 1.0f + r * reciprocal * sum;
  return sum * bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

}  // namespace arenite::text
