// SPDX-License-Identifier: Apache-2.0
// Sums and products of float rows, also complex ones, for Cortex-M with an FPU, with or without
// MVE, whose vectors would flush denormals to zero. One instruction loads or stores eight floats,
// where compilers use one per float. The results have the same bits as XNNPACK's scalar kernels.
#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_FPU_ROWS)

#if !defined(__clang__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite {
namespace {

// Applies an instruction to eight elements and to those of a second row, or to a constant.
#define ARENITE_EIGHT(op)                                                          \
  op " s0, s0, s8\n" op " s1, s1, s9\n" op " s2, s2, s10\n" op " s3, s3, s11\n" op \
     " s4, s4, s12\n" op " s5, s5, s13\n" op " s6, s6, s14\n" op " s7, s7, s15\n"
#define ARENITE_EIGHT_WITH(op)                                               \
  op " s0, s0, %[with]\n" op " s1, s1, %[with]\n" op " s2, s2, %[with]\n" op \
     " s3, s3, %[with]\n" op " s4, s4, %[with]\n" op " s5, s5, %[with]\n" op \
     " s6, s6, %[with]\n" op " s7, s7, %[with]\n"

template <bool kAdds>
[[gnu::always_inline]] inline void binary(size_t bytes, const float* a, const float* b, float* y) {
  const size_t count = bytes / sizeof(float);
  for (const float* const whole = a + count / 8 * 8; a != whole;) {
    asm volatile("vldm %[a]!, {s0-s7}\n"
                 "vldm %[b]!, {s8-s15}\n"
                 ".if %c[adds]\n" ARENITE_EIGHT("vadd.f32") ".else\n" ARENITE_EIGHT("vmul.f32")
                 ".endif\n"
                 "vstm %[y]!, {s0-s7}"
                 : [a] "+r"(a), [b] "+r"(b), [y] "+r"(y)
                 : [adds] "i"(kAdds)
                 : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12",
                   "s13", "s14", "s15", "memory");
  }
  for (size_t i = 0; i < count % 8; ++i) y[i] = kAdds ? a[i] + b[i] : a[i] * b[i];
}

template <bool kAdds>
[[gnu::always_inline]] inline void with_constant(size_t bytes, const float* a, float constant,
                                                 float* y) {
  const size_t count = bytes / sizeof(float);
  for (const float* const whole = a + count / 8 * 8; a != whole;) {
    asm volatile("vldm %[a]!, {s0-s7}\n"
                 ".if %c[adds]\n" ARENITE_EIGHT_WITH("vadd.f32") ".else\n"
                 ARENITE_EIGHT_WITH("vmul.f32") ".endif\n"
                 "vstm %[y]!, {s0-s7}"
                 : [a] "+r"(a), [y] "+r"(y)
                 : [adds] "i"(kAdds), [with] "t"(constant)
                 : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
  }
  for (size_t i = 0; i < count % 8; ++i) y[i] = kAdds ? a[i] + constant : a[i] * constant;
}

}  // namespace

void cortex_m_add(size_t bytes, const float* a, const float* b, float* y) {
  binary<true>(bytes, a, b, y);
}

void cortex_m_multiply(size_t bytes, const float* a, const float* b, float* y) {
  binary<false>(bytes, a, b, y);
}

void cortex_m_add_constant(size_t bytes, const float* a, const float* constant, float* y) {
  with_constant<true>(bytes, a, *constant, y);
}

void cortex_m_scale(size_t bytes, const float* a, const float* constant, float* y) {
  with_constant<false>(bytes, a, *constant, y);
}

void cortex_m_rotate(size_t bytes, const float* a, const float* b, float* y) {
  const size_t count = bytes / sizeof(float);
  const float* a_side = a + count;  // imaginary parts
  const float* b_side = b + count;
  float* y_side = y + count;
  for (const float* const whole = a + count / 4 * 4; a != whole;) {
    asm volatile(
        "vldm %[a]!, {s0-s3}\n"
        "vldm %[b]!, {s8-s11}\n"
        "vldm %[a_side]!, {s4-s7}\n"
        "vldm %[b_side]!, {s12-s15}\n"
        "vmul.f32 s16, s0, s8\n vmul.f32 s17, s1, s9\n"
        "vmul.f32 s18, s2, s10\n vmul.f32 s19, s3, s11\n"
        "vmul.f32 s0, s0, s12\n vmul.f32 s1, s1, s13\n"
        "vmul.f32 s2, s2, s14\n vmul.f32 s3, s3, s15\n"
        "vmls.f32 s16, s4, s12\n vmls.f32 s17, s5, s13\n"
        "vmls.f32 s18, s6, s14\n vmls.f32 s19, s7, s15\n"
        "vmla.f32 s0, s4, s8\n vmla.f32 s1, s5, s9\n"
        "vmla.f32 s2, s6, s10\n vmla.f32 s3, s7, s11\n"
        "vstm %[y]!, {s16-s19}\n"
        "vstm %[y_side]!, {s0-s3}"
        : [a] "+r"(a), [b] "+r"(b), [y] "+r"(y), [a_side] "+r"(a_side), [b_side] "+r"(b_side),
          [y_side] "+r"(y_side)
        :
        : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13",
          "s14", "s15", "s16", "s17", "s18", "s19", "memory");
  }
  for (size_t i = 0; i < count % 4; ++i) {
    const float real = a[i] * b[i] - a_side[i] * b_side[i];
    y_side[i] = a[i] * b_side[i] + a_side[i] * b[i];
    y[i] = real;
  }
}

void cortex_m_sum(size_t bytes, const float* x, float* sum) {
  float sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
  const size_t count = bytes / sizeof(float);
  for (const float* const whole = x + count / 4 * 4; x != whole;) {
    asm volatile(
        "vldm %[x]!, {s0-s3}\n"
        "vadd.f32 %[sum0], %[sum0], s0\n"
        "vadd.f32 %[sum1], %[sum1], s1\n"
        "vadd.f32 %[sum2], %[sum2], s2\n"
        "vadd.f32 %[sum3], %[sum3], s3"
        : [x] "+r"(x), [sum0] "+t"(sum0), [sum1] "+t"(sum1), [sum2] "+t"(sum2), [sum3] "+t"(sum3)
        :
        : "s0", "s1", "s2", "s3", "memory");
  }
  sum0 = (sum0 + sum1) + (sum2 + sum3);
  for (size_t i = 0; i < count % 4; ++i) sum0 += x[i];
  *sum += sum0;
}

}  // namespace arenite
#endif
