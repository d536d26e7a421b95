// SPDX-License-Identifier: Apache-2.0
// Integer attention (kernel_set.h) for Cortex-M with float vectors. Two rows, rounded to 16 bits,
// are multiplied by four keys or four columns of values at once. Loops are written in assembly:
// compilers move vectors and sums around, and do not use WLSTP and LETP, which end a loop within a
// vector. Vectors flush denormals to zero; each function explains why that does not matter.
#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_MVE_FLOATS)
#include <arm_mve.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/float_bits.h"
#include "kernels/integer_attention.h"

#if !defined(__clang__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite {
namespace {

constexpr size_t kHalves = 8;   // int16 elements of a vector
constexpr size_t kAtOnce = 16;  // of two vectors; rows are padded to a multiple with zeros

// Rows rounded to 16 bits: a range of dimensions of queries, or weights of a block of positions.
struct RoundedRows {
  alignas(8) int16_t numbers[kIntegerRows][kIntegerBlock];
};
static_assert(kIntegerDims == kIntegerBlock && kIntegerGroup == kHalves && kIntegerRows == kLanes);

// to [count] = x * per_unit, rounded. Products that are flushed to zero are below a half anyway:
// per_unit is at most 0x7FFF / 1e-33.
void round_row(const float* x, size_t count, float per_unit, int16_t* to) {
  for (size_t i = 0; count % kAtOnce != 0 && i < kIntegerBlock; i += kHalves) {
    vstrhq_s16(to + i, vdupq_n_s16(0));
  }
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[x]], #16\n"
      "vmul.f32 q0, q0, %[per_unit]\n"
      "vcvtn.s32.f32 q0, q0\n"
      "vstrh.32 q0, [%[to]], #8\n"
      "letp lr, 1b\n"
      "2:"
      : [x] "+r"(x), [to] "+l"(to)
      : [count] "r"(count), [per_unit] "r"(bit_cast<uint32_t>(per_unit))
      : "lr", "q0", "memory");
}

// Returns the bits of the largest magnitude. Those of infinity and NaN are larger than any other.
uint32_t largest_magnitude(const float* x, size_t count) {
  uint32_t largest = 0;
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[x]], #16\n"
      "vabs.f32 q0, q0\n"
      "vmaxv.u32 %[largest], q0\n"
      "letp lr, 1b\n"
      "2:"
      : [x] "+r"(x), [largest] "+r"(largest)
      : [count] "r"(count)
      : "lr", "q0", "memory");
  return largest;
}

// Whether magnitudes up to `largest`, given by its bits, have steps: `largest` must be finite and
// at least `least`. This takes one comparison.
[[gnu::always_inline]] inline bool has_steps(uint32_t largest, float least) {
  const uint32_t bits = bit_cast<uint32_t>(least);
  return largest - bits < 0x7F800000u - bits;
}
[[gnu::always_inline]] inline RowSteps steps_of_bits(uint32_t largest, float most) {
  const float number = bit_cast<float>(largest);
  if (!has_steps(largest, 1e-33f)) return steps_up_to(number, most);
  return {most / number, number / most};
}

// Multiplies weights, which are >= 0, by their scales, if any; returns the steps of their rounding.
// A product that is flushed to zero is negligible relative to 1e-33, below which all become zero.
RowSteps scale_and_find_steps(float* weights, const float* scales, size_t count) {
  uint32_t largest = 0;
  if (scales == nullptr) {
    return steps_of_bits(largest_magnitude(weights, count), kLargestWeightStep);
  }
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[weights]]\n"
      "vldrw.u32 q1, [%[scales]], #16\n"
      "vmul.f32 q0, q0, q1\n"
      "vstrw.32 q0, [%[weights]], #16\n"
      "vmaxv.u32 %[largest], q0\n"
      "letp lr, 1b\n"
      "2:"
      : [weights] "+r"(weights), [scales] "+r"(scales), [largest] "+r"(largest)
      : [count] "r"(count)
      : "lr", "q0", "q1", "memory");
  return steps_of_bits(largest, kLargestWeightStep);
}

