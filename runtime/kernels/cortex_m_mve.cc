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
