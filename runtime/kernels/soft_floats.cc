// SPDX-License-Identifier: Apache-2.0
// Float sums, products, quotients and comparisons in integer arithmetic. Each is rounded to nearest
// even, as IEEE 754 requires, including denormals.
#include "kernels/soft_floats.h"

#if defined(ARENITE_SOFT_FLOATS)
#include "kernels/soft_float_bits.h"

#if !defined(__clang__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace soft = arenite::soft;

extern "C" {
uint32_t arenite_fadd(uint32_t a, uint32_t b) { return soft::sum(a, b); }
uint32_t arenite_fsub(uint32_t a, uint32_t b) { return soft::sum(a, b ^ soft::kSign); }
uint32_t arenite_fmul(uint32_t a, uint32_t b) { return soft::product(a, b); }
uint32_t arenite_fdiv(uint32_t a, uint32_t b) { return soft::quotient(a, b); }
uint32_t arenite_i2f(int32_t x) { return soft::from_integer(x); }
int arenite_fcmpeq(uint32_t a, uint32_t b) {
  return soft::neither_is_nan(a, b) && soft::order(a) == soft::order(b);
}
int arenite_fcmplt(uint32_t a, uint32_t b) {
  return soft::neither_is_nan(a, b) && soft::order(a) < soft::order(b);
}
int arenite_fcmple(uint32_t a, uint32_t b) {
  return soft::neither_is_nan(a, b) && soft::order(a) <= soft::order(b);
}
int arenite_fcmpgt(uint32_t a, uint32_t b) { return arenite_fcmplt(b, a); }
int arenite_fcmpge(uint32_t a, uint32_t b) { return arenite_fcmple(b, a); }
}
#endif
