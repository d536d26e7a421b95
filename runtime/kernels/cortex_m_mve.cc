// SPDX-License-Identifier: Apache-2.0
// Products for Cortex-M with vector instructions (MVE, Helium), with or without those of floats:
// VMLADAVA adds sixteen products of bytes to a sum. Sums in integers are exact, and floats are
// computed as XNNPACK's scalar kernels do, so products of rows in int8 have their bits; products of
// floats round once where those round twice. Vectors flush denormals to zero, whatever FPSCR says.
#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_MVE)
#include <arm_mve.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/float_bits.h"
#include "kernels/integer_attention.h"

#if !defined(__clang__)
#pragma GCC optimize("O2")  // whatever the rest of a firmware is compiled with
#endif

namespace arenite {
namespace {

constexpr size_t kLanes = 4;    // outputs of a panel
constexpr size_t kVector = 16;  // bytes of one

// Four floats of outputs, of which a panel's last ones may be none.
#if defined(ARENITE_HAVE_MVE_FLOATS)
using Floats = float32x4_t;
Floats load(const float* from) { return vldrwq_f32(from); }
Floats times(Floats a, float b) { return vmulq_n_f32(a, b); }
Floats times(Floats a, Floats b) { return vmulq_f32(a, b); }
Floats plus(Floats a, Floats b) { return vaddq_f32(a, b); }
// One by one, so that denormals stay.
Floats plus_in_turn(Floats a, Floats b) {
  register Floats sum asm("q0") = a;
  register Floats other asm("q1") = b;
  asm("vadd.f32 s0, s0, s4\n"
      "vadd.f32 s1, s1, s5\n"
      "vadd.f32 s2, s2, s6\n"
      "vadd.f32 s3, s3, s7"
      : "+w"(sum)
      : "w"(other));
  return sum;
}
Floats converted(const int32_t (&sums)[kLanes]) { return vcvtq_f32_s32(vldrwq_s32(sums)); }
Floats bfloat16s(const uint16_t* from) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vldrhq_u32(from), 16));
}
void store(Floats y, float* to, size_t lanes) { vstrwq_p_f32(to, y, vctp32q(lanes)); }
#else
struct Floats {
  float of[kLanes];
};
template <typename Function>
Floats each(Function function) {
  return {{function(0), function(1), function(2), function(3)}};
}
Floats load(const float* from) {
  return each([&](size_t i) { return from[i]; });
}
Floats times(const Floats& a, float b) {
  return each([&](size_t i) { return a.of[i] * b; });
}
Floats times(const Floats& a, const Floats& b) {
  return each([&](size_t i) { return a.of[i] * b.of[i]; });
}
Floats plus(const Floats& a, const Floats& b) {
  return each([&](size_t i) { return a.of[i] + b.of[i]; });
}
Floats converted(const int32_t (&sums)[kLanes]) {
  return each([&](size_t i) { return static_cast<float>(sums[i]); });
}
Floats bfloat16s(const uint16_t* from) {
  return each([&](size_t i) { return bit_cast<float>(uint32_t{from[i]} << 16); });
}
void store(const Floats& y, float* to, size_t lanes) {
  std::memcpy(to, y.of, lanes * sizeof(float));
}
#endif

// Weights in q8: panels of (packing.h)
struct Q8Panel {
  const int32_t* head;
  const int8_t* weights;
  const float* scales;  // and biases

  Q8Panel(const std::byte* at, size_t k)
      : head(reinterpret_cast<const int32_t*>(at)),
        weights(reinterpret_cast<const int8_t*>(head + kLanes)),
        scales(reinterpret_cast<const float*>(weights + k * kLanes)) {}
  const std::byte* end() const { return reinterpret_cast<const std::byte*>(scales + 2 * kLanes); }

  int32_t begin(size_t lane, const QuantizedRow& row) const {
    return correction(head[lane], row.zero_point);
  }
  void finish(const int32_t (&sums)[kLanes], const QuantizedRow& row, float* to,
              size_t lanes) const {
    const Floats y = times(times(converted(sums), row.scale), load(scales));
    store(plus(y, load(scales + kLanes)), to, lanes);
  }
};

