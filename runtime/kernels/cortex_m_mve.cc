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
  for (const int8_t* const end = a + k; a != end;) {
    const int8x16_t first = vldrbq_s8(a), second = vldrbq_s8(b);
    a += kVector, b += kVector;
    const int8x16_t w0 = vldrbq_s8(w);
    w += kVector;  // in turn, so that loads move the pointer
    const int8x16_t w1 = vldrbq_s8(w);
    w += (kLanes - 1) * kVector;
    sum00 = vmladavaq_s8(sum00, first, w0);
    sum01 = vmladavaq_s8(sum01, first, w1);
    sum10 = vmladavaq_s8(sum10, second, w0);
    sum11 = vmladavaq_s8(sum11, second, w1);
  }
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

// To eight numbers come zeros.
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
  if (count == 0) return;
  round_four(vldrwq_z_f32(x, vctp32q(count)), 0);
  round_four(vldrwq_z_f32(x + kLanes, vctp32q(count > kLanes ? count - kLanes : 0)), kLanes);
}

// Numbers in int8 that rows meet: the next column and the next eight numbers are so many bytes
// further.
struct Columns {
  const int8_t* at;
  size_t column, group;
};

// One row, four columns: sums[i] of column i.
void multiply_row(const RoundedRows& rounded, const Columns& from, int32_t* sums) {
  const int8_t* w = from.at;
  const int16_t* a = rounded.numbers[0][0];
  int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (size_t group = rounded.groups; group != 0; --group) {
    const int16x8_t numbers = vldrhq_s16(a);
    a += kIntegerRows * kHalves;
    const int8_t* v = w;
    w += from.group;
    sum0 = vmladavaq_s16(sum0, numbers, vldrbq_s16(v));
    v += from.column;
    sum1 = vmladavaq_s16(sum1, numbers, vldrbq_s16(v));
    v += from.column;
    sum2 = vmladavaq_s16(sum2, numbers, vldrbq_s16(v));
    v += from.column;
    sum3 = vmladavaq_s16(sum3, numbers, vldrbq_s16(v));
  }
  sums[0] = sum0, sums[1] = sum1, sums[2] = sum2, sums[3] = sum3;
}

// Four rows, one column: sum r of row r. REQUIRES: groups > 0.
[[gnu::always_inline]] inline int32x4_t multiply_rows(const int16_t* rows, size_t groups,
                                                      const int8_t* column, size_t step) {
  int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  asm("dls lr, %[groups]\n"
      "1:\n"
      "vldrb.s16 q0, [%[column]]\n"
      "add %[column], %[column], %[step]\n"
      "vldrh.16 q1, [%[rows]], #16\n"
      "vmladava.s16 %[sum0], q0, q1\n"
      "vldrh.16 q2, [%[rows]], #16\n"
      "vmladava.s16 %[sum1], q0, q2\n"
      "vldrh.16 q3, [%[rows]], #16\n"
      "vmladava.s16 %[sum2], q0, q3\n"
      "vldrh.16 q1, [%[rows]], #16\n"
      "vmladava.s16 %[sum3], q0, q1\n"
      "le lr, 1b"
      : [column] "+r"(column), [rows] "+r"(rows), [sum0] "+Te"(sum0), [sum1] "+Te"(sum1),
        [sum2] "+Te"(sum2), [sum3] "+Te"(sum3)
      : [groups] "r"(groups), [step] "r"(step)
      : "lr", "q0", "q1", "q2", "q3", "memory");
  return int32x4_t{sum0, sum1, sum2, sum3};
}

// Weights are not negative: the bits of the largest, of infinity and of NaN are the largest.
RowSteps steps_of_weights(float* weights, const float* scales, size_t count) {
  uint32x4_t lanes = vdupq_n_u32(0);
  const auto meet = [&](float32x4_t four) {
    lanes = vmaxq_u32(lanes, vreinterpretq_u32_f32(four));
    return four;
  };
  size_t i = 0;
  if (scales == nullptr) {
    for (; i + kLanes <= count; i += kLanes) meet(vldrwq_f32(weights + i));
  }
  for (; i + kLanes <= count; i += kLanes) {
    vstrwq_f32(weights + i, meet(vmulq_f32(vldrwq_f32(weights + i), vldrwq_f32(scales + i))));
  }
  if (i < count) {
    const mve_pred16_t valid = vctp32q(count - i);
    float32x4_t four = vldrwq_z_f32(weights + i, valid);
    if (scales != nullptr) four = vmulq_f32(four, vldrwq_z_f32(scales + i, valid));
    vstrwq_p_f32(weights + i, meet(four), valid);
  }
  return steps_up_to(bit_cast<float>(vmaxvq_u32(0, lanes)), kLargestWeightStep);
}
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