// scale_and_find_steps() and round_row() for a whole block. Only four products go through memory.
RowSteps round_block(float* weights, const float* scales, int16_t* to) {
#define ARENITE_WEIGH(product, place)           \
  "vldrw.u32 " product ", [%[weights], #" place \
  "]\n"                                         \
  "vldrw.u32 q0, [%[scales], #" place           \
  "]\n"                                         \
  "vmul.f32 " product ", " product              \
  ", q0\n"                                      \
  "vmaxv.u32 %[largest], " product "\n"
#define ARENITE_ROUND(product, place)   \
  "vmul.f32 " product ", " product      \
  ", %[per_unit]\n"                     \
  "vcvtn.s32.f32 " product ", " product \
  "\n"                                  \
  "vstrh.32 " product ", [%[to], #" place "]\n"
  register float32x4_t product1 asm("q1");
  register float32x4_t product2 asm("q2");
  register float32x4_t product3 asm("q3");
  register float32x4_t product4 asm("q4");
  register float32x4_t product5 asm("q5");
  register float32x4_t product6 asm("q6");
  register float32x4_t product7 asm("q7");
  uint32_t largest = 0;
  asm volatile(ARENITE_WEIGH("q1", "0") "vstrw.32 q1, [%[weights]]\n" ARENITE_WEIGH("q1", "16")
                   ARENITE_WEIGH("q2", "32") ARENITE_WEIGH("q3", "48") ARENITE_WEIGH("q4", "64")
                       ARENITE_WEIGH("q5", "80") ARENITE_WEIGH("q6", "96")
                           ARENITE_WEIGH("q7", "112")
               : [largest] "+r"(largest), "=w"(product1), "=w"(product2), "=w"(product3),
                 "=w"(product4), "=w"(product5), "=w"(product6), "=w"(product7)
               : [weights] "r"(weights), [scales] "r"(scales)
               : "q0", "memory");
  const RowSteps steps = steps_of_bits(largest, kLargestWeightStep);
  asm volatile(
      "vldrw.u32 q0, [%[weights]]\n" ARENITE_ROUND("q0", "0") ARENITE_ROUND("q1", "8")
          ARENITE_ROUND("q2", "16") ARENITE_ROUND("q3", "24") ARENITE_ROUND("q4", "32")
              ARENITE_ROUND("q5", "40") ARENITE_ROUND("q6", "48") ARENITE_ROUND("q7", "56")
      : "+w"(product1), "+w"(product2), "+w"(product3), "+w"(product4), "+w"(product5),
        "+w"(product6), "+w"(product7)
      : [weights] "r"(weights), [to] "l"(to), [per_unit] "r"(bit_cast<uint32_t>(steps.per_unit))
      : "q0", "memory");
#undef ARENITE_WEIGH
#undef ARENITE_ROUND
  return steps;
}
static_assert(kIntegerBlock == 8 * kLanes);

// Sixteen elements each of two rows a and b, which may be the same.
struct RowPair {
  int16x8_t a[2], b[2];
};

#define ARENITE_KEY(sum_a, sum_b) \
  ".if %c[is_close]\n"            \
  "vldrb.s16 q0, [%[key]], #8\n"  \
  "vldrb.s16 q1, [%[key]], #8\n"  \
  ".else\n"                       \
  "vldrb.s16 q0, [%[key]]\n"      \
  "vldrb.s16 q1, [%[key], #8]\n"  \
  "add %[key], %[key_bytes]\n"    \
  ".endif\n"                      \
  "vmladav.s16 " sum_a            \
  ", q0, %q[a0]\n"                \
  "vmladava.s16 " sum_a           \
  ", q1, %q[a1]\n"                \
  "vmladav.s16 " sum_b            \
  ", q0, %q[b0]\n"                \
  "vmladava.s16 " sum_b ", q1, %q[b1]\n"