// One row, four outputs.
void q8_row(const Q8Panel& panel, size_t k, const int8_t* a, const QuantizedRow& row,
            int32_t (&sums)[kLanes]) {
  const int8_t* w = panel.weights;
  int32_t sum0 = panel.begin(0, row), sum1 = panel.begin(1, row);
  int32_t sum2 = panel.begin(2, row), sum3 = panel.begin(3, row);
  for (const int8_t* const end = a + k; a != end; a += kVector, w += kLanes * kVector) {
    const int8x16_t numbers = vldrbq_s8(a);
    sum0 = vmladavaq_s8(sum0, numbers, vldrbq_s8(w));
    sum1 = vmladavaq_s8(sum1, numbers, vldrbq_s8(w + kVector));
    sum2 = vmladavaq_s8(sum2, numbers, vldrbq_s8(w + 2 * kVector));
    sum3 = vmladavaq_s8(sum3, numbers, vldrbq_s8(w + 3 * kVector));
  }
  sums[0] = sum0, sums[1] = sum1, sums[2] = sum2, sums[3] = sum3;
}

// Two rows, two outputs: twice as many products for each vector that is read.
void q8_square(const Q8Panel& panel, size_t k, size_t lane, const int8_t* a, size_t a_stride,
               const QuantizedRow* rows, int32_t* sums0, int32_t* sums1) {
  const int8_t* w = panel.weights + lane * kVector;
  const int8_t* b = a + a_stride;
  int32_t sum00 = panel.begin(lane, rows[0]), sum01 = panel.begin(lane + 1, rows[0]);
  int32_t sum10 = panel.begin(lane, rows[1]), sum11 = panel.begin(lane + 1, rows[1]);
  asm volatile(
      "dls lr, %[vectors]\n"
      "1: vldrb.8 q0, [%[a]], #16\n"
      "vldrb.8 q2, [%[w]], #16\n"
      "vmladava.s8 %[sum00], q0, q2\n"
      "vldrb.8 q3, [%[w]], #48\n"
      "vmladava.s8 %[sum01], q0, q3\n"
      "vldrb.8 q1, [%[b]], #16\n"
      "vmladava.s8 %[sum10], q1, q2\n"
      "vmladava.s8 %[sum11], q1, q3\n"
      "le lr, 1b"
      : [a] "+r"(a), [b] "+r"(b), [w] "+r"(w), [sum00] "+Te"(sum00), [sum01] "+Te"(sum01),
        [sum10] "+Te"(sum10), [sum11] "+Te"(sum11)
      : [vectors] "r"(k / kVector)
      : "lr", "q0", "q1", "q2", "q3", "memory");
  sums0[lane] = sum00, sums0[lane + 1] = sum01;
  sums1[lane] = sum10, sums1[lane + 1] = sum11;
}

// Weights in q4: panels of (packing.h)
struct Q4Block {
  uint8_t weights[kLanes][kVector];
  uint16_t scales[kLanes];  // 1 / 16 of them, in bfloat16
};
static_assert(sizeof(Q4Block) == kQ4BlockBytes * kLanes && kQ4Block == 2 * kVector);

// A block's share of an output, 16 times.
int32_t q4_sum(const uint8_t* halves, int8x16_t low, int8x16_t high) {
  const uint8x16_t bytes = vldrbq_u8(halves);
  const int32_t sum = vmladavq_s8(low, vreinterpretq_s8_u8(vshlq_n_u8(bytes, 4)));
  return vmladavaq_s8(sum, high, vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(0xF0))));
}

#if defined(ARENITE_HAVE_MVE_FLOATS)
// Attention in integers (kernel_set.h): rows that are rounded here to 16 bits, a part of the
// dimensions of queries at a time, and weights of a block of positions. Of each eight numbers those
// of all rows lie side by side.
constexpr size_t kHalves = 8;  // of a vector
struct RoundedRows {
  int16_t numbers[kIntegerBlock / kHalves][kIntegerRows][kHalves];
  size_t groups;  // of eight numbers
};
static_assert(kIntegerDims == kIntegerBlock && kIntegerGroup == kHalves && kIntegerRows == kLanes);

