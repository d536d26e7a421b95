// SPDX-License-Identifier: Apache-2.0
// Float arithmetic on bit patterns, with 32-bit integers, for soft_floats.cc and soft_kernels.cc.
// Results are rounded to nearest even, including denormals, and all NaN results have the same bits.
// For example,
//   sum(0x3F800000, 0x40000000) = 0x40400000, which is 1 + 2 = 3
#pragma once

#include <cstdint>

#include "kernels/soft_floats.h"

namespace arenite::soft {

inline constexpr uint32_t kSign = 0x80000000;
inline constexpr uint32_t kInfinity = 0x7F800000;
inline constexpr uint32_t kNan = 0x7FC00000;
inline constexpr uint32_t kHidden = 0x00800000;

// The exponent field, and the mantissa of 24 bits with the hidden one, of normal floats.
[[gnu::always_inline]] inline int32_t exponent(uint32_t x) {
  return static_cast<int32_t>(x << 1 >> 24);
}
[[gnu::always_inline]] inline uint32_t mantissa(uint32_t x) { return (x << 8 | kSign) >> 8; }
[[gnu::always_inline]] inline bool is_normal(uint32_t x) {
  return static_cast<uint32_t>(exponent(x) - 1) < 254;
}

// Returns the float m * 2^(e - 157), with m rounded at bit 7. packed_at_an_end() also handles
// results that are denormal or infinite. REQUIRES: 2^30 <= m < 2^31.
[[gnu::noinline]] inline uint32_t packed_at_an_end(uint32_t sign, int32_t e, uint32_t m) {
  if (e >= 255) return sign | kInfinity;
  if (e < 1) {
    const int32_t right = 1 - e;
    m = right > 30 ? 1 : m >> right | (m << (32 - right) != 0 ? 1 : 0);
    e = 1;
  }
  m += 0x3F + (m >> 7 & 1);
  return sign + (static_cast<uint32_t>(e - 1) << 23) + (m >> 7);
}
[[gnu::always_inline]] inline uint32_t packed(uint32_t sign, int32_t e, uint32_t m) {
  if (static_cast<uint32_t>(e - 1) >= 253) return packed_at_an_end(sign, e, m);
  m += 0x3F + (m >> 7 & 1);
  return sign + (static_cast<uint32_t>(e - 1) << 23) + (m >> 7);
}

// Shifts m so that bit 30 is its highest, and lowers e by as much. REQUIRES: 0 < m < 2^31.
[[gnu::always_inline]] inline void normalize(int32_t& e, uint32_t& m) {
#if defined(ARENITE_THUMB_1)
  if (m >> 15 == 0) m <<= 16, e -= 16;
  if (m >> 23 == 0) m <<= 8, e -= 8;
  if (m >> 27 == 0) m <<= 4, e -= 4;
  if (m >> 29 == 0) m <<= 2, e -= 2;
  if (m >> 30 == 0) m <<= 1, --e;
#else
  const int left = __builtin_clz(m) - 1;
  m <<= left, e -= left;
#endif
}

// The product of two integers of 24 bits: its upper 24 bits, and the lower ones from bit 31 down.
struct Wide {
  uint32_t upper, lower;
};
[[gnu::always_inline]] inline Wide wide_product(uint32_t a, uint32_t b) {
#if defined(ARENITE_THUMB_1)
  const uint32_t a1 = a >> 12, b1 = b >> 12, a0 = a & 0xFFF, b0 = b & 0xFFF;
  const uint32_t middle = a1 * b0 + a0 * b1;
  const uint32_t lower = (a0 * b0 << 8) + (middle << 20);
  return {a1 * b1 + (middle >> 12) + (lower < middle << 20 ? 1 : 0), lower};
#else
  const uint64_t product = uint64_t{a << 8} * b;
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product)};
#endif
}