#define ARENITE_FOUR_KEYS  \
  ARENITE_KEY("r0", "r2")  \
  ARENITE_KEY("r4", "r6")  \
  ARENITE_KEY("r8", "r10") \
  "vmov q2[2], q2[0], r0, r8\n"                                    \
  "vmov q3[2], q3[0], r2, r10\n"                                   \
  ARENITE_KEY("r8", "r10")                                         \
  "vmov q2[3], q2[1], r4, r8\n"                                    \
  "vmov q3[3], q3[1], r6, r10\n"

// Computes scores of two rows of up to sixteen dimensions for a multiple of four keys.
template <bool kIsClose>
[[gnu::always_inline]] inline void whole_scores(const RowPair& rows, const int8_t*& key,
                                                size_t key_bytes, const float*& scales, size_t keys,
                                                const float* steps, float*& scores0,
                                                float*& scores1) {
  register size_t turns asm("lr") = keys / kLanes;
  asm volatile(
      "wls lr, lr, 2f\n"
      "1:\n" ARENITE_FOUR_KEYS
      "vldrw.u32 q0, [%[scales]], #16\n"
      "vcvt.f32.s32 q2, q2\n"
      "vcvt.f32.s32 q3, q3\n"
      "ldrd r0, r2, [%[steps]]\n"
      "vmul.f32 q2, q2, q0\n"
      "vmul.f32 q3, q3, q0\n"
      "vmul.f32 q2, q2, r0\n"
      "vmul.f32 q3, q3, r2\n"
      "vstrw.32 q2, [%[scores0]], #16\n"
      "vstrw.32 q3, [%[scores1]], #16\n"
      "le lr, 1b\n"
      "2:"
      : "+r"(turns), [key] "+l"(key), [scales] "+r"(scales), [scores0] "+r"(scores0),
        [scores1] "+r"(scores1)
      : [is_close] "i"(kIsClose), [key_bytes] "rI"(kIsClose ? 0 : key_bytes), [steps] "r"(steps),
        [a0] "w"(rows.a[0]), [a1] "w"(rows.a[1]), [b0] "w"(rows.b[0]), [b1] "w"(rows.b[1])
      : "r0", "r2", "r4", "r6", "r8", "r10", "q0", "q1", "q2", "q3", "memory");
}

// Returns the integer sums of products of two rows with four keys.
[[gnu::always_inline]] inline void sums_of_four(const RowPair& rows, const int8_t*& key,
                                                size_t key_bytes, int32x4_t& sums0,
                                                int32x4_t& sums1) {
  register int32x4_t first asm("q2");
  register int32x4_t second asm("q3");
  asm volatile(ARENITE_FOUR_KEYS
               : "=w"(first), "=w"(second), [key] "+l"(key)
               : [is_close] "i"(false), [key_bytes] "r"(key_bytes), [a0] "w"(rows.a[0]),
                 [a1] "w"(rows.a[1]), [b0] "w"(rows.b[0]), [b1] "w"(rows.b[1])
               : "r0", "r2", "r4", "r6", "r8", "r10", "q0", "q1", "memory");
  sums0 = first, sums1 = second;
}
#undef ARENITE_KEY
#undef ARENITE_FOUR_KEYS

// A range of dimensions of keys.
struct Keys {
  const int8_t* first;
  size_t bytes;  // from key to key
  const float* scales;
  size_t count;
  bool has_first, has_last;  // whether it has the first and the last dimension
};