// To sixteen numbers come zeros.
void round_row(const float* x, size_t count, float per_unit, size_t row, RoundedRows& rounded) {
  rounded.groups = (count + kHalves - 1) / kHalves;
  int16_t* to = rounded.numbers[0][row];
  const auto round_four = [&](float32x4_t four, size_t place) {
    vstrhq_s32(to + place, vcvtnq_s32_f32(vmulq_n_f32(four, per_unit)));
  };
  for (; count >= kHalves; count -= kHalves, x += kHalves, to += kIntegerRows * kHalves) {
    round_four(vldrwq_f32(x), 0);
    round_four(vldrwq_f32(x + kLanes), kLanes);
  }
  if (count != 0) {
    round_four(vldrwq_z_f32(x, vctp32q(count)), 0);
    round_four(vldrwq_z_f32(x + kLanes, vctp32q(count > kLanes ? count - kLanes : 0)), kLanes);
    to += kIntegerRows * kHalves;
  }
  if (rounded.groups % 2 != 0) vstrhq_s16(to, vdupq_n_s16(0));
}

// Sums of products of two rows with four columns, of two groups of eight numbers.
struct Square {
  int32x4_t first, second;
};

// Two groups of two rows. The second row may be the first one.
struct RowPair {
  int16x8_t a[2], b[2];

  RowPair(const RoundedRows& rounded, size_t group, size_t row, size_t rows)
      : a{vldrhq_s16(rounded.numbers[group][row]), vldrhq_s16(rounded.numbers[group + 1][row])},
        b{vldrhq_s16(rounded.numbers[group][row + 1 < rows ? row + 1 : row]),
          vldrhq_s16(rounded.numbers[group + 1][row + 1 < rows ? row + 1 : row])} {}
};

// Of keys the second group follows the first, and `next` are the bytes from key to key; of values
// `next` is where the second group begins, and columns are a group apart. Instructions are chosen
// by hand: compilers move each vector and each sum about.
template <bool kIsKeys>
[[gnu::always_inline]] inline Square multiply_square(const RowPair& rows, const int8_t*& from,
                                                     size_t next) {
#define ARENITE_COLUMN(sum_a, sum_b)      \
  ".if %c[is_keys]\n"                     \
  "vldrb.s16 %q[first], [%[from]]\n"      \
  "vldrb.s16 %q[second], [%[from], #8]\n" \
  "add %[from], %[next]\n"                \
  ".else\n"                               \
  "vldrb.s16 %q[first], [%[from]], #8\n"  \
  "vldrb.s16 %q[second], [%[next]], #8\n" \
  ".endif\n"                              \
  "vmladav.s16 %[" sum_a                  \
  "], %q[first], %q[a0]\n"                \
  "vmladava.s16 %[" sum_a                 \
  "], %q[second], %q[a1]\n"               \
  "vmladav.s16 %[" sum_b                  \
  "], %q[first], %q[b0]\n"                \
  "vmladava.s16 %[" sum_b "], %q[second], %q[b1]\n"
  Square sums;
  int16x8_t first, second;
  int32_t sum0, sum1, sum2, sum3, sum4, sum5;
  asm volatile(
      ARENITE_COLUMN("sum0", "sum1") ARENITE_COLUMN("sum2", "sum3") ARENITE_COLUMN("sum4", "sum5")
      "vmov %q[y0][2], %q[y0][0], %[sum0], %[sum4]\n"
      "vmov %q[y1][2], %q[y1][0], %[sum1], %[sum5]\n"
      ARENITE_COLUMN("sum4", "sum5")
      "vmov %q[y0][3], %q[y0][1], %[sum2], %[sum4]\n"
      "vmov %q[y1][3], %q[y1][1], %[sum3], %[sum5]"
      : [y0] "=&w"(sums.first), [y1] "=&w"(sums.second), [first] "=&w"(first),
        [second] "=&w"(second), [sum0] "=&Te"(sum0), [sum1] "=&Te"(sum1), [sum2] "=&Te"(sum2),
        [sum3] "=&Te"(sum3), [sum4] "=&Te"(sum4), [sum5] "=&Te"(sum5), [from] "+r"(from),
        [next] "+r"(next)
      : [is_keys] "i"(kIsKeys), [a0] "w"(rows.a[0]), [a1] "w"(rows.a[1]), [b0] "w"(rows.b[0]),
        [b1] "w"(rows.b[1])
      : "memory");
#undef ARENITE_COLUMN
  return sums;
}