// Returns the upper 24 bits of the product of two mantissas, rounded, or 2^24. A product of 47 bits
// only is doubled first, and e is decremented.
[[gnu::always_inline]] inline uint32_t rounded_product(uint32_t a, uint32_t b, int32_t& e) {
  auto [m, rest] = wide_product(a, b);
  if (m < kHidden) m = m << 1 | rest >> 31, rest <<= 1, --e;
  uint32_t unused;
  return m + __builtin_add_overflow(rest, 0x7FFFFFFFu + (m & 1), &unused);
}

// product() for operands or products that are zero, denormal, infinite or NaN.
[[gnu::noinline]] inline uint32_t product_at_an_end(uint32_t a, uint32_t b) {
  const uint32_t sign = (a ^ b) & kSign;
  const uint32_t most = a << 1 > b << 1 ? a << 1 : b << 1,
                 least = a << 1 > b << 1 ? b << 1 : a << 1;
  if (most > kInfinity << 1 || (most == kInfinity << 1 && least == 0)) return kNan;
  if (most == kInfinity << 1) return sign | kInfinity;
  if (least == 0) return sign;
  int32_t e = 0;
  uint32_t m[2];
  for (int i = 0; i < 2; ++i) {
    const uint32_t x = i == 0 ? a : b;
    int32_t of_x = exponent(x);
    m[i] = of_x == 0 ? (x & (kHidden - 1)) << 7 : mantissa(x) << 7;
    of_x += of_x == 0 ? 1 : 0;
    normalize(of_x, m[i]);
    e += of_x;
  }
  const Wide wide = wide_product(m[0] >> 7, m[1] >> 7);
  const bool is_large = wide.upper >= kHidden;
  const uint32_t sticky = wide.lower << (is_large ? 7 : 8) != 0 ? 1 : 0;
  const uint32_t upper =
      is_large ? wide.upper << 7 | wide.lower >> 25 : wide.upper << 8 | wide.lower >> 24;
  return packed_at_an_end(sign, e - 127 + (is_large ? 1 : 0), upper | sticky);
}

[[gnu::always_inline]] inline uint32_t product(uint32_t a, uint32_t b) {
  int32_t e = exponent(a) + exponent(b) - 127;  // one less, as the hidden bit is added
  if (!is_normal(a) || !is_normal(b)) return product_at_an_end(a, b);
  const uint32_t m = rounded_product(mantissa(a), mantissa(b), e);
  if (static_cast<uint32_t>(e) >= 253) return product_at_an_end(a, b);
  return ((a ^ b) & kSign) + (static_cast<uint32_t>(e) << 23) + m;
}

// m >> right, with a sticky last bit for the bits shifted out.
// REQUIRES: the last 7 bits of m are 0.
[[gnu::always_inline]] inline uint32_t shifted_right(uint32_t m, int32_t right) {
  if (right <= 7) return m >> right;
  return right > 30 ? 1 : m >> right | (m << (32 - right) != 0 ? 1 : 0);
}

[[gnu::always_inline]] inline uint32_t sum(uint32_t a, uint32_t b) {
  if (b << 1 > a << 1) {
    const uint32_t larger = b;
    b = a, a = larger;
  }
  int32_t e = exponent(a), of_b = exponent(b);
  uint32_t m = mantissa(a) << 7, less = mantissa(b) << 7;
  if (e == 255 || of_b == 0) {
    if (a << 1 > kInfinity << 1) return kNan;
    if (e == 255) return (a ^ b) == kSign ? kNan : a;
    if (b << 1 == 0) return a << 1 == 0 ? a & b : a;
    less = (b & (kHidden - 1)) << 7, of_b = 1;
    if (e == 0) m = (a & (kHidden - 1)) << 7, e = 1;
  }
  less = shifted_right(less, e - of_b);
  if (((a ^ b) & kSign) == 0) {
    m += less;
    if (m >> 31 != 0) m = m >> 1 | (m & 1), ++e;
    if (m >> 30 == 0) normalize(e, m);  // a sum of denormals
  } else {
    m -= less;
    if (m == 0) return 0;
    normalize(e, m);
  }
  return packed(a & kSign, e, m);
}

