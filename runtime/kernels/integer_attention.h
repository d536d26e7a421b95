// SPDX-License-Identifier: Apache-2.0
// Common parts of integer attention kernels (kernel_set.h): rounding and the exponential.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/cache_layout.h"
#include "core/float_bits.h"
#include "kernels/kernel_set.h"
#include "kernels/soft_float_bits.h"

namespace arenite {

// The number of query dimensions that are rounded, on the stack, at once.
inline constexpr size_t kIntegerDims = 32;

// Returns the largest integer that elements of a query with `dims` dimensions are rounded to, so
// that sums of products with keys stay within 32 bits.
constexpr float largest_query_step(size_t dims) {
  const size_t most = 0x7FFFFFFF / 128 / dims;
  return static_cast<float>(most < 0x7FFF ? most : 0x7FFF);
}
inline constexpr float kLargestWeightStep = 0x7FFF;
static_assert(kIntegerBlock * 0x7FFF < 0x7FFFFFFF / 128);

// Returns the steps that map `largest` to `most`. Rows below 1e-33 become zeros, so that no step is
// a denormal, which some vectors flush to zero.
inline RowSteps steps_up_to(float largest, float most) {
  if (largest < 1e-33f) return {0.0f, 1.0f};
  if (!is_finite(largest)) return {0.0f, NAN};
  return {most / largest, largest / most};
}

// Returns the steps that map `largest` to 127, for keys and values. Rows below 1e-35 become zeros.
inline RowSteps int8_steps(float largest) {
  constexpr float kMost = 127.0f;
  if (largest < 1e-35f) return {0.0f, 1.0f};
  if (!is_finite(largest)) return {0.0f, NAN};
  return {kMost / largest, largest / kMost};
}

// Returns bits whose lower 16 are x * per_unit, rounded to nearest even.
inline constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23: the sum's last bit is worth 1
inline uint32_t rounded_bits(float x, float per_unit) {
#if defined(ARENITE_SOFT_FLOATS)
  const auto bits_of = [](float y) { return bit_cast<uint32_t>(y); };
  return static_cast<uint32_t>(soft::rounded_product_of(bits_of(x), bits_of(per_unit)));
#else
  return bit_cast<uint32_t>(x * per_unit + kRoundingMagic);
#endif
}

inline float scaled(int32_t x, float a, float b) {
#if defined(ARENITE_SOFT_FLOATS)
  const auto bits_of = [](float y) { return bit_cast<uint32_t>(y); };
  return bit_cast<float>(soft::scaled(x, bits_of(a), bits_of(b)));
#else
  return static_cast<float>(x) * a * b;
#endif
}

// exp(x) = 2^n * 2^f for kLeastExponent <= x <= 0, with a polynomial for 2^f, |f| <= 1/2; the error
// is 3e-6. Callers take 0 for lesser x, so no result is a denormal, which some vectors flush.
inline constexpr float kLeastExponent = -69.0f;
struct ExpConstants {
  static constexpr float kLog2e = 0x1.715476p+0f;
  static constexpr float kMagic = 0x1.8000FEp23f;  // low bits of its sum with y become an exponent
  static constexpr float kC[] = {0x1.3a02d2p-7f, 0x1.c9fc48p-5f, 0x1.ec0378p-3f, 0x1.62e12cp-1f};
};
[[gnu::always_inline]] inline float integer_exp(float x) {
  using In = ExpConstants;
#if defined(ARENITE_SOFT_FLOATS)
  const uint32_t bits = bit_cast<uint32_t>(x);
  if (soft::has_exponential(bits)) return bit_cast<float>(soft::exponential(bits));
#endif
  const float y = x * In::kLog2e;
  const float n = y + In::kMagic;
  const float power = bit_cast<float>(bit_cast<uint32_t>(n) << 23);
  const float f = y - (n - In::kMagic);
  float p = In::kC[0] * f + In::kC[1];
  p = p * f + In::kC[2];
  p = p * f + In::kC[3];
  return (p * f + 1.0f) * power;
}

// Kernels for every CPU, in integer_attention.cc.
std::remove_pointer_t<IntegerExpSumKernel> integer_exp_sum;
std::remove_pointer_t<QuantizeKernel> integer_quantize;
std::remove_pointer_t<IntegerScoresKernel> integer_scores;
std::remove_pointer_t<IntegerValuesKernel> integer_values;

}  // namespace arenite