// Weights are not negative: the bits of the largest, of infinity and of NaN are the largest.
RowSteps steps_of_weights(float* weights, const float* scales, size_t count) {
  uint32x4_t lanes = vdupq_n_u32(0);
  const auto meet = [&](float32x4_t four) {
    lanes = vmaxq_u32(lanes, vreinterpretq_u32_f32(four));
    return four;
  };
  if (scales == nullptr) {
    for (; count >= kLanes; count -= kLanes, weights += kLanes) meet(vldrwq_f32(weights));
  }
  for (; count >= kLanes; count -= kLanes, weights += kLanes, scales += kLanes) {
    vstrwq_f32(weights, meet(vmulq_f32(vldrwq_f32(weights), vldrwq_f32(scales))));
  }
  if (count != 0) {
    const mve_pred16_t valid = vctp32q(count);
    float32x4_t four = vldrwq_z_f32(weights, valid);
    if (scales != nullptr) four = vmulq_f32(four, vldrwq_z_f32(scales, valid));
    vstrwq_p_f32(weights, meet(four), valid);
  }
  return steps_up_to(bit_cast<float>(vmaxvq_u32(0, lanes)), kLargestWeightStep);
}

// Scores of two rows, which may be one. Of part of the dimensions they are integers.
[[gnu::noinline]] void scores_of_pair(const RowPair& rows, const int8_t* key, size_t key_bytes,
                                      const float* scales, size_t keys, bool is_first, bool is_last,
                                      float step0, float step1, float* scores0, float* scores1) {
  const RowPair own = rows;
  const auto finished = [&](int32x4_t sums, float step) {
    return vmulq_n_f32(vmulq_f32(vcvtq_f32_s32(sums), vldrwq_f32(scales)), step);
  };
  if (is_first && is_last) {
    for (; keys >= kLanes; keys -= kLanes, scales += kLanes) {
      const Square sums = multiply_square<true>(own, key, key_bytes);
      vstrwq_f32(scores0, finished(sums.first, step0)), scores0 += kLanes;
      vstrwq_f32(scores1, finished(sums.second, step1)), scores1 += kLanes;
    }
  }
  for (size_t i = 0; i < keys; i += kLanes, scales += kLanes) {
    Square sums = multiply_square<true>(own, key, key_bytes);
    const mve_pred16_t lanes = vctp32q(keys - i);
    auto* const to0 = reinterpret_cast<int32_t*>(scores0 + i);
    auto* const to1 = reinterpret_cast<int32_t*>(scores1 + i);
    if (!is_first) {
      sums.first = vaddq_s32(sums.first, vldrwq_z_s32(to0, lanes));
      sums.second = vaddq_s32(sums.second, vldrwq_z_s32(to1, lanes));
    }
    if (is_last) {
      sums.first = vreinterpretq_s32_f32(finished(sums.first, step0));
      sums.second = vreinterpretq_s32_f32(finished(sums.second, step1));
    }
    vstrwq_p_s32(to0, sums.first, lanes);
    vstrwq_p_s32(to1, sums.second, lanes);
  }
}