// Adds the products of some dimensions to the scores of two rows, which may be the same. Scores are
// integers until the last dimensions have come.
[[gnu::noinline]] void scores_of_pair(const int16_t* a, const int16_t* b, const Keys& all,
                                      const float (&steps)[2], float* scores0, float* scores1) {
  const RowPair own = {{vldrhq_s16(a), vldrhq_s16(a + kHalves)},
                       {vldrhq_s16(b), vldrhq_s16(b + kHalves)}};
  const int8_t* key = all.first;
  const size_t key_bytes = all.bytes;
  const float* scales = all.scales;
  size_t keys = all.count;
  if (all.has_first && all.has_last) {
    if (key_bytes == kAtOnce) {
      whole_scores<true>(own, key, key_bytes, scales, keys, steps, scores0, scores1);
    } else {
      whole_scores<false>(own, key, key_bytes, scales, keys, steps, scores0, scores1);
    }
    keys %= kLanes;
  }
  const auto finished = [&](int32x4_t sums, float step) {
    return vmulq_n_f32(vmulq_f32(vcvtq_f32_s32(sums), vldrwq_f32(scales)), step);
  };
  for (size_t i = 0; i < keys; i += kLanes, scales += kLanes) {
    int32x4_t sums0, sums1;
    sums_of_four(own, key, key_bytes, sums0, sums1);
    const mve_pred16_t lanes = vctp32q(keys - i);
    auto* const to0 = reinterpret_cast<int32_t*>(scores0 + i);
    auto* const to1 = reinterpret_cast<int32_t*>(scores1 + i);
    if (!all.has_first) {
      sums0 = vaddq_s32(sums0, vldrwq_z_s32(to0, lanes));
      sums1 = vaddq_s32(sums1, vldrwq_z_s32(to1, lanes));
    }
    if (all.has_last) {
      sums0 = vreinterpretq_s32_f32(finished(sums0, steps[0]));
      sums1 = vreinterpretq_s32_f32(finished(sums1, steps[1]));
    }
    vstrwq_p_s32(to0, sums0, lanes);
    vstrwq_p_s32(to1, sums1, lanes);
  }
}

// The state of values_of_pair(), in the order in which it loads registers.
struct OutputPair {
  float step0, step1;
  size_t adds;
  float *output0, *output1;
  ptrdiff_t next;  // bytes from the last group of four columns to the first of the next four
  size_t columns;  // columns that are left
  // Bytes from group 1 to 2, and from 3 to 4; 0 if there is no such group, whose weights are then
  // zero.
  size_t second, fourth;
  size_t has_third;
};

