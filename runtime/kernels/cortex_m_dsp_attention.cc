// SPDX-License-Identifier: Apache-2.0
// Integer attention (kernel_set.h) for Cortex-M with the DSP extension. Rows are rounded to pairs;
// keys and values are widened during the product. Four interleaved rows are multiplied by one
// column at once, a single row by four.
#include "kernels/cortex_m_dsp.h"

#if defined(ARENITE_HAVE_DSP)
#include <cstring>

#include "core/float_bits.h"

namespace arenite {
namespace {

// Rows rounded to pairs: a range of dimensions of queries, or weights of a block of positions.
struct RoundedRows {
  Pair zeros[kLanes] = {};  // initial sums of four rows
  Pair pairs[kLanes * kIntegerBlock / 2];
  Pair* end;
};
static_assert(kIntegerDims == kIntegerBlock && kIntegerRows == kLanes);

// Rounds a row to pairs, which are stored `step` pairs apart, padded with zeros to a multiple of
// eight elements. Returns their end.
[[gnu::noinline]] Pair* round_row(const float* x, size_t count, float per_unit, size_t step,
                                  Pair* to) {
  Pair even, odd;
  const Pair* const end = to + (count + 7) / 8 * 4 * step;
  for (const float* const whole = x + count / 4 * 4; x != whole; to += 2 * step) {
    round_four(x, per_unit, even, odd);
    to[0] = even;
    to[step] = odd;
  }
  for (count %= 4; to != end; count = 0, to += 2 * step) {
    float rest[4] = {};
    for (size_t i = 0; i < count; ++i) rest[i] = x[i];
    const float* four = rest;
    round_four(four, per_unit, even, odd);
    to[0] = even;
    to[step] = odd;
  }
  return to;
}

// Rounds a single row, or three or four rows, interleaved as four; the last of three is repeated.
template <typename PerUnit>
void round_rows(size_t rows, const float* x, size_t stride, size_t count, PerUnit per_unit,
                RoundedRows& rounded) {
  const size_t step = rows == 1 ? 1 : kLanes;
  for (size_t i = 0; i < step; ++i) {
    const size_t r = i < rows ? i : rows - 1;
    rounded.end = round_row(x + r * stride, count, per_unit(r), step, rounded.pairs + i);
  }
  rounded.end -= step - 1;  // the end of the first row
}

// Multiplies four bytes of a column by four rows and adds to the sums r9 to r12.
#define ARENITE_FOUR_BYTES            \
  "sxtb16 %[pair], %[word]\n"         \
  "ldm %[row]!, {r4, r5, r6, r8}\n"   \
  "smlad r9, %[pair], r4, r9\n"       \
  "smlad r10, %[pair], r5, r10\n"     \
  "smlad r11, %[pair], r6, r11\n"     \
  "smlad r12, %[pair], r8, r12\n"     \
  "sxtb16 %[pair], %[word], ror #8\n" \
  "ldm %[row]!, {r4, r5, r6, r8}\n"   \
  "smlad r9, %[pair], r4, r9\n"       \
  "smlad r10, %[pair], r5, r10\n"     \
  "smlad r11, %[pair], r6, r11\n"     \
  "smlad r12, %[pair], r8, r12\n"

// Returns the sums of products of four rows with an int8 column. Eight elements of the column are
// contiguous; the next ones are `group` bytes after the second four. Registers are assigned by
// hand: compilers would move other code of the column loop between these instructions.
[[gnu::always_inline]] inline Sums multiply_rows(const std::byte* column, size_t group,
                                                 const RoundedRows& rounded) {
  register int32_t sum0 asm("r9");
  register int32_t sum1 asm("r10");
  register int32_t sum2 asm("r11");
  register int32_t sum3 asm("r12");
  const Pair* row = rounded.zeros;
  uint32_t word, pair;
  asm volatile(
      "ldm %[row]!, {r9, r10, r11, r12}\n"
      "1: ldr %[word], [%[column]], #4\n" ARENITE_FOUR_BYTES
      "ldr %[word], [%[column]]\n"
      "add %[column], %[group]\n" ARENITE_FOUR_BYTES
      "cmp %[row], %[end]\n"
      "bne 1b"
      : "=&r"(sum0), "=&r"(sum1), "=&r"(sum2),
        "=&r"(sum3), [column] "+r"(column), [row] "+r"(row), [word] "=&r"(word), [pair] "=&r"(pair)
      : [group] "rI"(group), [end] "r"(rounded.end)
      : "r4", "r5", "r6", "r8", "cc", "memory");
  return {{sum0, sum1, sum2, sum3}};
}

// to [4] = the sums of products of one row with four columns, `step` words apart.
[[gnu::noinline]] void multiply_row(const uint32_t* from, size_t step, size_t group,
                                    const RoundedRows& rounded, int32_t* to) {
  const size_t next = group - 3 * step;
  Sums sums = {};
  const Pair* row = rounded.pairs;
  do {
    Pair row02, row13, row46, row57;
    load_two<Pair, 8>(row, row02, row13);
    load_two<Pair, 8>(row, row46, row57);
    const auto add = [&](int32_t& sum, size_t further) ARENITE_INLINE {
      const uint32_t first = from[0], second = from[1];
      from += further;
      sum = dot(even_bytes(first), row02, sum);
      sum = dot(odd_bytes(first), row13, sum);
      sum = dot(even_bytes(second), row46, sum);
      sum = dot(odd_bytes(second), row57, sum);
    };
    add(sums.of[0], step), add(sums.of[1], step), add(sums.of[2], step), add(sums.of[3], next);
  } while (row != rounded.end);
  for_first(kLanes, [&](size_t i) ARENITE_INLINE { to[i] = sums.of[i]; });
}

// Turns a sum over some dimensions into a score. With `adds`, adds the sum over previous
// dimensions; until `is_last` the score is an integer.
struct ScorePart {
  bool adds, is_last;

