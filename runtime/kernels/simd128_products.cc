// SPDX-License-Identifier: Apache-2.0
// Products by WebAssembly's vectors of 128 bits. A panel of `portable` has four outputs, one for
// each lane; XNNPACK's kernels for these vectors read other panels. Every lane adds in the order of
// the scalar kernels, and nothing is fused, so the bits are the same.
#include "kernels/simd128_products.h"

#include <wasm_simd128.h>

#include <algorithm>
#include <type_traits>

#define ARENITE_UNROLL _Pragma("clang loop unroll(full)")

namespace arenite {
namespace {

constexpr size_t kLanes = 4;    // outputs of a panel
constexpr size_t kRowsAll = 4;  // of a tile

// Walks through the parts of a panel.
class Weights {
 public:
  Weights() = default;
  explicit Weights(const void* w) : at_(static_cast<const std::byte*>(w)) {}

  v128_t vector() { return wasm_v128_load(take(16)); }  // four floats or integers, 16 bytes
  // Four bytes as integers. Reads four more, which every panel has after its weights.
  v128_t bytes() {
    v128_t numbers = wasm_i32x4_extend_low_i16x8(wasm_i16x8_load8x8(take(4)));
    asm("" : "+r"(numbers));  // otherwise Clang 14 converts them to floats one by one
    return numbers;
  }
  // The bytes of two inputs as int16, [output][input].
  v128_t two_of_bytes() {
    const v128_t first = wasm_i16x8_load8x8(take(4));
    const v128_t second = wasm_i16x8_load8x8(take(4));
    return wasm_i16x8_shuffle(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
  }
  // Four numbers in bfloat16, the upper halves of floats.
  v128_t short_floats() { return wasm_i32x4_shl(wasm_u32x4_load16x4(take(8)), 16); }
  const std::byte* at() const { return at_; }

 private:
  const std::byte* take(size_t bytes) {
    const std::byte* const part = at_;
    at_ += bytes;
    return part;
  }

  const std::byte* at_ = nullptr;
};

template <typename Number>
Number* further(Number* row, size_t bytes) {
  return reinterpret_cast<Number*>(reinterpret_cast<uintptr_t>(row) + bytes);
}

void store(float* c, v128_t numbers, size_t count) {
  if (count >= kLanes) {
    wasm_v128_store(c, numbers);
    return;
  }
  wasm_v128_store32_lane(c, numbers, 0);
  if (count > 1) wasm_v128_store32_lane(c + 1, numbers, 1);
  if (count > 2) wasm_v128_store32_lane(c + 2, numbers, 2);
}

// Multiplies rows in pieces by several panels at once, so that additions need not wait for each
// other; `list` has kRows addresses for each piece. Returns the end of the panels.
template <size_t kRows, size_t kPanels, bool kBytes>
const std::byte* float_tile(size_t columns, size_t pieces, size_t inputs, const float* const* list,
                            const std::byte* w, size_t panel_bytes, float* c,
                            size_t c_stride_bytes) {
  Weights weights[kPanels];
  v128_t sums[kRows][kPanels];
  ARENITE_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    weights[p] = Weights(w + p * panel_bytes);
    const v128_t bias = weights[p].vector();
    ARENITE_UNROLL
    for (size_t r = 0; r < kRows; ++r) sums[r][p] = bias;
  }
  for (size_t piece = 0; piece < pieces; ++piece, list += kRows) {
    for (size_t k = 0; k < inputs; ++k) {
      v128_t b[kPanels];
      ARENITE_UNROLL
      for (size_t p = 0; p < kPanels; ++p) {
        b[p] = kBytes ? wasm_f32x4_convert_i32x4(weights[p].bytes()) : weights[p].vector();
      }
      ARENITE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        const v128_t a = wasm_v128_load32_splat(list[r] + k);
        ARENITE_UNROLL
        for (size_t p = 0; p < kPanels; ++p) {
          sums[r][p] = wasm_f32x4_add(sums[r][p], wasm_f32x4_mul(a, b[p]));
        }
      }
    }
  }
  ARENITE_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    const v128_t scale = kBytes ? weights[p].vector() : v128_t();
    ARENITE_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const v128_t sum = kBytes ? wasm_f32x4_mul(sums[r][p], scale) : sums[r][p];
      store(further(c, r * c_stride_bytes) + p * kLanes, sum, columns - p * kLanes);
    }
  }
  return weights[kPanels - 1].at();
}