// Computes outputs of two rows, which may be the same; `rows` are their weights. Four columns are
// summed at once. With `adds`, outputs are added by scalar instructions, as they may be denormals.
template <bool kIsWhole>
[[gnu::always_inline]] inline void values_of_pair(const int16_t* rows, const int8_t* values,
                                                  size_t group_bytes, OutputPair& pair) {
#define ARENITE_GROUP(sum, place)                                                  \
  "vldrw.u32 q0, [%[rows], #" place                                                \
  "]\n"                                                                            \
  "vldrw.u32 q1, [%[rows], #64 + " place                                           \
  "]\n"                                                                            \
  "vldrb.s16 q2, [%[values]]\n"                                                    \
  "vldrb.s16 q3, [%[values], #8]\n"                                                \
  "vldrb.s16 q4, [%[values], #16]\n"                                               \
  "vldrb.s16 q5, [%[values], #24]\n" sum " r0, q2, q0\n" sum " r2, q2, q1\n" sum   \
  " r4, q3, q0\n" sum " r6, q3, q1\n" sum " r8, q4, q0\n" sum " r10, q4, q1\n" sum \
  " r12, q5, q0\n" sum " lr, q5, q1\n"
#define ARENITE_NEXT(place)        \
  ".if %c[is_whole]\n"             \
  "add %[values], %[group]\n"      \
  ".else\n"                        \
  "ldr %[step], [%[pair], #" place \
  "]\n"                            \
  "add %[values], %[step]\n"       \
  ".endif\n"
  size_t step;
  asm volatile(
      "1:\n"
      ARENITE_GROUP("vmladav.s16", "0") ARENITE_NEXT("28")
      ARENITE_GROUP("vmladava.s16", "16")
      ".if %c[is_whole] == 0\n"
      "ldr %[step], [%[pair], #36]\n"
      "cmp %[step], #0\n"
      "beq 2f\n"
      ".endif\n"
      "add %[values], %[group]\n"
      ARENITE_GROUP("vmladava.s16", "32") ARENITE_NEXT("32")
      ARENITE_GROUP("vmladava.s16", "48")
      "2: vmov q0[2], q0[0], r0, r8\n"
      "vmov q0[3], q0[1], r4, r12\n"
      "vmov q1[2], q1[0], r2, r10\n"
      "vmov q1[3], q1[1], r6, lr\n"
      "ldm %[pair], {r0, r2, r4, r6, r8, r10, r12}\n"
      "vcvt.f32.s32 q0, q0\n"
      "vcvt.f32.s32 q1, q1\n"
      "vmul.f32 q0, q0, r0\n"
      "vmul.f32 q1, q1, r2\n"
      "add %[values], r10\n"
      "cbz r4, 3f\n"
      "vldrw.u32 q2, [r6]\n"
      "vldrw.u32 q3, [r8]\n"
      "vadd.f32 s0, s8, s0\n vadd.f32 s1, s9, s1\n"
      "vadd.f32 s2, s10, s2\n vadd.f32 s3, s11, s3\n"
      "vadd.f32 s4, s12, s4\n vadd.f32 s5, s13, s5\n"
      "vadd.f32 s6, s14, s6\n vadd.f32 s7, s15, s7\n"
      "3: vctp.32 r12\n"
      "vpstt\n"
      "vstrwt.32 q0, [r6], #16\n"
      "vstrwt.32 q1, [r8], #16\n"
      "strd r6, r8, [%[pair], #12]\n"
      "subs r12, #4\n"
      "str r12, [%[pair], #24]\n"
      "bhi 1b"
      : [values] "+l"(values), [step] "=&r"(step)
      : [is_whole] "i"(kIsWhole), [rows] "r"(rows), [group] "r"(group_bytes), [pair] "r"(&pair)
      : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "p0",
        "cc", "memory");
#undef ARENITE_GROUP
#undef ARENITE_NEXT
}
static_assert(sizeof(OutputPair) == 10 * sizeof(size_t));

[[gnu::noinline]] void values_of_pair(const int16_t* rows, const int8_t* values, size_t columns,
                                      size_t groups, OutputPair& pair) {
  const size_t group_bytes = columns * kHalves;
  const size_t passed = groups == 0 ? 0 : groups - 1;
  pair.columns = columns;
  pair.next =
      static_cast<ptrdiff_t>(kLanes * kHalves) - static_cast<ptrdiff_t>(passed * group_bytes);
  if (groups == kIntegerBlock / kHalves) {
    values_of_pair<true>(rows, values, group_bytes, pair);
    return;
  }
  pair.second = groups > 1 ? group_bytes : 0;
  pair.fourth = groups > 3 ? group_bytes : 0;
  pair.has_third = groups > 2;
  values_of_pair<false>(rows, values, group_bytes, pair);
}

}  // namespace

