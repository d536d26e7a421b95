// SPDX-License-Identifier: Apache-2.0
// Products for Cortex-M with vectors (MVE, Helium), for integer-only vectors and for float vectors:
// VMLADAVA adds sixteen products of bytes to a sum. Sums are exact and epilogues compute as
// XNNPACK's scalar kernels do, so products of int8 rows have the same bits. Products of float32
// rows round once where XNNPACK's round twice. Vectors flush denormals to zero, whatever FPSCR
// says.
#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_MVE)
#include <arm_mve.h>

#include <cmath>
#include <cstring>

#include "core/float_bits.h"

#if !defined(__clang__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite {
namespace {

constexpr size_t kVector = 16;  // bytes of a vector

// Four outputs as floats. store() skips those beyond `lanes`, which the last panel may have.
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

// begin() returns the initial value of a sum of a q8 panel; finish() is the epilogue of its four
// sums: to = sum * scale of the row * scale of the output + bias.
int32_t begin(const Q8Panel& panel, size_t lane, const QuantizedRow& row) {
  return correction(panel.head[lane], row.zero_point);
}
void finish(const Q8Panel& panel, const int32_t (&sums)[kLanes], const QuantizedRow& row, float* to,
            size_t lanes) {
  const Floats y = times(times(converted(sums), row.scale), load(panel.scales));
  store(plus(y, load(panel.scales + kLanes)), to, lanes);
}

// c [columns] = one row times all panels.
#if defined(ARENITE_HAVE_MVE_FLOATS)
[[gnu::noinline]] void q8_row(const std::byte* panels, size_t columns, size_t k, const int8_t* a,
                              const QuantizedRow& row, float* c) {
  const int8_t* from;
  asm volatile(
      "1: ldm %[panels]!, {r0, r2, r4, r6}\n"
      "mul r0, r0, %[zero_point]\n"
      "mul r2, r2, %[zero_point]\n"
      "mul r4, r4, %[zero_point]\n"
      "mul r6, r6, %[zero_point]\n"
      "mov %[from], %[a]\n"
      "dls lr, %[vectors]\n"
      "2: vldrb.8 q0, [%[from]], #16\n"
      "vldrb.8 q1, [%[panels]], #16\n"
      "vmladava.s8 r0, q0, q1\n"
      "vldrb.8 q2, [%[panels]], #16\n"
      "vmladava.s8 r2, q0, q2\n"
      "vldrb.8 q1, [%[panels]], #16\n"
      "vmladava.s8 r4, q0, q1\n"
      "vldrb.8 q2, [%[panels]], #16\n"
      "vmladava.s8 r6, q0, q2\n"
      "le lr, 2b\n"
      "vmov q0[2], q0[0], r0, r4\n"
      "vmov q0[3], q0[1], r2, r6\n"
      "vcvt.f32.s32 q0, q0\n"
      "vldrw.u32 q1, [%[panels]], #16\n"
      "vmul.f32 q0, q0, %[scale]\n"
      "vldrw.u32 q2, [%[panels]], #16\n"
      "vmul.f32 q0, q0, q1\n"
      "vctp.32 %[columns]\n"
      "vadd.f32 q0, q0, q2\n"
      "vpst\n"
      "vstrwt.32 q0, [%[c]], #16\n"
      "subs %[columns], #4\n"
      "bhi 1b"
      : [panels] "+r"(panels), [columns] "+r"(columns), [c] "+r"(c), [from] "=&r"(from)
      : [a] "r"(a), [vectors] "r"(k / kVector), [zero_point] "r"(row.zero_point),
        [scale] "r"(bit_cast<uint32_t>(row.scale))
      : "r0", "r2", "r4", "r6", "lr", "q0", "q1", "q2", "p0", "cc", "memory");
}
#else
void q8_row(const std::byte* panels, size_t columns, size_t k, const int8_t* a,
            const QuantizedRow& row, float* c) {
  for (size_t column = 0; column < columns; column += kLanes) {
    const Q8Panel panel(panels, k);
    int32_t sums[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int8_t* w = panel.weights + lane * kVector;
      sums[lane] = begin(panel, lane, row);
      for (size_t i = 0; i < k; i += kVector, w += kLanes * kVector) {
        sums[lane] = vmladavaq_s8(sums[lane], vldrbq_s8(a + i), vldrbq_s8(w));
      }
    }
    finish(panel, sums, row, c + column, columns - column < kLanes ? columns - column : kLanes);
    panels = panel.end();
  }
}
#endif

// Computes sums of two rows and two outputs, with twice as many products for each vector that is
// read.
void q8_square(const Q8Panel& panel, size_t k, size_t lane, const int8_t* a, size_t a_stride,
               const QuantizedRow* rows, int32_t* sums0, int32_t* sums1) {
  const int8_t* w = panel.weights + lane * kVector;
  const int8_t* b = a + a_stride;
  int32_t sum00 = begin(panel, lane, rows[0]), sum01 = begin(panel, lane + 1, rows[0]);
  int32_t sum10 = begin(panel, lane, rows[1]), sum11 = begin(panel, lane + 1, rows[1]);
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

// A block of a q4 panel (packing.h).
struct Q4Block {
  uint8_t weights[kLanes][kVector];
  uint16_t scales[kLanes];  // scales / 16, in bfloat16
};
static_assert(sizeof(Q4Block) == kQ4BlockBytes * kLanes && kQ4Block == 2 * kVector);

// Returns 16 times a block's share of an output.
int32_t q4_sum(const uint8_t* halves, int8x16_t low, int8x16_t high) {
  const uint8x16_t bytes = vldrbq_u8(halves);
  const int32_t sum = vmladavq_s8(low, vreinterpretq_s8_u8(vshlq_n_u8(bytes, 4)));
  return vmladavaq_s8(sum, high, vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(0xF0))));
}

}  // namespace