template <size_t kRows, bool kBytes>
void float_rows(size_t columns, size_t pieces, size_t inputs, const float* const* list,
                const void* w, float* c, size_t c_stride_bytes) {
  const size_t input_bytes = kLanes * (kBytes ? 1 : sizeof(float));
  const size_t panel_bytes = (kBytes ? 32 : 16) + pieces * inputs * input_bytes;
  const auto* at = static_cast<const std::byte*>(w);
  const auto tiles = [&]<size_t kPanels>(std::integral_constant<size_t, kPanels>) {
    for (; columns > (kPanels - 1) * kLanes; c += kPanels * kLanes) {
      at = float_tile<kRows, kPanels, kBytes>(columns, pieces, inputs, list, at, panel_bytes, c,
                                              c_stride_bytes);
      columns -= std::min(columns, kPanels * kLanes);
    }
  };
  if constexpr (kRows == 1) tiles(std::integral_constant<size_t, 8>());
  tiles(std::integral_constant<size_t, 2>());
  tiles(std::integral_constant<size_t, 1>());
}

template <bool kBytes>
void float_product(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                   const float* const* list, const void* w, float* c, size_t c_stride_bytes) {
  constexpr decltype(&float_rows<1, kBytes>) kOf[kRowsAll] = {
      float_rows<1, kBytes>, float_rows<2, kBytes>, float_rows<3, kBytes>, float_rows<4, kBytes>};
  kOf[rows - 1](columns, pieces, piece_bytes / sizeof(float), list, w, c, c_stride_bytes);
}

template <bool kBytes>
void float_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
                const void* w, float* c, size_t c_stride_bytes) {
  const float* list[kRowsAll] = {};
  for (size_t r = 0; r < rows; ++r) list[r] = further(a, r * a_stride_bytes);
  float_product<kBytes>(rows, columns, 1, k_bytes, list, w, c, c_stride_bytes);
}

// The weights of eight inputs as int16, in pairs of inputs: [pair][output][input of the pair].
struct Pairs {
  v128_t of[4];

  // Reads q8, [input][output].
  static Pairs of_bytes(Weights& weights) {
    Pairs pairs;
    for (v128_t& pair : pairs.of) pair = weights.two_of_bytes();
    return pairs;
  }
  // Reads q4, [pair][output] with the second input in the high half. Returns weights times 16.
  static Pairs of_halves(Weights& weights) {
    const v128_t both = weights.vector();
    const v128_t low = wasm_i8x16_shl(both, 4);
    const v128_t high = wasm_v128_and(both, wasm_i8x16_const_splat(-16));
    const v128_t first =
        wasm_i8x16_shuffle(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const v128_t second =
        wasm_i8x16_shuffle(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return {{wasm_i16x8_extend_low_i8x16(first), wasm_i16x8_extend_high_i8x16(first),
             wasm_i16x8_extend_low_i8x16(second), wasm_i16x8_extend_high_i8x16(second)}};
  }

  // Returns sum + the products with eight elements of a row.
  v128_t multiply(v128_t sum, const int8_t* row) const {
    const v128_t a = wasm_i16x8_load8x8(row);
    const v128_t products[] = {wasm_i32x4_dot_i16x8(wasm_i32x4_shuffle(a, a, 0, 0, 0, 0), of[0]),
                               wasm_i32x4_dot_i16x8(wasm_i32x4_shuffle(a, a, 1, 1, 1, 1), of[1]),
                               wasm_i32x4_dot_i16x8(wasm_i32x4_shuffle(a, a, 2, 2, 2, 2), of[2]),
                               wasm_i32x4_dot_i16x8(wasm_i32x4_shuffle(a, a, 3, 3, 3, 3), of[3])};
    return wasm_i32x4_add(sum, wasm_i32x4_add(wasm_i32x4_add(products[0], products[1]),
                                              wasm_i32x4_add(products[2], products[3])));
  }
};

// Several panels share what is read of a row. Returns the end of the panels.
template <size_t kRows, size_t kPanels>
const std::byte* q8_tile(size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                         const std::byte* w, float* c, size_t c_stride_bytes,
                         const QuantizedRow* rows) {
  const size_t panel_bytes = 48 + k * kLanes;
  Weights weights[kPanels];
  v128_t sums[kRows][kPanels];
  ARENITE_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    weights[p] = Weights(w + p * panel_bytes);
    const v128_t weight_sums = weights[p].vector();
    ARENITE_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      sums[r][p] = wasm_i32x4_mul(weight_sums, wasm_i32x4_splat(rows[r].zero_point));
    }
  }
  size_t i = 0;
  for (; k - i >= 8; i += 8) {
    ARENITE_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      const Pairs pairs = Pairs::of_bytes(weights[p]);
      ARENITE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][p] = pairs.multiply(sums[r][p], a + r * a_stride_bytes + i);
      }
    }
  }
  for (; i < k; ++i) {
    ARENITE_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      const v128_t b = weights[p].bytes();
      ARENITE_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        const v128_t number = wasm_i32x4_splat(a[r * a_stride_bytes + i]);
        sums[r][p] = wasm_i32x4_add(sums[r][p], wasm_i32x4_mul(number, b));
      }
    }
  }
  ARENITE_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    const v128_t scale = weights[p].vector();
    const v128_t bias = weights[p].vector();
    ARENITE_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const v128_t scaled =
          wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sums[r][p]), wasm_f32x4_splat(rows[r].scale));
      store(further(c, r * c_stride_bytes) + p * kLanes,
            wasm_f32x4_add(wasm_f32x4_mul(scaled, scale), bias), columns - p * kLanes);
    }
  }
  return weights[kPanels - 1].at();
}