[[gnu::always_inline]] inline uint32_t from_integer(int32_t x) {
  if (x == 0) return 0;
  const uint32_t sign = static_cast<uint32_t>(x) & kSign;
  uint32_t m = sign != 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
  int32_t e = 157;
  if (m >> 31 != 0) m >>= 1, ++e;
  normalize(e, m);
  return packed(sign, e, m);
}

// m / by with bit 30 as its highest, and a sticky last bit for the remainder.
// REQUIRES: by has 24 bits, and by <= m < 2 * by.
[[gnu::always_inline]] inline uint32_t mantissas_quotient(uint32_t m, uint32_t by) {
  uint32_t quotient = 1, rest = m - by;
  for (int i = 0; i < 3; ++i) {
    rest <<= 8;
    const uint32_t digits = rest / by;
    quotient = quotient << 8 | digits;
    rest -= digits * by;
  }
  return quotient << 6 | (rest != 0 ? 1 : 0);
}

inline uint32_t quotient(uint32_t a, uint32_t b) {
  const uint32_t sign = (a ^ b) & kSign;
  int32_t e = exponent(a), of_b = exponent(b);
  uint32_t m = mantissa(a) << 7, by = mantissa(b) << 7;
  if (!is_normal(a) || !is_normal(b)) {
    const uint32_t x = a << 1, y = b << 1;
    if (x > kInfinity << 1 || y > kInfinity << 1 || (x == y && (x == 0 || e == 255))) return kNan;
    if (e == 255 || y == 0) return sign | kInfinity;
    if (x == 0 || of_b == 255) return sign;
    if (e == 0) m = (a & (kHidden - 1)) << 7, e = 1, normalize(e, m);
    if (of_b == 0) by = (b & (kHidden - 1)) << 7, of_b = 1, normalize(of_b, by);
  }
  e += 127 - of_b;
  m >>= 7, by >>= 7;
  if (m < by) m <<= 1, --e;
  return packed(sign, e, mantissas_quotient(m, by));
}

// order() maps floats to integers of the same order, -0 to 0. neither_is_nan(): neither is NaN.
[[gnu::always_inline]] inline bool neither_is_nan(uint32_t a, uint32_t b) {
  return a << 1 <= kInfinity << 1 && b << 1 <= kInfinity << 1;
}
[[gnu::always_inline]] inline int32_t order(uint32_t x) {
  const int32_t magnitude = static_cast<int32_t>(x & ~kSign);
  return static_cast<int32_t>(x) < 0 ? -magnitude : magnitude;
}
[[gnu::always_inline]] inline uint32_t of_order(int32_t order) {
  return order < 0 ? kSign - static_cast<uint32_t>(order) : static_cast<uint32_t>(order);
}

// Each function below performs several operations and rounds each of them as if done separately.
// Intermediate values are positive, neither denormal nor infinite, and stored as Parts.
struct Parts {
  uint32_t m;  // 24 bits: the value is m * 2^(e - 150)
  int32_t e;   // the exponent field; may be out of range
};
[[gnu::always_inline]] inline Parts parts_of(uint32_t x) { return {mantissa(x), exponent(x)}; }
[[gnu::always_inline]] inline uint32_t bits_of(const Parts& x) {
  return (static_cast<uint32_t>(x.e - 1) << 23) + x.m;
}
[[gnu::always_inline]] inline Parts times(const Parts& x, const Parts& y) {
  int32_t e = x.e + y.e - 126;
  const uint32_t m = rounded_product(x.m, y.m, e);
  if (m >> 24 != 0) return {m >> 1, e + 1};
  return {m, e};
}
// x * y + c or, as a difference, c - x * y, which REQUIRES: x * y <= c / 2.
[[gnu::always_inline]] inline Parts times_plus(const Parts& x, const Parts& y, const Parts& c,
                                               bool is_difference) {
  const Parts product = times(x, y);
  uint32_t m = product.m << 7, other = c.m << 7;
  int32_t e = product.e;
  if (e > c.e) {
    other = shifted_right(other, e - c.e);
  } else {
    m = shifted_right(m, c.e - e);
    e = c.e;
  }
  if (is_difference) {
    m = other - m;
    if (m >> 30 == 0) m <<= 1, --e;
  } else {
    m += other;
    if (m >> 31 != 0) m = m >> 1 | (m & 1), ++e;
  }
  m = (m + 0x3F + (m >> 7 & 1)) >> 7;
  if (m >> 24 != 0) return {m >> 1, e + 1};
  return {m, e};
}