// Values of two rows, which may be one.
[[gnu::noinline]] void values_of_pair(const RoundedRows& rounded, size_t row, size_t rows,
                                      size_t columns, const int8_t* values, bool adds, float step0,
                                      float step1, float* output0, float* output1) {
  const size_t group_bytes = columns * kHalves;
  const size_t groups = rounded.groups;
  // Without a second group, the first one meets zeros.
  const auto multiply = [&](size_t group) {
    const int8_t* from = values + group * group_bytes;
    return multiply_square<false>(
        {rounded, group, row, rows}, from,
        reinterpret_cast<uintptr_t>(group + 1 < groups ? from + group_bytes : from));
  };
  for (size_t i = 0; i < columns; i += kLanes, values += kLanes * kHalves) {
    Square sums = multiply(0);
    if (groups > 2) {
      const Square rest = multiply(2);
      sums.first = vaddq_s32(sums.first, rest.first);
      sums.second = vaddq_s32(sums.second, rest.second);
    }
    const auto take = [&](int32x4_t sum, float step, float* to) {
      Floats y = vmulq_n_f32(vcvtq_f32_s32(sum), step);
      if (adds) y = plus_in_turn(load(to), y);
      return y;
    };
    const Floats y0 = take(sums.first, step0, output0), y1 = take(sums.second, step1, output1);
    store(y0, output0, columns - i);
    store(y1, output1, columns - i);
    output0 += kLanes, output1 += kLanes;
  }
}
static_assert(kIntegerBlock == 4 * kHalves);
#endif

}  // namespace

void mve_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte*) {
  const size_t padded = (k + kVector - 1) / kVector * kVector;
  const size_t c_stride = c_stride_bytes / sizeof(float);
  const auto* at = static_cast<const std::byte*>(w);
  for (size_t column = 0; column < columns; column += kLanes, c += kLanes) {
    const Q8Panel panel(at, padded);
    const size_t lanes = columns - column < kLanes ? columns - column : kLanes;
    int32_t sums[kLanes], sums_of_next[kLanes];
    size_t r = 0;
    for (; r + 2 <= rows; r += 2) {
      for (size_t lane = 0; lane < kLanes; lane += 2) {
        q8_square(panel, padded, lane, a + r * a_stride_bytes, a_stride_bytes, a_rows + r, sums,
                  sums_of_next);
      }
      panel.finish(sums, a_rows[r], c + r * c_stride, lanes);
      panel.finish(sums_of_next, a_rows[r + 1], c + (r + 1) * c_stride, lanes);
    }
    if (r < rows) {
      q8_row(panel, padded, a + r * a_stride_bytes, a_rows[r], sums);
      panel.finish(sums, a_rows[r], c + r * c_stride, lanes);
    }
    at = panel.end();
  }
}

void mve_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte*) {
  const size_t c_stride = c_stride_bytes / sizeof(float);
  const auto* head = static_cast<const float*>(w);
  for (size_t column = 0; column < columns; column += kLanes, c += kLanes) {
    const auto* const blocks = reinterpret_cast<const Q4Block*>(head + kLanes);
    const Q4Block* const end = blocks + k / kQ4Block;
    const auto* const bias = reinterpret_cast<const float*>(end);
    const size_t lanes = columns - column < kLanes ? columns - column : kLanes;
    for (size_t r = 0; r < rows; ++r) {
      const int8_t* row = a + r * a_stride_bytes;
      Floats y = times(load(head), static_cast<float>(a_rows[r].zero_point));
      for (const Q4Block* block = blocks; block != end; ++block, row += kQ4Block) {
        const int8x16_t low = vldrbq_s8(row), high = vldrbq_s8(row + kVector);
        const int32_t sums[kLanes] = {
            q4_sum(block->weights[0], low, high), q4_sum(block->weights[1], low, high),
            q4_sum(block->weights[2], low, high), q4_sum(block->weights[3], low, high)};
        y = plus(y, times(converted(sums), bfloat16s(block->scales)));
      }
      store(plus(times(y, a_rows[r].scale), load(bias)), c + r * c_stride, lanes);
    }
    head = bias + kLanes;
  }
}