// Denormals do not matter: results below the reach of exp are replaced by 0, and small differences
// add nothing to 1.
void mve_integer_exp_sum(size_t bytes, const float* x, const float* range, float* y, float* sum) {
  using In = ExpConstants;
  const float largest = range[1];
  const auto weights = [&](float32x4_t below) {
    const float32x4_t z = vmulq_n_f32(below, In::kLog2e);
    const float32x4_t n = vaddq_n_f32(z, In::kMagic);
    const float32x4_t power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n), 23));
    const float32x4_t f = vsubq_f32(z, vsubq_n_f32(n, In::kMagic));
    float32x4_t p = vaddq_n_f32(vmulq_n_f32(f, In::kC[0]), In::kC[1]);
    p = vaddq_n_f32(vmulq_f32(p, f), In::kC[2]);
    p = vaddq_n_f32(vmulq_f32(p, f), In::kC[3]);
    p = vmulq_f32(vaddq_n_f32(vmulq_f32(p, f), 1.0f), power);
    return vdupq_m_n_f32(p, 0.0f, vcmpltq_n_f32(below, kLeastExponent));
  };
  const auto bits_of = [](float number) { return bit_cast<uint32_t>(number); };
  float even = 0.0f, odd = 0.0f;
  size_t count = bytes / sizeof(float);
  if (!(range[0] - largest < kLeastExponent)) {
    register size_t turns asm("lr") = count / kLanes;
    asm volatile(
        "wls lr, lr, 2f\n"
        "1: vldrw.u32 q0, [%[x]], #16\n"
        "vsub.f32 q0, q0, %[largest]\n"
        "vmul.f32 q0, q0, %[log2e]\n"
        "vadd.f32 q1, q0, %[magic]\n"
        "vshl.i32 q2, q1, #23\n"
        "vsub.f32 q1, q1, %[magic]\n"
        "vsub.f32 q0, q0, q1\n"
        "vmul.f32 q1, q0, %[c0]\n"
        "vadd.f32 q1, q1, %[c1]\n"
        "vmul.f32 q1, q1, q0\n"
        "vadd.f32 q1, q1, %[c2]\n"
        "vmul.f32 q1, q1, q0\n"
        "vadd.f32 q1, q1, %[c3]\n"
        "vmul.f32 q1, q1, q0\n"
        "vadd.f32 q1, q1, %[one]\n"
        "vmul.f32 q0, q1, q2\n"
        "vadd.f32 %[even], %[even], s0\n"
        "vadd.f32 %[odd], %[odd], s1\n"
        "vadd.f32 %[even], %[even], s2\n"
        "vadd.f32 %[odd], %[odd], s3\n"
        "vstrw.32 q0, [%[y]], #16\n"
        "le lr, 1b\n"
        "2:"
        : "+r"(turns), [x] "+r"(x), [y] "+r"(y), [even] "+t"(even), [odd] "+t"(odd)
        : [largest] "r"(bits_of(largest)), [log2e] "r"(bits_of(In::kLog2e)),
          [magic] "r"(bits_of(In::kMagic)), [c0] "r"(bits_of(In::kC[0])),
          [c1] "r"(bits_of(In::kC[1])), [c2] "r"(bits_of(In::kC[2])), [c3] "r"(bits_of(In::kC[3])),
          [one] "r"(bits_of(1.0f))
        : "q0", "q1", "q2", "memory");
    count %= kLanes;
  }
  for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
    const float32x4_t four = weights(vsubq_n_f32(vldrwq_f32(x), largest));
    vstrwq_f32(y, four);
    even += y[0], odd += y[1], even += y[2], odd += y[3];
  }
  if (count != 0) {
    const mve_pred16_t lanes = vctp32q(count);
    vstrwq_p_f32(y, weights(vsubq_n_f32(vldrwq_z_f32(x, lanes), largest)), lanes);
  }
  if (count >= 2) even += y[0], odd += y[1];
  *sum = even + odd + (count % 2 != 0 ? y[count - 1] : 0.0f);
}