  void take(int32_t sum, float scale, float step, float& score) const {
    const int32_t before = adds ? bit_cast<int32_t>(score) : 0;
    sum = static_cast<int32_t>(static_cast<uint32_t>(before) + static_cast<uint32_t>(sum));
    score = is_last ? static_cast<float>(sum) * scale * step : bit_cast<float>(sum);
  }
  bool is_whole() const { return is_last && !adds; }
};

[[gnu::noinline]] void scores_of_row(size_t keys, size_t words, const RoundedRows& rounded,
                                     const std::byte* key, const float* scales, float step,
                                     ScorePart part, float* scores) {
  const auto* at = reinterpret_cast<const uint32_t*>(key);
  for (size_t i = 0; i < keys; i += kLanes, at += kLanes * words) {
    int32_t sums[kLanes];
    multiply_row(at, words, 2, rounded, sums);
    if (part.is_whole() && i + kLanes <= keys) {
      for_first(kLanes, [&](size_t k) ARENITE_INLINE {
        *scores++ = static_cast<float>(sums[k]) * *scales++ * step;
      });
      continue;
    }
    for (size_t k = 0; k < kLanes && i + k < keys; ++k) {
      part.take(sums[k], *scales++, step, *scores++);
    }
  }
}

// The epilogue of sums of three or four rows. Without a fourth row, the third is written twice.
struct FourRows {
  float step0, step1, step2, step3;
  size_t stride, last;  // floats from row to row, and from the third to the fourth

