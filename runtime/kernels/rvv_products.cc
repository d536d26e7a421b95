// SPDX-License-Identifier: Apache-2.0
// Products by RISC-V vectors, for panels with as many outputs as a register has bytes. XNNPACK has
// such kernels only for float32 and q8. With 128-bit vectors their loops take 0.44 instructions per
// multiply-add for one float32 row and 0.22 for seven rows, 0.63 for one q8 row and 0.44 for each
// of four (Clang 19): they read one input at a time and, in q8, change the vector type for each
// product.
//
// A group of four registers holds the sums of a row, so four rows leave half of the registers to
// weights. Int8 weights are loaded four inputs at a time, as whole registers, which needs no vector
// type. Integer sums are exact; float sums are fused, in the order of inputs.
#include "kernels/rvv_products.h"

#include <riscv_vector.h>

#if defined(__clang__)
#define ARENITE_UNROLL _Pragma("clang loop unroll_count(8)")
#else
#define ARENITE_UNROLL _Pragma("GCC unroll 8")
#endif

namespace arenite {
namespace {

// Walks through the parts of a panel. `lanes` are all its outputs: those beyond the matrix are
// computed, too, but not stored.
class Weights {
 public:
  Weights(const void* w, size_t lanes) : at_(static_cast<const std::byte*>(w)), lanes_(lanes) {}

  vfloat32m4_t floats() { return __riscv_vle32_v_f32m4(take<float>(lanes_), lanes_); }
  vint32m4_t integers() { return __riscv_vle32_v_i32m4(take<int32_t>(lanes_), lanes_); }
  vint8m1_t bytes() { return __riscv_vle8_v_i8m1(take<int8_t>(lanes_), lanes_); }
  vint8m4_t four_of_bytes() {
    return *reinterpret_cast<const vint8m4_t*>(take<int8_t>(4 * lanes_));
  }
  // Loads bfloat16, the upper halves of floats.
  vfloat32m4_t short_floats() {
    const vuint16m2_t halves = __riscv_vle16_v_u16m2(take<uint16_t>(lanes_), lanes_);
    const vuint32m4_t wide = __riscv_vzext_vf2_u32m4(halves, lanes_);
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vsll_vx_u32m4(wide, 16, lanes_));
  }

 private:
  template <typename Number>
  const Number* take(size_t count) {
    const auto* const numbers = reinterpret_cast<const Number*>(at_);
    at_ += count * sizeof(Number);
    return numbers;
  }