void mve_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes,
                 const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  const size_t padded = (k + kVector - 1) / kVector * kVector;
  const size_t c_stride = c_stride_bytes / sizeof(float);
  const auto* at = static_cast<const std::byte*>(w);
  if (rows % 2 != 0) {
    const size_t last = rows - 1;
    q8_row(at, columns, padded, a + last * a_stride_bytes, a_rows[last], c + last * c_stride);
    if (last == 0) return;
  }
  for (size_t column = 0; column < columns; column += kLanes, c += kLanes) {
    const Q8Panel panel(at, padded);
    const size_t lanes = columns - column < kLanes ? columns - column : kLanes;
    int32_t sums[kLanes], sums_of_next[kLanes];
    for (size_t r = 0; r + 2 <= rows; r += 2) {
      for (size_t lane = 0; lane < kLanes; lane += 2) {
        q8_square(panel, padded, lane, a + r * a_stride_bytes, a_stride_bytes, a_rows + r, sums,
                  sums_of_next);
      }
      finish(panel, sums, a_rows[r], c + r * c_stride, lanes);
      finish(panel, sums_of_next, a_rows[r + 1], c + (r + 1) * c_stride, lanes);
    }
    at = panel.end();
  }
}

void mve_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes,
                 const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
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
  // The elements fit 16 bits: VQMOVN saturates the lower half of each to a byte.
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[x]], #16\n"
      "vmul.f32 q0, q0, %[per_unit]\n"
      "vcvtn.s32.f32 q0, q0\n"
      "vadd.i32 q0, q0, %[zero_point]\n"
      "vqmovnb.s16 q0, q0\n"
      "vstrb.32 q0, [%[y]], #4\n"
      "letp lr, 1b\n"
      "2:"
      : [x] "+r"(x), [y] "+l"(y)
      : [count] "r"(count), [per_unit] "r"(bit_cast<uint32_t>(inverse_scale)),
        [zero_point] "r"(zero_point)
      : "lr", "q0", "memory");
#else
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: the sum is rounded to an integer
  for (; count != 0; --count) {
    int32_t number = bit_cast<int32_t>(*x++ * inverse_scale + kMagic) - bit_cast<int32_t>(kMagic);
    number += zero_point;
    number = number < -128 ? -128 : number;
    *y++ = static_cast<int8_t>(number > 127 ? 127 : number);
  }
#endif
}

#if defined(ARENITE_HAVE_MVE_FLOATS)
namespace {

// c = kRows rows * a panel: its bias [4], then the four weights of each input.
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
  float32x4_t least = vdupq_n_f32(*x), most = least;
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[x]], #16\n"
      "vminnm.f32 %q[least], %q[least], q0\n"
      "vmaxnm.f32 %q[most], %q[most], q0\n"
      "letp lr, 1b\n"
      "2:"
      : [x] "+r"(x), [least] "+w"(least), [most] "+w"(most)
      : [count] "r"(bytes / sizeof(float))
      : "lr", "q0", "memory");
  extremes[0] = vminnmvq_f32(INFINITY, least);
  extremes[1] = vmaxnmvq_f32(-INFINITY, most);
}

void mve_row_range(size_t bytes, const float* x, float* extremes, float* sum) {
  float32x4_t least = vdupq_n_f32(*x), most = least, sums = vdupq_n_f32(0.0f);
  asm volatile(
      "wlstp.32 lr, %[count], 2f\n"
      "1: vldrw.u32 q0, [%[x]], #16\n"
      "vminnm.f32 %q[least], %q[least], q0\n"
      "vmaxnm.f32 %q[most], %q[most], q0\n"
      "vadd.f32 %q[sums], %q[sums], q0\n"
      "letp lr, 1b\n"
      "2:"
      : [x] "+r"(x), [least] "+w"(least), [most] "+w"(most), [sums] "+w"(sums)
      : [count] "r"(bytes / sizeof(float))
      : "lr", "q0", "memory");
  extremes[0] = vminnmvq_f32(INFINITY, least);
  extremes[1] = vmaxnmvq_f32(-INFINITY, most);
  *sum += sums[0] + sums[1] + sums[2] + sums[3];
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