  FourRows(size_t rows, const RowSteps* steps, size_t stride_in)
      : step0(steps[0].step),
        step1(steps[1].step),
        step2(steps[2].step),
        step3(steps[rows == kLanes ? 3 : 2].step),
        stride(stride_in),
        last(rows == kLanes ? stride_in : 0) {}
};

#if defined(__ARM_FP)
// Keeps a value in a float register between products, which need the integer registers.
float hold(size_t number) { return bit_cast<float>(static_cast<uint32_t>(number)); }
size_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

// scores_of_rows() for keys whose bytes are a multiple of 16, with all dimensions at once.
[[gnu::noinline]] void whole_scores_of_rows(size_t keys, FourRows rows, const RoundedRows& rounded,
                                            const std::byte* key, const float* scales,
                                            float* scores) {
  uint32_t row, word, pair;
  asm volatile(
      "0: vmov %[row], %[zeros]\n"
      "ldm %[row]!, {r9, r10, r11, r12}\n"
      "1: ldr %[word], [%[key]], #4\n" ARENITE_FOUR_BYTES
      "ldr %[word], [%[key]], #4\n" ARENITE_FOUR_BYTES
      "ldr %[word], [%[key]], #4\n" ARENITE_FOUR_BYTES
      "ldr %[word], [%[key]], #4\n" ARENITE_FOUR_BYTES
      "cmp %[row], %[end]\n"
      "bne 1b\n"
      "vmov s0, s1, r9, r10\n"
      "vmov s2, s3, r11, r12\n"
      "vmov r4, %[to_scale]\n"
      "add r4, %[scores]\n"
      "vldr s4, [r4]\n"
      "vmov r5, %[stride]\n"
      "add r4, %[scores], r5\n"
      "add r5, r4\n"
      "vmov r6, %[last]\n"
      "add r6, r5\n"
      "vcvt.f32.s32 s0, s0\n"
      "vcvt.f32.s32 s1, s1\n"
      "vcvt.f32.s32 s2, s2\n"
      "vcvt.f32.s32 s3, s3\n"
      "vmul.f32 s0, s0, s4\n"
      "vmul.f32 s1, s1, s4\n"
      "vmul.f32 s2, s2, s4\n"
      "vmul.f32 s3, s3, s4\n"
      "vmul.f32 s0, s0, %[step0]\n"
      "vmul.f32 s1, s1, %[step1]\n"
      "vmul.f32 s2, s2, %[step2]\n"
      "vmul.f32 s3, s3, %[step3]\n"
      "vstm %[scores]!, {s0}\n"
      "vstr s1, [r4]\n"
      "vstr s2, [r5]\n"
      "vstr s3, [r6]\n"
      "vmov r4, %[scores_end]\n"
      "cmp %[scores], r4\n"
      "bne 0b"
      : [key] "+r"(key), [scores] "+r"(scores), [row] "=&r"(row), [word] "=&r"(word),
        [pair] "=&r"(pair)
      : [end] "r"(rounded.end), [zeros] "t"(hold(address(rounded.zeros))),
        [to_scale] "t"(hold(address(scales) - address(scores))),
        [stride] "t"(hold(rows.stride * sizeof(float))),
        [last] "t"(hold(rows.last * sizeof(float))), [scores_end] "t"(hold(address(scores + keys))),
        [step0] "t"(rows.step0), [step1] "t"(rows.step1), [step2] "t"(rows.step2),
        [step3] "t"(rows.step3)
      : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "s0", "s1", "s2", "s3", "s4", "cc",
        "memory");
}
#endif

[[gnu::noinline]] void scores_of_rows(size_t keys, size_t key_bytes, FourRows rows,
                                      const RoundedRows& rounded, const std::byte* key,
                                      const float* scales, ScorePart part, float* scores) {
#if defined(__ARM_FP)
  if (part.is_whole() && key_bytes % 16 == 0) {
    return whole_scores_of_rows(keys, rows, rounded, key, scales, scores);
  }
#endif
  for (const float* const end = scales + keys; scales != end; key += key_bytes) {
    const Sums sums = multiply_rows(key, 4, rounded);
    const float scale = *scales++;
    float* const second = scores + rows.stride;
    float* const third = second + rows.stride;
    part.take(sums.of[0], scale, rows.step0, *scores++);
    part.take(sums.of[1], scale, rows.step1, *second);
    part.take(sums.of[2], scale, rows.step2, *third);
    if (rows.last != 0) part.take(sums.of[3], scale, rows.step3, third[rows.last]);
  }
}

// Scores of one row, or of three or four.
[[gnu::always_inline]] inline void scores_of_block(size_t rows, size_t keys, size_t dims,
                                                   const float* query, size_t query_stride,
                                                   const RowSteps* steps, const int8_t* key,
                                                   const float* key_scales, float* scores,
                                                   size_t stride) {
  RoundedRows rounded;
  const size_t key_bytes = integer_key_bytes(dims);
  for (size_t begin = 0; begin < dims; begin += kIntegerDims) {
    const size_t left = dims - begin;
    round_rows(
        rows, query + begin, query_stride, left < kIntegerDims ? left : kIntegerDims,
        [&](size_t r) { return steps[r].per_unit; }, rounded);
    const auto* const at = reinterpret_cast<const std::byte*>(key + begin);
    const ScorePart part = {begin != 0, left <= kIntegerDims};
    if (rows == 1) {
      scores_of_row(keys, key_bytes / sizeof(uint32_t), rounded, at, key_scales, steps->step, part,
                    scores);
    } else {
      scores_of_rows(keys, key_bytes, {rows, steps, stride}, rounded, at, key_scales, part, scores);
    }
  }
}

// Multiplies weights by their scales, if any, and returns the steps to which they are rounded.
[[gnu::noinline]] RowSteps scale_and_find_steps(float* weights, const float* scales, size_t count) {
#if defined(ARENITE_HAVE_NUMERIC_MAXMIN)
  float largest = 0.0f, all = 0.0f;
  const auto meet = [&](float weight) ARENITE_INLINE {
    largest = __builtin_fmaxf(largest, weight);
    all += weight;  // finite, as scales are at most a 127th of a float
  };
  const float* const whole = scales == nullptr ? weights : weights + count / 4 * 4;
  if (scales != nullptr) count %= 4;
  while (weights != whole) {
    register float w0 asm("s0");
    register float w1 asm("s1");
    register float w2 asm("s2");
    register float w3 asm("s3");
    asm volatile(
        "vldm %4, {s0-s3}\n"
        "vldm %5!, {s4-s7}\n"
        "vmul.f32 s0, s0, s4\n"
        "vmul.f32 s1, s1, s5\n"
        "vmul.f32 s2, s2, s6\n"
        "vmul.f32 s3, s3, s7\n"
        "vstm %4!, {s0-s3}"
        : "=t"(w0), "=t"(w1), "=t"(w2), "=t"(w3), "+r"(weights), "+r"(scales)
        :
        : "s4", "s5", "s6", "s7", "memory");
    meet(w0), meet(w1), meet(w2), meet(w3);
  }
  for (size_t i = 0; i < count; ++i) {
    if (scales != nullptr) weights[i] *= scales[i];
    meet(weights[i]);
  }
  return steps_up_to(is_finite(all) ? largest : all, kLargestWeightStep);
#else
  uint32_t largest = 0;  // bits of floats that are not negative are ordered like the floats
  for (size_t i = 0; i < count; ++i) {
    if (scales != nullptr) weights[i] *= scales[i];
    const auto bits = bit_cast<uint32_t>(weights[i]);
    largest = bits > largest ? bits : largest;
  }
  return steps_up_to(bit_cast<float>(largest), kLargestWeightStep);
#endif
}

[[gnu::noinline]] void values_of_row(size_t columns, const RoundedRows& rounded,
                                     const std::byte* values, float step, bool adds, float* y) {
  constexpr size_t kGroupWords = kIntegerGroup / sizeof(uint32_t);
  const auto* at = reinterpret_cast<const uint32_t*>(values);
  for (size_t i = 0; i < columns; i += kLanes, at += kLanes * kGroupWords, y += kLanes) {
    int32_t sums[kLanes];
    multiply_row(at, kGroupWords, columns * kGroupWords, rounded, sums);
    const size_t count = columns - i < kLanes ? columns - i : kLanes;
    for_first(count, [&](size_t k) ARENITE_INLINE {
      const float product = static_cast<float>(sums[k]) * step;
      y[k] = adds ? y[k] + product : product;
    });
  }
}

[[gnu::noinline]] void values_of_rows(size_t columns, FourRows rows, const RoundedRows& rounded,
                                      const std::byte* values, bool adds, float* output) {
  const size_t group = columns * kIntegerGroup - 4;
#if defined(__ARM_FP)
  uint32_t row, word, pair;
  float to = hold(address(output)), column_begin = hold(address(values));
  asm volatile(
      "0: vmov %[row], %[zeros]\n"
      "ldm %[row]!, {r9, r10, r11, r12}\n"
      "1: ldr %[word], [%[column]], #4\n" ARENITE_FOUR_BYTES
      "ldr %[word], [%[column]]\n"
      "add %[column], %[group]\n" ARENITE_FOUR_BYTES
      "cmp %[row], %[end]\n"
      "bne 1b\n"
      "vmov s0, s1, r9, r10\n"
      "vmov s2, s3, r11, r12\n"
      "vmov r4, %[to]\n"
      "vmov r8, %[stride]\n"
      "add r5, r4, r8\n"
      "add r6, r5, r8\n"
      "vmov r8, %[last]\n"
      "add r8, r6\n"
      "vcvt.f32.s32 s0, s0\n"
      "vcvt.f32.s32 s1, s1\n"
      "vcvt.f32.s32 s2, s2\n"
      "vcvt.f32.s32 s3, s3\n"
      "vmov %[word], %[adds]\n"
      "cmp %[word], #0\n"
      "bne 2f\n"
      "vmul.f32 s4, s0, %[step0]\n"
      "vmul.f32 s5, s1, %[step1]\n"
      "vmul.f32 s6, s2, %[step2]\n"
      "vmul.f32 s7, s3, %[step3]\n"
      "b 3f\n"
      "2: vldr s4, [r4]\n"
      "vldr s5, [r5]\n"
      "vldr s6, [r6]\n"
      "vldr s7, [r8]\n"
      "vmla.f32 s4, s0, %[step0]\n"
      "vmla.f32 s5, s1, %[step1]\n"
      "vmla.f32 s6, s2, %[step2]\n"
      "vmla.f32 s7, s3, %[step3]\n"
      "3: vstm r4!, {s4}\n"
      "vstr s5, [r5]\n"
      "vstr s6, [r6]\n"
      "vstr s7, [r8]\n"
      "vmov %[column], %[column_begin]\n"
      "adds %[column], #8\n"
      "vmov %[column_begin], %[column]\n"
      "vmov %[to], r4\n"
      "vmov r5, %[to_end]\n"
      "cmp r4, r5\n"
      "bne 0b"
      : [column] "+r"(values), [to] "+t"(to), [column_begin] "+t"(column_begin), [row] "=&r"(row),
        [word] "=&r"(word), [pair] "=&r"(pair)
      : [end] "r"(rounded.end), [group] "r"(group), [zeros] "t"(hold(address(rounded.zeros))),
        [stride] "t"(hold(rows.stride * sizeof(float))),
        [last] "t"(hold(rows.last * sizeof(float))), [to_end] "t"(hold(address(output + columns))),
        [adds] "t"(hold(adds)), [step0] "t"(rows.step0), [step1] "t"(rows.step1),
        [step2] "t"(rows.step2), [step3] "t"(rows.step3)
      : "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "s0", "s1", "s2", "s3", "s4", "s5", "s6",
        "s7", "cc", "memory");
#else
  for (const float* const end = output + columns; output != end; values += kIntegerGroup) {
    const Sums sums = multiply_rows(values, group, rounded);
    float* const second = output + rows.stride;
    float* const third = second + rows.stride;
    const auto take = [adds](int32_t sum, float step, float& y) ARENITE_INLINE {
      const float product = static_cast<float>(sum) * step;
      y = adds ? y + product : product;
    };
    take(sums.of[0], rows.step0, *output++), take(sums.of[1], rows.step1, *second);
    take(sums.of[2], rows.step2, *third);
    if (rows.last != 0) take(sums.of[3], rows.step3, third[rows.last]);
  }
#endif
}

// Outputs of one row, or of three or four.
[[gnu::always_inline]] inline void values_of_block(size_t rows, size_t columns, size_t positions,
                                                   float* weights, size_t weights_stride,
                                                   const float* scales, const std::byte* values,
                                                   float* output, size_t stride, bool adds) {
  RowSteps steps[kLanes];
  for (size_t r = 0; r < rows; ++r) {
    steps[r] = scale_and_find_steps(weights + r * weights_stride, scales, positions);
  }
  RoundedRows rounded;
  round_rows(
      rows, weights, weights_stride, positions, [&](size_t r) { return steps[r].per_unit; },
      rounded);
  if (rows == 1) {
    values_of_row(columns, rounded, values, steps->step, adds, output);
  } else {
    values_of_rows(columns, {rows, steps, stride}, rounded, values, adds, output);
  }
}

}  // namespace

#if defined(__ARM_FP)
namespace {

// The constants that integer_exp() adds, four times each: VMLA adds to four registers.
constexpr float kExpTerms[4][4] = {
    {ExpConstants::kC[1], ExpConstants::kC[1], ExpConstants::kC[1], ExpConstants::kC[1]},
    {ExpConstants::kC[2], ExpConstants::kC[2], ExpConstants::kC[2], ExpConstants::kC[2]},
    {ExpConstants::kC[3], ExpConstants::kC[3], ExpConstants::kC[3], ExpConstants::kC[3]},
    {1.0f, 1.0f, 1.0f, 1.0f}};

}  // namespace
#endif

void dsp_integer_exp_sum(size_t bytes, const float* x, const float* range, float* y, float* sum) {
  const float largest = range[1];
  float even = 0.0f, odd = 0.0f;
  size_t count = bytes / sizeof(float);
#if defined(__ARM_FP)
  const size_t at_once = range[0] - largest < kLeastExponent ? 0 : count / 4 * 4;
  count -= at_once;
  for (const float* const whole = x + at_once; x != whole;) {
    const float* terms = kExpTerms[0];
    uint32_t power0, power1, power2, power3;
    asm volatile(
        "vldm %[x]!, {s0-s3}\n"
        "vsub.f32 s0, s0, %[largest]\n vsub.f32 s1, s1, %[largest]\n"
        "vsub.f32 s2, s2, %[largest]\n vsub.f32 s3, s3, %[largest]\n"
        "vmul.f32 s0, s0, %[log2e]\n vmul.f32 s1, s1, %[log2e]\n"
        "vmul.f32 s2, s2, %[log2e]\n vmul.f32 s3, s3, %[log2e]\n"
        "vadd.f32 s4, s0, %[magic]\n vadd.f32 s5, s1, %[magic]\n"
        "vadd.f32 s6, s2, %[magic]\n vadd.f32 s7, s3, %[magic]\n"
        "vmov %[power0], %[power1], s4, s5\n"
        "vmov %[power2], %[power3], s6, s7\n"
        "lsls %[power0], %[power0], #23\n lsls %[power1], %[power1], #23\n"
        "lsls %[power2], %[power2], #23\n lsls %[power3], %[power3], #23\n"
        "vsub.f32 s4, s4, %[magic]\n vsub.f32 s5, s5, %[magic]\n"
        "vsub.f32 s6, s6, %[magic]\n vsub.f32 s7, s7, %[magic]\n"
        "vsub.f32 s0, s0, s4\n vsub.f32 s1, s1, s5\n"
        "vsub.f32 s2, s2, s6\n vsub.f32 s3, s3, s7\n"
        "vldm %[terms]!, {s4-s7}\n"
        "vmla.f32 s4, s0, %[c0]\n vmla.f32 s5, s1, %[c0]\n"
        "vmla.f32 s6, s2, %[c0]\n vmla.f32 s7, s3, %[c0]\n"
        "vldm %[terms]!, {s8-s11}\n"
        "vmla.f32 s8, s4, s0\n vmla.f32 s9, s5, s1\n"
        "vmla.f32 s10, s6, s2\n vmla.f32 s11, s7, s3\n"
        "vldm %[terms]!, {s4-s7}\n"
        "vmla.f32 s4, s8, s0\n vmla.f32 s5, s9, s1\n"
        "vmla.f32 s6, s10, s2\n vmla.f32 s7, s11, s3\n"
        "vldm %[terms], {s8-s11}\n"
        "vmla.f32 s8, s4, s0\n vmla.f32 s9, s5, s1\n"
        "vmla.f32 s10, s6, s2\n vmla.f32 s11, s7, s3\n"
        "vmov s4, s5, %[power0], %[power1]\n"
        "vmov s6, s7, %[power2], %[power3]\n"
        "vmul.f32 s0, s8, s4\n vmul.f32 s1, s9, s5\n"
        "vmul.f32 s2, s10, s6\n vmul.f32 s3, s11, s7\n"
        "vadd.f32 %[even], %[even], s0\n vadd.f32 %[odd], %[odd], s1\n"
        "vadd.f32 %[even], %[even], s2\n vadd.f32 %[odd], %[odd], s3\n"
        "vstm %[y]!, {s0-s3}\n"
        : [x] "+r"(x), [even] "+t"(even), [odd] "+t"(odd), [y] "+r"(y), [terms] "+r"(terms),
          [power0] "=&r"(power0), [power1] "=&r"(power1), [power2] "=&r"(power2),
          [power3] "=&r"(power3)
        : [largest] "t"(largest), [log2e] "t"(ExpConstants::kLog2e),
          [magic] "t"(ExpConstants::kMagic), [c0] "t"(ExpConstants::kC[0])
        : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "cc", "memory");
  }
#endif
  const auto weight = [largest](float number) ARENITE_INLINE {
    const float below = number - largest;
    return below < kLeastExponent ? 0.0f : integer_exp(below);
  };
  for (; count >= 2; count -= 2, x += 2, y += 2) {
    const float y0 = weight(x[0]), y1 = weight(x[1]);
    even += y0, odd += y1;
    y[0] = y0, y[1] = y1;
  }
  even += odd;
  if (count != 0) even += * y = weight(*x);
  *sum = even;
}

void dsp_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes) {
  const size_t query_stride = query_stride_bytes / sizeof(float);
  const size_t stride = scores_stride_bytes / sizeof(float);
  const size_t at_once = rows == 2 ? 1 : rows;
  for (size_t row = 0; row < rows; row += at_once) {
    scores_of_block(at_once, keys, dims, query + row * query_stride, query_stride, query_rows + row,
                    key, key_scales, scores + row * stride, stride);
  }
}

void dsp_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds) {
  const size_t weights_stride = weights_stride_bytes / sizeof(float);
  const size_t stride = output_stride_bytes / sizeof(float);
  const size_t at_once = rows == 2 ? 1 : rows;
  for (size_t row = 0; row < rows; row += at_once) {
    values_of_block(at_once, columns, positions, weights + row * weights_stride, weights_stride,
                    scales, values, output + row * stride, stride, adds);
  }
}

}  // namespace arenite
#endif