  const std::byte* at_;
  size_t lanes_;
};

template <typename Number>
const Number* further(const Number* row, size_t bytes) {
  return reinterpret_cast<const Number*>(reinterpret_cast<const std::byte*>(row) + bytes);
}

void store(float* c, size_t row, size_t stride_bytes, vfloat32m4_t numbers, size_t count) {
  auto* const to = reinterpret_cast<std::byte*>(c) + row * stride_bytes;
  __riscv_vse32_v_f32m4(reinterpret_cast<float*>(to), numbers, count);
}

vfloat32m4_t as_floats(vint8m1_t bytes, size_t lanes) {
  return __riscv_vfcvt_f_x_v_f32m4(__riscv_vsext_vf4_i32m4(bytes, lanes), lanes);
}

// Multiplies rows in pieces; `list` has kRows addresses for each piece. Vector types cannot be
// array elements, so every row has named variables; those beyond kRows are unused and cost nothing.
template <size_t kRows, bool kBytes>
void float_rows(size_t columns, size_t pieces, size_t piece_bytes, const float* const* list,
                const void* w, float* c, size_t c_stride_bytes) {
  const size_t lanes = __riscv_vsetvlmax_e32m4();
  Weights weights(w, lanes);
  for (; columns != 0; c += lanes) {
    vfloat32m4_t sum0 = weights.floats();
    vfloat32m4_t sum1 = sum0;
    vfloat32m4_t sum2 = sum0;
    vfloat32m4_t sum3 = sum0;
    const auto add = [&](const float* const* a, size_t k, vfloat32m4_t b) {
      sum0 = __riscv_vfmacc_vf_f32m4(sum0, a[0][k], b, lanes);
      if constexpr (kRows > 1) sum1 = __riscv_vfmacc_vf_f32m4(sum1, a[1][k], b, lanes);
      if constexpr (kRows > 2) sum2 = __riscv_vfmacc_vf_f32m4(sum2, a[2][k], b, lanes);
      if constexpr (kRows > 3) sum3 = __riscv_vfmacc_vf_f32m4(sum3, a[3][k], b, lanes);
    };
    for (size_t piece = 0; piece < pieces; ++piece) {
      const float* a[kRows];
      for (size_t r = 0; r < kRows; ++r) a[r] = list[piece * kRows + r];
      const size_t inputs = piece_bytes / sizeof(float);
      size_t k = 0;
      if constexpr (kBytes) {
        for (; inputs - k >= 4; k += 4) {
          const vint8m4_t four = weights.four_of_bytes();
          add(a, k, as_floats(__riscv_vget_v_i8m4_i8m1(four, 0), lanes));
          add(a, k + 1, as_floats(__riscv_vget_v_i8m4_i8m1(four, 1), lanes));
          add(a, k + 2, as_floats(__riscv_vget_v_i8m4_i8m1(four, 2), lanes));
          add(a, k + 3, as_floats(__riscv_vget_v_i8m4_i8m1(four, 3), lanes));
        }
        for (; k < inputs; ++k) add(a, k, as_floats(weights.bytes(), lanes));
      } else {
        ARENITE_UNROLL
        for (; k < inputs; ++k) add(a, k, weights.floats());
      }
    }
    if constexpr (kBytes) {
      const vfloat32m4_t scale = weights.floats();
      sum0 = __riscv_vfmul_vv_f32m4(sum0, scale, lanes);
      if constexpr (kRows > 1) sum1 = __riscv_vfmul_vv_f32m4(sum1, scale, lanes);
      if constexpr (kRows > 2) sum2 = __riscv_vfmul_vv_f32m4(sum2, scale, lanes);
      if constexpr (kRows > 3) sum3 = __riscv_vfmul_vv_f32m4(sum3, scale, lanes);
    }
    const size_t stored = columns < lanes ? columns : lanes;
    columns -= stored;
    store(c, 0, c_stride_bytes, sum0, stored);
    if constexpr (kRows > 1) store(c, 1, c_stride_bytes, sum1, stored);
    if constexpr (kRows > 2) store(c, 2, c_stride_bytes, sum2, stored);
    if constexpr (kRows > 3) store(c, 3, c_stride_bytes, sum3, stored);
  }
}

template <bool kBytes>
void float_product(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                   const float* const* list, const void* w, float* c, size_t c_stride_bytes) {
  constexpr auto* kOne = float_rows<1, kBytes>;
  constexpr auto* kTwo = float_rows<2, kBytes>;
  constexpr auto* kThree = float_rows<3, kBytes>;
  constexpr auto* kFour = float_rows<4, kBytes>;
  (rows == 1   ? kOne
   : rows == 2 ? kTwo
   : rows == 3 ? kThree
               : kFour)(columns, pieces, piece_bytes, list, w, c, c_stride_bytes);
}

template <bool kBytes>
void float_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
                const void* w, float* c, size_t c_stride_bytes) {
  const float* list[4] = {};
  for (size_t r = 0; r < rows; ++r) list[r] = further(a, r * a_stride_bytes);
  float_product<kBytes>(rows, columns, 1, k_bytes, list, w, c, c_stride_bytes);
}

// sum * scale of the row * scale of the output + bias, in this order, for the same bits as plain C.
vfloat32m4_t as_output(vfloat32m4_t sum, const QuantizedRow& row, vfloat32m4_t bias, size_t lanes,
                       vfloat32m4_t scale) {
  sum = __riscv_vfmul_vf_f32m4(sum, row.scale, lanes);
  sum = __riscv_vfmul_vv_f32m4(sum, scale, lanes);
  return __riscv_vfadd_vv_f32m4(sum, bias, lanes);
}