void mve_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes) {
  const size_t key_bytes = integer_key_bytes(dims);
  const size_t stride = scores_stride_bytes / sizeof(float);
  RoundedRows rounded;
  for (size_t begin = 0; begin < dims; begin += kIntegerDims) {
    const size_t count = dims - begin < kIntegerDims ? dims - begin : kIntegerDims;
    for (size_t r = 0; r < rows; ++r) {
      round_row(query + r * query_stride_bytes / sizeof(float) + begin, count,
                query_rows[r].per_unit, rounded.numbers[r]);
    }
    for (size_t i = 0; i < count; i += kAtOnce) {
      const Keys part = {key + begin + i, key_bytes,
                         key_scales,      keys,
                         begin + i == 0,  begin + i + kAtOnce >= dims};
      for (size_t r = 0; r < rows; r += 2) {
        const size_t next = r + 1 < rows ? r + 1 : r;
        scores_of_pair(rounded.numbers[r] + i, rounded.numbers[next] + i, part,
                       {query_rows[r].step, query_rows[next].step}, scores + r * stride,
                       scores + next * stride);
      }
    }
  }
}

void mve_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds) {
  RoundedRows rounded;
  RowSteps steps[kIntegerRows];
  for (size_t r = 0; r < rows; ++r, weights += weights_stride_bytes / sizeof(float)) {
    if (positions == kIntegerBlock && scales != nullptr) {
      steps[r] = round_block(weights, scales, rounded.numbers[r]);
      continue;
    }
    steps[r] = scale_and_find_steps(weights, scales, positions);
    round_row(weights, positions, steps[r].per_unit, rounded.numbers[r]);
  }
  if (rows % 2 != 0) {
    std::memcpy(rounded.numbers[rows], rounded.numbers[rows - 1], sizeof(rounded.numbers[0]));
  }
  const size_t groups = (positions + kHalves - 1) / kHalves;
  const size_t stride = output_stride_bytes / sizeof(float);
  for (size_t r = 0; r < rows; r += 2) {
    const size_t next = r + 1 < rows ? r + 1 : r;
    OutputPair pair;
    pair.step0 = steps[r].step, pair.step1 = steps[next].step;
    pair.adds = adds;
    pair.output0 = output + r * stride, pair.output1 = output + next * stride;
    values_of_pair(rounded.numbers[r], reinterpret_cast<const int8_t*>(values), columns, groups,
                   pair);
  }
}

// Products that are flushed to zero are below a half anyway, as scales are at least 1e-35 / 127.
float mve_round_row(size_t count, const float* x, size_t apart, int8_t* y) {
  const uint32_t largest = largest_magnitude(x, count);
  const float number = bit_cast<float>(largest);
  const RowSteps steps =
      has_steps(largest, 1e-35f) ? RowSteps{127.0f / number, number / 127.0f} : int8_steps(number);
  const uint32_t per_unit = bit_cast<uint32_t>(steps.per_unit);
  if (apart == 1) {
    asm volatile(
        "wlstp.32 lr, %[count], 2f\n"
        "1: vldrw.u32 q0, [%[x]], #16\n"
        "vmul.f32 q0, q0, %[per_unit]\n"
        "vcvtn.s32.f32 q0, q0\n"
        "vstrb.32 q0, [%[y]], #4\n"
        "letp lr, 1b\n"
        "2:"
        : [x] "+r"(x), [y] "+l"(y)
        : [count] "r"(count), [per_unit] "r"(per_unit)
        : "lr", "q0", "memory");
  } else {
    const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), apart);
    asm volatile(
        "wlstp.32 lr, %[count], 2f\n"
        "1: vldrw.u32 q0, [%[x]], #16\n"
        "vmul.f32 q0, q0, %[per_unit]\n"
        "vcvtn.s32.f32 q0, q0\n"
        "vstrb.32 q0, [%[y], %q[places]]\n"
        "add %[y], %[next]\n"
        "letp lr, 1b\n"
        "2:"
        : [x] "+r"(x), [y] "+r"(y)
        : [count] "r"(count), [per_unit] "r"(per_unit), [places] "w"(places),
          [next] "r"(apart * kLanes)
        : "lr", "q0", "memory");
  }
  return steps.step;
}

RowSteps mve_query_steps(size_t count, const float* x) {
  return steps_of_bits(largest_magnitude(x, count), largest_query_step(count));
}

}  // namespace arenite
#endif