void mve_integer_exp_sum(size_t bytes, const float* x, const float* range, float* y, float* sum) {
#if defined(ARENITE_HAVE_MVE_FLOATS)
  using In = ExpConstants;
  const float largest = range[1];
  const auto below_least = [](float32x4_t below) { return vcmpltq_n_f32(below, kLeastExponent); };
  const auto weights = [](float32x4_t below) {
    const float32x4_t z = vmulq_n_f32(below, In::kLog2e);
    const float32x4_t n = vaddq_n_f32(z, In::kMagic);
    const float32x4_t power = vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(n), 23));
    const float32x4_t f = vsubq_f32(z, vsubq_n_f32(n, In::kMagic));
    float32x4_t p = vaddq_n_f32(vmulq_n_f32(f, In::kC[0]), In::kC[1]);
    p = vaddq_n_f32(vmulq_f32(p, f), In::kC[2]);
    p = vaddq_n_f32(vmulq_f32(p, f), In::kC[3]);
    return vmulq_f32(vaddq_n_f32(vmulq_f32(p, f), 1.0f), power);
  };
  float even = 0.0f, odd = 0.0f;
  size_t count = bytes / sizeof(float);
  const auto weigh = [&](auto may_vanish) {
    for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
      const float32x4_t below = vsubq_n_f32(vldrwq_f32(x), largest);
      register float32x4_t four asm("q0") = weights(below);
      if (may_vanish) four = vdupq_m_n_f32(four, 0.0f, below_least(below));
      vstrwq_f32(y, four);
      asm("vadd.f32 %0, %0, s0\n"
          "vadd.f32 %1, %1, s1\n"
          "vadd.f32 %0, %0, s2\n"
          "vadd.f32 %1, %1, s3"
          : "+t"(even), "+t"(odd)
          : "w"(four));
    }
  };
  if (range[0] - largest < kLeastExponent) {
    weigh(std::true_type());
  } else {
    weigh(std::false_type());
  }
  if (count != 0) {
    const mve_pred16_t lanes = vctp32q(count);
    const float32x4_t below = vsubq_n_f32(vldrwq_z_f32(x, lanes), largest);
    vstrwq_p_f32(y, vdupq_m_n_f32(weights(below), 0.0f, below_least(below)), lanes);
  }
  if (count >= 2) even += y[0], odd += y[1];
  *sum = even + odd + (count % 2 != 0 ? y[count - 1] : 0.0f);
#else
  integer_exp_sum(bytes, x, range, y, sum);
#endif
}

#if defined(ARENITE_HAVE_MVE_FLOATS)
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
                query_rows[r].per_unit, r, rounded);
    }
    for (size_t group = 0; group < rounded.groups; group += 2) {
      const bool is_first = begin + group == 0;
      const bool is_last = begin + count == dims && group + 2 >= rounded.groups;
      for (size_t r = 0; r < rows; r += 2) {
        const size_t next_row = r + 1 < rows ? r + 1 : r;
        scores_of_pair({rounded, group, r, rows}, key + begin + group * kHalves, key_bytes,
                       key_scales, keys, is_first, is_last, query_rows[r].step,
                       query_rows[next_row].step, scores + r * stride, scores + next_row * stride);
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
    steps[r] = steps_of_weights(weights, scales, positions);
    round_row(weights, positions, steps[r].per_unit, r, rounded);
  }
  const size_t stride = output_stride_bytes / sizeof(float);
  for (size_t r = 0; r < rows; r += 2) {
    const size_t next_row = r + 1 < rows ? r + 1 : r;
    values_of_pair(rounded, r, rows, columns, reinterpret_cast<const int8_t*>(values), adds,
                   steps[r].step, steps[next_row].step, output + r * stride,
                   output + next_row * stride);
  }
}
#else
void mve_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes) {
  integer_scores(rows, keys, dims, query, query_stride_bytes, query_rows, key, key_scales, scores,
                 scores_stride_bytes);
}

void mve_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds) {
  integer_values(rows, columns, positions, weights, weights_stride_bytes, scales, values, output,
                 output_stride_bytes, adds);
}
#endif

void mve_quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point,
                  int8_t* y) {
  size_t count = bytes / sizeof(float);
#if defined(ARENITE_HAVE_MVE_FLOATS)
  for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
    const int32x4_t steps = vcvtnq_s32_f32(vmulq_n_f32(vldrwq_f32(x), inverse_scale));
    const int32x4_t number = vaddq_n_s32(steps, zero_point);
    vstrbq_s32(y, vminq_s32(vmaxq_s32(number, vdupq_n_s32(-128)), vdupq_n_s32(127)));
  }