template <size_t kRows>
void q8_rows(size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes, const void* w,
             float* c, size_t c_stride_bytes, const QuantizedRow* rows) {
  const size_t lanes = __riscv_vsetvlmax_e32m4();
  Weights weights(w, lanes);
  for (; columns != 0; c += lanes) {
    const vint32m4_t sums = weights.integers();
    vint32m4_t sum0 = __riscv_vmul_vx_i32m4(sums, rows[0].zero_point, lanes);
    vint32m4_t sum1 = __riscv_vmul_vx_i32m4(sums, rows[kRows > 1 ? 1 : 0].zero_point, lanes);
    vint32m4_t sum2 = __riscv_vmul_vx_i32m4(sums, rows[kRows > 2 ? 2 : 0].zero_point, lanes);
    vint32m4_t sum3 = __riscv_vmul_vx_i32m4(sums, rows[kRows > 3 ? 3 : 0].zero_point, lanes);
    const int8_t* from[kRows];
    for (size_t r = 0; r < kRows; ++r) from[r] = a + r * a_stride_bytes;
    const auto add = [&](size_t i, vint8m1_t bytes) {
      const vint16m2_t b = __riscv_vsext_vf2_i16m2(bytes, lanes);
      sum0 = __riscv_vwmacc_vx_i32m4(sum0, from[0][i], b, lanes);
      if constexpr (kRows > 1) sum1 = __riscv_vwmacc_vx_i32m4(sum1, from[1][i], b, lanes);
      if constexpr (kRows > 2) sum2 = __riscv_vwmacc_vx_i32m4(sum2, from[2][i], b, lanes);
      if constexpr (kRows > 3) sum3 = __riscv_vwmacc_vx_i32m4(sum3, from[3][i], b, lanes);
    };
    size_t left = k;
    const auto add_four = [&](size_t i) {
      const vint8m4_t four = weights.four_of_bytes();
      add(i, __riscv_vget_v_i8m4_i8m1(four, 0));
      add(i + 1, __riscv_vget_v_i8m4_i8m1(four, 1));
      add(i + 2, __riscv_vget_v_i8m4_i8m1(four, 2));
      add(i + 3, __riscv_vget_v_i8m4_i8m1(four, 3));
    };
    for (; left >= 8; left -= 8) {
      add_four(0);
      add_four(4);
      for (size_t r = 0; r < kRows; ++r) from[r] += 8;
    }
    for (; left != 0; --left) {
      add(0, weights.bytes());
      for (size_t r = 0; r < kRows; ++r) ++from[r];
    }
    const vfloat32m4_t scale = weights.floats();
    const vfloat32m4_t bias = weights.floats();
    const size_t stored = columns < lanes ? columns : lanes;
    columns -= stored;
    const auto finish = [&](size_t r, vint32m4_t sum) {
      const vfloat32m4_t as_float = __riscv_vfcvt_f_x_v_f32m4(sum, lanes);
      store(c, r, c_stride_bytes, as_output(as_float, rows[r], bias, lanes, scale), stored);
    };
    finish(0, sum0);
    if constexpr (kRows > 1) finish(1, sum1);
    if constexpr (kRows > 2) finish(2, sum2);
    if constexpr (kRows > 3) finish(3, sum3);
  }
}