// Returns float(x) * a * b.
[[gnu::always_inline]] inline uint32_t scaled(int32_t x, uint32_t a, uint32_t b) {
  uint32_t m = x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x);
  const uint32_t sign = static_cast<uint32_t>(x) ^ a ^ b;
  // Products of such factors are neither denormal nor infinite.
  const auto is_near_one = [](uint32_t y) { return static_cast<uint32_t>(exponent(y) - 64) < 96; };
  if (m - 1 >= kHidden - 1 || !is_near_one(a) || !is_near_one(b)) {
    if (x == 0 && is_near_one(a) && is_near_one(b)) return (a ^ b) & kSign;
    return product(product(from_integer(x), a), b);
  }
  int32_t e = 157;
  normalize(e, m);
  return bits_of(times(times({m >> 7, e}, parts_of(a)), parts_of(b))) | (sign & kSign);
}

// Returns x * y rounded to an integer, as adding 1.5 * 2^23 does; at most 2^22 if it is finite.
[[gnu::always_inline]] inline int32_t rounded_product_of(uint32_t x, uint32_t y) {
  if (!is_normal(x) || !is_normal(y)) {
    if (x << 1 == 0 && y << 1 <= kInfinity << 1) return 0;
    return static_cast<int32_t>(sum(product(x, y), 0x4B400000) - 0x4B400000);
  }
  int32_t e = exponent(x) + exponent(y) - 126;
  const uint32_t m = rounded_product(mantissa(x), mantissa(y), e);
  const int32_t right = 150 - e;
  if (right < 2) return static_cast<int32_t>(x ^ y) < 0 ? -0x400000 : 0x400000;
  if (right > 25) return 0;
  uint32_t unused;
  uint32_t whole = m >> right;
  whole += __builtin_add_overflow(m << (32 - right), 0x7FFFFFFFu + (whole & 1), &unused);
  return static_cast<int32_t>((x ^ y) & kSign) < 0 ? -static_cast<int32_t>(whole)
                                                   : static_cast<int32_t>(whole);
}

constexpr Parts constant(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  return {(bits & (kHidden - 1)) | kHidden, static_cast<int32_t>(bits >> 23)};
}

// |x| log2(e) as the nearest integer, and its distance from that, up to a half, in units of 2^-32.
// A tie goes to the odd integer, since kernels round a sum with an odd integer to even.
struct Power {
  uint32_t whole, rest;
  bool is_above;  // |x| log2(e) is above the integer
};
[[gnu::always_inline]] inline Power power_of(uint32_t x) {
  const Parts y = times(parts_of(x), constant(0x1.715476p+0f));
  const int32_t right = 150 - y.e;
  const uint32_t whole = y.m >> right, rest = y.m << (32 - right);
  if (rest + (~whole & 1) > kSign) return {whole + 1, 0u - rest, false};
  return {whole, rest, true};
}

// integer_exp() (integer_attention.h) for x from -69 to -2^-8.
inline bool has_exponential(uint32_t x) { return x - 0xBB800000 <= 0xC28A0000 - 0xBB800000; }
inline uint32_t exponential(uint32_t x) {
  static constexpr Parts kC[] = {constant(0x1.3a02d2p-7f), constant(0x1.c9fc48p-5f),
                                 constant(0x1.ec0378p-3f), constant(0x1.62e12cp-1f),
                                 constant(1.0f)};
  const Power power = power_of(x);
  if (power.rest == 0) return (127 - power.whole) << 23;
  Parts f = {power.rest, 125};
  if (f.m >> 31 != 0) f.m >>= 1, ++f.e;
  normalize(f.e, f.m);
  f.m >>= 7;
  Parts p = kC[0];
  for (int i = 1; i < 5; ++i) p = times_plus(p, f, kC[i], power.is_above);
  return bits_of(p) - (power.whole << 23);
}