#endif
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the sum is rounded to a whole number
  for (; count != 0; --count) {
    int32_t number = bit_cast<int32_t>(*x++ * inverse_scale + kMagic) - bit_cast<int32_t>(kMagic);
    number += zero_point;
    number = number < -128 ? -128 : number;
    *y++ = static_cast<int8_t>(number > 127 ? 127 : number);
  }
}

#if defined(ARENITE_HAVE_MVE_FLOATS)
namespace {

// Panels of a bias [4], then for each input the four weights.
template <size_t kRows>
void f32_panel(size_t k, const float* a, size_t a_stride, const float* w, float* c, size_t c_stride,
               size_t lanes) {
  float32x4_t sums[kRows];
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) sums[r] = vldrwq_f32(w);
  const float* const end = a + k;
  if (kRows == 1) {
    asm volatile(
        "wls lr, %[pairs], 2f\n"
        "1: ldrd r4, r5, [%[a]], #8\n"
        "vldrw.32 q1, [%[w], #16]!\n"
        "vfma.f32 %q[sum], q1, r4\n"
        "vldrw.32 q1, [%[w], #16]!\n"
        "vfma.f32 %q[sum], q1, r5\n"
        "le lr, 1b\n"
        "2:"
        : [sum] "+w"(sums[0]), [a] "+r"(a), [w] "+r"(w)
        : [pairs] "r"(k / 2)
        : "lr", "r4", "r5", "q1", "memory");
  }
  while (a != end) {
    w += kLanes;
    const float32x4_t weights = vldrwq_f32(w);
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) sums[r] = vfmaq_n_f32(sums[r], weights, a[r * a_stride]);
    ++a;
  }
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) vstrwq_p_f32(c + r * c_stride, sums[r], vctp32q(lanes));
}

}  // namespace

void mve_row_extremes(size_t bytes, const float* x, float* extremes) {
  size_t count = bytes / sizeof(float);
  float32x4_t least = vdupq_n_f32(*x), most = least;
  for (; count >= kLanes; count -= kLanes, x += kLanes) {
    const float32x4_t four = vldrwq_f32(x);
    least = vminnmq_f32(least, four);
    most = vmaxnmq_f32(most, four);
  }
  extremes[0] = vminnmvq_f32(INFINITY, least);
  extremes[1] = vmaxnmvq_f32(-INFINITY, most);
  for (size_t i = 0; i < count; ++i) {
    extremes[0] = __builtin_fminf(extremes[0], x[i]);
    extremes[1] = __builtin_fmaxf(extremes[1], x[i]);
  }
}

void mve_row_range(size_t bytes, const float* x, float* extremes, float* sum) {
  size_t count = bytes / sizeof(float);
  float32x4_t least = vdupq_n_f32(*x), most = least, sums = vdupq_n_f32(0.0f);
  for (; count >= kLanes; count -= kLanes, x += kLanes) {
    const float32x4_t four = vldrwq_f32(x);
    least = vminnmq_f32(least, four);
    most = vmaxnmq_f32(most, four);
    sums = vaddq_f32(sums, four);
  }
  extremes[0] = vminnmvq_f32(INFINITY, least);
  extremes[1] = vmaxnmvq_f32(-INFINITY, most);
  *sum += sums[0] + sums[1] + sums[2] + sums[3];
  for (size_t i = 0; i < count; ++i) {
    extremes[0] = __builtin_fminf(extremes[0], x[i]);
    extremes[1] = __builtin_fmaxf(extremes[1], x[i]);
    *sum += x[i];
  }
}

void mve_f32_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a,
                  size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes) {
  constexpr decltype(&f32_panel<1>) kPanels[] = {f32_panel<1>, f32_panel<2>, f32_panel<3>,
                                                 f32_panel<4>};
  const size_t k = k_bytes / sizeof(float);
  const auto* panel = static_cast<const float*>(w);
  for (size_t column = 0; column < columns; column += kLanes, panel += kLanes * (k + 1)) {
    const size_t lanes = columns - column < kLanes ? columns - column : kLanes;
    kPanels[rows - 1](k, a, a_stride_bytes / sizeof(float), panel, c + column,
                      c_stride_bytes / sizeof(float), lanes);
  }
}
#endif

}  // namespace arenite
#endif
