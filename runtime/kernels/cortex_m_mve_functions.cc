// SPDX-License-Identifier: Apache-2.0
// Activations and exponentials for Cortex-M with vectors of floats. They have the bits of XNNPACK's
// scalar kernels: the same operations in the same order, each rounded by itself. Divisions are
// scalar, as vectors have none.
//
// Vectors flush denormal operands and results to zero. So each function is written once, for
// vectors and for scalars. If a denormal could change the result, the four elements are computed as
// scalars: is_easy() tells when, and comments say why.
#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_MVE_FLOATS)
#include <arm_mve.h>

#include <cmath>

#include "core/float_bits.h"

#if !defined(__clang__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite {
namespace {

// Each operation exists for a vector of four floats and for one float.
using Four = float32x4_t;
Four times(Four a, Four b) { return vmulq_f32(a, b); }
Four times(Four a, float b) { return vmulq_n_f32(a, b); }
Four plus(Four a, Four b) { return vaddq_f32(a, b); }
Four plus(Four a, float b) { return vaddq_n_f32(a, b); }
Four minus(Four a, float b) { return vsubq_n_f32(a, b); }
Four magnitude(Four a) { return vabsq_f32(a); }
Four clamped(Four a, float most) {
  return vmaxnmq_f32(vminnmq_f32(a, vdupq_n_f32(most)), vdupq_n_f32(-most));
}
Four over(Four a, Four b) {
  register Four quotient asm("q0") = a;
  register Four divisor asm("q1") = b;
  asm("vdiv.f32 s0, s0, s4\n"
      "vdiv.f32 s1, s1, s5\n"
      "vdiv.f32 s2, s2, s6\n"
      "vdiv.f32 s3, s3, s7"
      : "+w"(quotient)
      : "w"(divisor));
  return quotient;
}
Four power_of_bits(Four a) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(a), 23));
}
Four complement_where_positive(Four x, Four y) {
  return vpselq_f32(vaddq_n_f32(vnegq_f32(y), 1.0f), y, vcmpgtq_n_f32(x, 0.0f));
}
Four zero_below(Four, float, Four y) { return y; }

float times(float a, float b) { return a * b; }
float plus(float a, float b) { return a + b; }
float minus(float a, float b) { return a - b; }
float magnitude(float a) { return __builtin_fabsf(a); }
float clamped(float a, float most) {
  const float less = a > most ? most : a;
  return less < -most ? -most : less;
}
float over(float a, float b) { return a / b; }
float power_of_bits(float a) { return bit_cast<float>(bit_cast<uint32_t>(a) << 23); }
float complement_where_positive(float x, float y) { return x > 0.0f ? 1.0f - y : y; }
float zero_below(float x, float least, float y) { return x < least ? 0.0f : y; }

// Returns (... (x * c[0] + c[1]) * x + ...) + c[last].
template <typename Number, size_t kCount>
[[gnu::always_inline]] inline Number polynomial(Number x, const float (&c)[kCount]) {
  Number sum = plus(times(x, c[0]), c[1]);
#pragma GCC unroll 8
  for (size_t i = 2; i < kCount; ++i) sum = plus(times(sum, x), c[i]);
  return sum;
}

struct Gelu {
  // Half of an element near zero is a denormal. In the polynomials, products that vanish are
  // negligible in their sums.
  static bool is_easy(Four x) { return vminnmavq_f32(1.0f, x) >= 0x1p-120f; }

  template <typename Number>
  [[gnu::always_inline]] static Number of(Number x) {
    constexpr float kAlpha[] = {4.5835321316e-08f, 1.2609783880e-05f, 3.2973114867e-04f,
                                9.3065137044e-03f, 6.6972173750e-02f, 7.9788452387e-01f};
    constexpr float kBeta[] = {1.1988805682e-06f, 7.2267655923e-05f, 1.8622842617e-03f,
                               2.8431978077e-02f, 2.5060352683e-01f, 1.0f};
    const Number near = clamped(x, 5.1158981323e+00f);
    const Number square = times(near, near);
    const Number error_function =
        over(times(near, polynomial(square, kAlpha)), polynomial(square, kBeta));
    return times(times(x, 0.5f), plus(error_function, 1.0f));
  }
};

struct Tanh {
  // An element near zero is its own tanh. The polynomials are as above.
  static bool is_easy(Four x) { return vminnmavq_f32(1.0f, x) >= 0x1p-120f; }

  template <typename Number>
  [[gnu::always_inline]] static Number of(Number x) {
    constexpr float kAlpha[] = {1.4248920266e-08f, 2.1235626264e-05f, 3.5330520477e-03f,
                                1.3412411511e-01f, 1.0f};
    constexpr float kBeta[] = {8.1365948290e-07f, 3.3472978976e-04f, 2.6018999517e-02f,
                               4.6745735407e-01f, 1.0f};
    const Number near = clamped(x, 7.8522667885e+00f);
    const Number square = times(near, near);
    return over(times(near, polynomial(square, kAlpha)), polynomial(square, kBeta));
  }
};

// Constants of XNNPACK's exponential.
constexpr float kMagic = 0x1.8000FEp23f;  // low bits of a sum with it become an exponent
constexpr float kLog2High = 0x1.62E400p-1f, kLog2Low = 0x1.7F7D1Cp-20f;
constexpr float kVanishes = 0x1.5D589Ep6f;  // beyond it the exponential counts as 0
// Up to this magnitude powers are at least 2^-100, and products that vanish are negligible in their
// sums. The remainder of an element after multiples of log(2) is 0, at least 2^-50, or adds nothing
// to 1.
constexpr float kEasy = 69.0f;