template <size_t kRows>
void q8_rows(size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes, const void* w,
             float* c, size_t c_stride_bytes, const QuantizedRow* rows) {
  constexpr auto* kTile = q8_tile<kRows, 1>;
  constexpr auto *kWide = q8_tile < kRows, kRows == 1 ? 4 : 1 > ;
  const auto* at = static_cast<const std::byte*>(w);
  while (columns != 0) {
    const size_t panels = kWide != kTile && columns > 3 * kLanes ? 4 : 1;
    at = (panels == 1 ? kTile : kWide)(columns, k, a, a_stride_bytes, at, c, c_stride_bytes, rows);
    c += panels * kLanes;
    columns -= std::min(columns, panels * kLanes);
  }
}

template <size_t kRows>
void q4_rows(size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes, const void* w,
             float* c, size_t c_stride_bytes, const QuantizedRow* rows) {
  Weights weights(w);
  for (size_t done = 0; done < columns; done += kLanes, c += kLanes) {
    const v128_t weight_sums = weights.vector();
    v128_t out[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      const auto zero_point = static_cast<float>(rows[r].zero_point);
      out[r] = wasm_f32x4_mul(weight_sums, wasm_f32x4_splat(zero_point));
    }
    for (size_t block = 0; block < k; block += kQ4Block) {
      v128_t sums[kRows] = {};
      for (size_t i = 0; i < kQ4Block; i += 8) {
        const Pairs pairs = Pairs::of_halves(weights);
        for (size_t r = 0; r < kRows; ++r) {
          sums[r] = pairs.multiply(sums[r], a + r * a_stride_bytes + block + i);
        }
      }
      const v128_t scale = weights.short_floats();
      for (size_t r = 0; r < kRows; ++r) {
        const v128_t scaled = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sums[r]), scale);
        out[r] = wasm_f32x4_add(out[r], scaled);
      }
    }
    const v128_t bias = weights.vector();
    for (size_t r = 0; r < kRows; ++r) {
      const v128_t scaled = wasm_f32x4_mul(out[r], wasm_f32x4_splat(rows[r].scale));
      store(further(c, r * c_stride_bytes), wasm_f32x4_add(scaled, bias), columns - done);
    }
  }
}

}  // namespace

void simd128_f32_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a,
                      size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes) {
  float_gemm<false>(rows, columns, k_bytes, a, a_stride_bytes, w, c, c_stride_bytes);
}

void simd128_w8_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a,
                     size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes) {
  float_gemm<true>(rows, columns, k_bytes, a, a_stride_bytes, w, c, c_stride_bytes);
}

void simd128_f32_indirect_gemm(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                               const float** list, const void* w, float* c, size_t c_stride_bytes) {
  float_product<false>(rows, columns, pieces, piece_bytes, list, w, c, c_stride_bytes);
}

void simd128_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                     const void* w, float* c, size_t c_stride_bytes,
                     const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  constexpr decltype(&q8_rows<1>) kOf[kRowsAll] = {q8_rows<1>, q8_rows<2>, q8_rows<3>, q8_rows<4>};
  kOf[rows - 1](columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows);
}

void simd128_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                     const void* w, float* c, size_t c_stride_bytes,
                     const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  constexpr decltype(&q4_rows<1>) kOf[kRowsAll] = {q4_rows<1>, q4_rows<2>, q4_rows<3>, q4_rows<4>};
  kOf[rows - 1](columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows);
}

}  // namespace arenite