void mve_integer_exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum) {
#if defined(ARENITE_HAVE_MVE_FLOATS)
  using In = ExpConstants;
  const float largest = *max;
  const auto weights = [largest](float32x4_t four) {
    const float32x4_t below = vsubq_n_f32(four, largest);
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
  float even = 0.0f, odd = 0.0f;
  size_t count = bytes / sizeof(float);
  for (; count >= kLanes; count -= kLanes, x += kLanes, y += kLanes) {
    register float32x4_t four asm("q0") = weights(vldrwq_f32(x));
    vstrwq_f32(y, four);
    asm("vadd.f32 %0, %0, s0\n"
        "vadd.f32 %1, %1, s1\n"
        "vadd.f32 %0, %0, s2\n"
        "vadd.f32 %1, %1, s3"
        : "+t"(even), "+t"(odd)
        : "w"(four));
  }
  if (count != 0) {
    const mve_pred16_t lanes = vctp32q(count);
    vstrwq_p_f32(y, weights(vldrwq_z_f32(x, lanes)), lanes);
  }
  if (count >= 2) even += y[0], odd += y[1];
  *sum = even + odd + (count % 2 != 0 ? y[count - 1] : 0.0f);
#else
  integer_exp_sum(bytes, x, max, y, sum);
#endif
}

#if defined(ARENITE_HAVE_MVE_FLOATS)
namespace {

// Where the same number of each row lies, in floats from that of the first.
uint32x4_t places_of_rows(size_t stride) { return vmulq_n_u32(vidupq_n_u32(0, 1), stride); }

// Steps of rows as a vector, zeros where there are no rows.
float32x4_t steps_of_rows(size_t rows, const RowSteps* steps) {
  const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), 2);
  return vldrwq_gather_shifted_offset_z_f32(&steps->step, places, vctp32q(rows));
}

}  // namespace

void mve_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes) {
  const size_t query_stride = query_stride_bytes / sizeof(float);
  const size_t key_bytes = integer_key_bytes(dims);
  const uint32x4_t places = places_of_rows(scores_stride_bytes / sizeof(float));
  const float32x4_t steps = steps_of_rows(rows, query_rows);
  const mve_pred16_t lanes = vctp32q(rows);
  RoundedRows rounded;
  for (size_t begin = 0; begin < dims; begin += kIntegerDims) {
    const size_t count = dims - begin < kIntegerDims ? dims - begin : kIntegerDims;
    const bool is_last = begin + count == dims;
    for (size_t r = 0; r < rows; ++r) {
      round_row(query + r * query_stride + begin, count, query_rows[r].per_unit, r, rounded);
    }
    const int8_t* from = key + begin;
    if (rows == 1 && count == dims) {
      for (size_t i = 0; i < keys; i += kLanes, from += kLanes * key_bytes) {
        int32_t sums[kLanes];
        multiply_row(rounded, {from, key_bytes, kHalves}, sums);
        const Floats y = times(times(converted(sums), load(key_scales + i)), query_rows->step);
        store(y, scores + i, keys - i);
      }
      return;
    }
    const auto finished = [&](int32x4_t sums, float scale) {
      return vmulq_f32(vmulq_n_f32(vcvtq_f32_s32(sums), scale), steps);
    };
    if (rows == kIntegerRows && count == dims) {
      for (const float* const end = key_scales + keys; key_scales != end; from += key_bytes) {
        const int32x4_t sums = multiply_rows(rounded.numbers[0][0], rounded.groups, from, kHalves);
        vstrwq_scatter_shifted_offset_f32(scores++, places, finished(sums, *key_scales++));
      }
      return;
    }
    for (size_t i = 0; i < keys; ++i, from += key_bytes) {
      int32x4_t sums = multiply_rows(rounded.numbers[0][0], rounded.groups, from, kHalves);
      auto* const to = reinterpret_cast<int32_t*>(scores + i);
      if (begin != 0) {
        sums = vaddq_s32(sums, vldrwq_gather_shifted_offset_z_s32(to, places, lanes));
      }
      if (is_last) sums = vreinterpretq_s32_f32(finished(sums, key_scales[i]));
      vstrwq_scatter_shifted_offset_p_s32(to, places, sums, lanes);
    }
  }
}

void mve_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds) {
  RoundedRows rounded;
  RowSteps steps_of[kIntegerRows];
  for (size_t r = 0; r < rows; ++r, weights += weights_stride_bytes / sizeof(float)) {
    steps_of[r] = steps_of_weights(weights, scales, positions);
    round_row(weights, positions, steps_of[r].per_unit, r, rounded);
  }
  const auto* from = reinterpret_cast<const int8_t*>(values);
  const size_t step = columns * kIntegerGroup;
  if (rows == 1) {
    for (size_t column = 0; column < columns; column += kLanes, from += kLanes * kIntegerGroup) {
      int32_t sums[kLanes];
      multiply_row(rounded, {from, kIntegerGroup, step}, sums);
      const Floats y = times(converted(sums), steps_of->step);
      store(adds ? plus_in_turn(load(output + column), y) : y, output + column, columns - column);
    }
    return;
  }
  const uint32x4_t places = places_of_rows(output_stride_bytes / sizeof(float));
  const float32x4_t steps = steps_of_rows(rows, steps_of);
  const mve_pred16_t lanes = vctp32q(rows);
  const auto of_column = [&]() {
    const int32x4_t sums = multiply_rows(rounded.numbers[0][0], rounded.groups, from, step);
    from += kIntegerGroup;
    return vmulq_f32(vcvtq_f32_s32(sums), steps);
  };
  const float* const end = output + columns;
  if (rows == kIntegerRows && adds) {
    for (; output != end; ++output) {
      const float32x4_t before = vldrwq_gather_shifted_offset_f32(output, places);
      vstrwq_scatter_shifted_offset_f32(output, places, plus_in_turn(before, of_column()));
    }
    return;
  }
  for (; output != end; ++output) {
    float32x4_t y = of_column();
    float* const to = output;
    if (adds) y = plus_in_turn(vldrwq_gather_shifted_offset_z_f32(to, places, lanes), y);
    vstrwq_scatter_shifted_offset_p_f32(to, places, y, lanes);
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