// A byte holds the weights of two inputs. Weights are stored times 16, which the scales compensate.
template <size_t kRows>
void q4_rows(size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes, const void* w,
             float* c, size_t c_stride_bytes, const QuantizedRow* rows) {
  const size_t lanes = __riscv_vsetvlmax_e32m4();
  Weights weights(w, lanes);
  for (; columns != 0; c += lanes) {
    const vfloat32m4_t sums = weights.floats();
    const auto zero_point = [&](size_t r) { return static_cast<float>(rows[r].zero_point); };
    vfloat32m4_t out0 = __riscv_vfmul_vf_f32m4(sums, zero_point(0), lanes);
    vfloat32m4_t out1 = __riscv_vfmul_vf_f32m4(sums, zero_point(kRows - 1), lanes);
    const int8_t* a0 = a;
    const int8_t* a1 = a + (kRows - 1) * a_stride_bytes;
    for (size_t block = 0; block < k; block += kQ4Block) {
      vint32m4_t sum0 = __riscv_vmv_v_x_i32m4(0, lanes);
      vint32m4_t sum1 = sum0;
      const auto add_one = [&](size_t i, vint16m2_t b) {
        sum0 = __riscv_vwmacc_vx_i32m4(sum0, a0[i], b, lanes);
        if constexpr (kRows > 1) sum1 = __riscv_vwmacc_vx_i32m4(sum1, a1[i], b, lanes);
      };
      const auto add_two = [&](size_t i, vint8m1_t bytes) {
        const vint16m2_t both = __riscv_vsext_vf2_i16m2(bytes, lanes);
        const vint16m2_t low = __riscv_vsll_vx_i16m2(both, 12, lanes);
        add_one(i, __riscv_vsra_vx_i16m2(low, 8, lanes));
        add_one(i + 1, __riscv_vand_vx_i16m2(both, -16, lanes));
      };
      for (size_t i = 0; i < kQ4Block; i += 8) {
        const vint8m4_t four = weights.four_of_bytes();
        add_two(0, __riscv_vget_v_i8m4_i8m1(four, 0));
        add_two(2, __riscv_vget_v_i8m4_i8m1(four, 1));
        add_two(4, __riscv_vget_v_i8m4_i8m1(four, 2));
        add_two(6, __riscv_vget_v_i8m4_i8m1(four, 3));
        a0 += 8;
        a1 += 8;
      }
      const vfloat32m4_t scale = weights.short_floats();
      const auto scaled = [&](vint32m4_t sum) {
        return __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(sum, lanes), scale, lanes);
      };
      out0 = __riscv_vfadd_vv_f32m4(out0, scaled(sum0), lanes);
      if constexpr (kRows > 1) out1 = __riscv_vfadd_vv_f32m4(out1, scaled(sum1), lanes);
    }
    const vfloat32m4_t bias = weights.floats();
    const size_t stored = columns < lanes ? columns : lanes;
    columns -= stored;
    const auto finish = [&](size_t r, vfloat32m4_t out) {
      out = __riscv_vfmul_vf_f32m4(out, rows[r].scale, lanes);
      store(c, r, c_stride_bytes, __riscv_vfadd_vv_f32m4(out, bias, lanes), stored);
    };
    finish(0, out0);
    if constexpr (kRows > 1) finish(1, out1);
  }
}

}  // namespace

void rvv_f32_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a,
                  size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes) {
  float_gemm<false>(rows, columns, k_bytes, a, a_stride_bytes, w, c, c_stride_bytes);
}

void rvv_w8_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes) {
  float_gemm<true>(rows, columns, k_bytes, a, a_stride_bytes, w, c, c_stride_bytes);
}

void rvv_f32_indirect_gemm(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                           const float** list, const void* w, float* c, size_t c_stride_bytes) {
  float_product<false>(rows, columns, pieces, piece_bytes, list, w, c, c_stride_bytes);
}

void rvv_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes,
                 const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  constexpr decltype(&q8_rows<1>) kOf[] = {q8_rows<1>, q8_rows<2>, q8_rows<3>, q8_rows<4>};
  kOf[rows - 1](columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows);
}

void rvv_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes,
                 const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  (rows == 1 ? q4_rows<1> : q4_rows<2>)(columns, k, a, a_stride_bytes, w, c, c_stride_bytes,
                                        a_rows);
}

}  // namespace arenite