struct Sigmoid {
  static bool is_easy(Four x) { return vmaxnmavq_f32(0.0f, x) <= kEasy; }

  template <typename Number>
  [[gnu::always_inline]] static Number of(Number x) {
    constexpr float kC[] = {-0x1.0F9F9Cp-7f, 0x1.573A1Ap-5f, -0x1.555A80p-3f, 0x1.FFFDC6p-2f,
                            -0x1.FFFFF6p-1f};
    const Number z = magnitude(x);
    Number n = plus(times(z, -0x1.715476p0f), kMagic);
    const Number power = power_of_bits(n);
    n = minus(n, kMagic);
    Number t = plus(times(n, kLog2High), z);
    t = plus(times(n, kLog2Low), t);
    const Number p = polynomial(t, kC);
    const Number e = plus(times(times(t, power), p), power);
    const Number y = zero_below(times(z, -1.0f), -kVanishes, over(e, plus(e, 1.0f)));
    return complement_where_positive(x, y);
  }
};

// exp(x) for x <= 0.
struct Exponential {
  static bool is_easy(Four x) { return vcmpltq_n_f32(x, -kEasy) == 0; }

  template <typename Number>
  [[gnu::always_inline]] static Number of(Number x) {
    constexpr float kC[] = {0x1.0F9F9Cp-7f, 0x1.573A1Ap-5f, 0x1.555A80p-3f, 0x1.FFFDC6p-2f,
                            0x1.FFFFF6p-1f};
    Number n = plus(times(x, 0x1.715476p0f), kMagic);
    const Number power = power_of_bits(n);
    n = minus(n, kMagic);
    Number t = plus(times(n, -kLog2High), x);
    t = plus(times(n, -kLog2Low), t);
    const Number p = polynomial(t, kC);
    return zero_below(x, -kVanishes, plus(times(times(t, power), p), power));
  }
};

template <typename Function>
[[gnu::always_inline]] inline void apply(size_t bytes, const float* x, float* y) {
  size_t count = bytes / sizeof(float);
  for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
    const Four four = vldrwq_f32(x);
    if (__builtin_expect(Function::is_easy(four), true)) {
      vstrwq_f32(y, Function::of(four));
    } else {
      for (size_t i = 0; i < kLanes; ++i) y[i] = Function::of(x[i]);
    }
  }
  for (size_t i = 0; i < count; ++i) y[i] = Function::of(x[i]);
}

}  // namespace

void mve_gelu(size_t bytes, const float* x, float* y) { apply<Gelu>(bytes, x, y); }
void mve_tanh(size_t bytes, const float* x, float* y) { apply<Tanh>(bytes, x, y); }
void mve_sigmoid(size_t bytes, const float* x, float* y) { apply<Sigmoid>(bytes, x, y); }

// sum = the even elements + the odd ones + the last count % 4 ones, in this order.
void mve_exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum) {
  const float largest = *max;
  float even = 0.0f, odd = 0.0f;
  size_t count = bytes / sizeof(float);
  for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
    const Four below = vsubq_n_f32(vldrwq_f32(x), largest);
    if (__builtin_expect(Exponential::is_easy(below), true)) {
      register Four four asm("q0") = Exponential::of(below);
      vstrwq_f32(y, four);
      asm("vadd.f32 %0, %0, s0\n"
          "vadd.f32 %1, %1, s1\n"
          "vadd.f32 %0, %0, s2\n"
          "vadd.f32 %1, %1, s3"
          : "+t"(even), "+t"(odd)
          : "w"(four));
      continue;
    }
    for (size_t i = 0; i < kLanes; ++i) {
      y[i] = Exponential::of(x[i] - largest);
      (i % 2 == 0 ? even : odd) += y[i];
    }
  }
  even += odd;
  for (size_t i = 0; i < count; ++i) even += y[i] = Exponential::of(x[i] - largest);
  *sum = even;
}

// The factor is at least 2^-32, as weights are at most 1, so products of elements of at least 2^-90
// are not denormals. A row with smaller elements or zeros is computed one element at a time.
bool mve_divide_row(size_t count, float factor, float* y) {
  constexpr int32_t kLeast = 0x12800000;  // the bits of 2^-90
  int32_t least = 0x7F7FFFFF;
  const float* x = y;
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[x]], #16\n"
      "vminnmav.f32 %[least], q0\n"
      "letp lr, 1b\n"
      "2:"
      : [x] "+r"(x), [least] "+r"(least)
      : [count] "r"(count)
      : "lr", "q0", "memory");
  if (least < kLeast) {
    uint32_t carries = 0;
    for (size_t i = 0; i < count; ++i) {
      y[i] = y[i] * factor + 0.0f;
      carries |= carry_of_not_finite(y[i]);
    }
    return carries >> 31 == 0;
  }
  uint32x4_t finite = vdupq_n_u32(0);  // sums of y * 0, which are NaN if a y is not finite
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[y]]\n"
      "vmul.f32 q0, q0, %[factor]\n"
      "vfma.f32 %q[finite], q0, %[zero]\n"
      "vstrw.32 q0, [%[y]], #16\n"
      "letp lr, 1b\n"
      "2:"
      : [y] "+r"(y), [finite] "+w"(finite)
      : [count] "r"(count), [factor] "r"(bit_cast<uint32_t>(factor)), [zero] "r"(0)
      : "lr", "q0", "memory");
  return vmaxvq_u32(0, finite) == 0;
}

}  // namespace arenite
#endif