// exp(-|x|) for |x| from 2^-8 to 64, as XNNPACK's kernels for softmax and the sigmoid function
// compute it, with their coefficients.
inline bool has_decay(uint32_t x) { return static_cast<uint32_t>(exponent(x) - 119) < 14; }
inline uint32_t decay(uint32_t x) {
  static constexpr Parts kC[] = {constant(0x1.0F9F9Cp-7f), constant(0x1.573A1Ap-5f),
                                 constant(0x1.555A80p-3f), constant(0x1.FFFDC6p-2f),
                                 constant(0x1.FFFFF6p-1f), constant(1.0f)};
  constexpr auto kLog2 = __builtin_bit_cast(uint32_t, 0x1.62E400p-1f);
  constexpr auto kLog2Rest = __builtin_bit_cast(uint32_t, 0x1.7F7D1Cp-20f);
  uint32_t t = x & ~kSign;
  const uint32_t whole = power_of(t).whole;
  if (whole != 0) {
    const uint32_t n = from_integer(-static_cast<int32_t>(whole));
    t = sum(product(n, kLog2Rest), sum(product(n, kLog2), t));
  }
  if (t << 1 == 0) return (127 - whole) << 23;
  const Parts factor = parts_of(t & ~kSign);
  Parts p = kC[0];
  for (int i = 1; i < 6; ++i) p = times_plus(p, factor, kC[i], t >> 31 == 0);
  return bits_of(p) - (whole << 23);
}
inline uint32_t sigmoid(uint32_t x) {
  constexpr auto kOne = __builtin_bit_cast(uint32_t, 1.0f);
  const uint32_t f = decay(x), y = quotient(f, sum(f, kOne));
  return x >> 31 != 0 ? y : sum(kOne, y ^ kSign);
}

// GELU as XNNPACK's kernel computes it, with its coefficients, for x neither near zero nor near
// infinity: the error function is a quotient of polynomials whose terms are all positive.
inline bool has_gelu(uint32_t x) { return static_cast<uint32_t>(exponent(x) - 100) < 100; }
inline uint32_t gelu(uint32_t x) {
  static constexpr Parts kUpper[] = {constant(4.5835321316e-08f), constant(1.2609783880e-05f),
                                     constant(3.2973114867e-04f), constant(9.3065137044e-03f),
                                     constant(6.6972173750e-02f), constant(7.9788452387e-01f)};
  static constexpr Parts kLower[] = {constant(1.1988805682e-06f), constant(7.2267655923e-05f),
                                     constant(1.8622842617e-03f), constant(2.8431978077e-02f),
                                     constant(2.5060352683e-01f), constant(1.0f)};
  constexpr auto kMost = __builtin_bit_cast(uint32_t, 5.1158981323e+00f);
  constexpr auto kOne = __builtin_bit_cast(uint32_t, 1.0f);
  const uint32_t magnitude = x & ~kSign;
  const Parts near = parts_of(magnitude < kMost ? magnitude : kMost);
  const Parts square = times(near, near);
  Parts upper = kUpper[0], lower = kLower[0];
  for (int i = 1; i < 6; ++i) {
    upper = times_plus(upper, square, kUpper[i], false);
    lower = times_plus(lower, square, kLower[i], false);
  }
  upper = times(upper, near);
  int32_t e = upper.e - lower.e + 127;
  if (upper.m < lower.m) upper.m <<= 1, --e;
  const uint32_t erf = packed(x & kSign, e, mantissas_quotient(upper.m, lower.m));
  return product(x - kHidden, sum(erf, kOne));
}

}  // namespace arenite::soft
