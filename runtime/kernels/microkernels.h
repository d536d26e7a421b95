// SPDX-License-Identifier: Apache-2.0
// Gives XNNPACK's microkernels our signatures, and builds the tables of a kernel set from them
// without those that no model of the build needs. For the files that define sets.
#pragma once

#include <cmath>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "kernels/kernel_set.h"
#include "kernels/thread_check.h"
#include "xnnpack/gemm.h"
#include "xnnpack/igemm.h"
#include "xnnpack/raddstoreexpminusmax.h"
#include "xnnpack/reduce.h"
#include "xnnpack/transpose.h"
#include "xnnpack/vbinary.h"
#include "xnnpack/vcvt.h"
#include "xnnpack/vunary.h"

namespace arenite {

// The sets that a build may have; tools/cmake/xnnpack.cmake decides which.
extern const KernelSet kScalarSet, kSse41Set, kAvx2Set, kAvxVnniSet, kAvx512Set, kAvx512VnniSet,
    kNeonSet, kNeonDotSet, kNeonI8mmSet, kNeon32Set, kDspSet, kMveSet, kRvv128Set, kRvv256Set,
    kSimd128Set;

// Parameters for kernels that could clamp, without limits, and for those that cannot.
inline constexpr xnn_f32_minmax_params kNoClamp = {{-INFINITY, INFINITY}};
inline constexpr xnn_f32_default_params kNoParams = {};
inline constexpr xnn_f32_qb4w_minmax_params kNoClampOfBlocks = {{-INFINITY, INFINITY, kQ4Block}};
inline constexpr xnn_f32_scale_params kScaleByOne = {{1.0f}};

// Returns the rows of a kernel's tile, from its name: 5 for ..._ukernel_5x8c8__avxvnni. XNNPACK's
// kernels compute all of them, and repeat the last row in place of missing ones.
template <auto kKernel>
consteval uint8_t tile_rows_of() {
  constexpr std::string_view kName = __PRETTY_FUNCTION__;
  constexpr std::string_view kBefore = "_ukernel_";
  uint8_t rows = 0;
  for (const char digit : kName.substr(kName.find(kBefore)).substr(kBefore.size())) {
    if (digit == 'x') break;
    rows = static_cast<uint8_t>(rows * 10 + (digit - '0'));
  }
  return rows;
}
template <auto kKernel>
inline constexpr uint8_t kTileRows = tile_rows_of<kKernel>();

inline size_t panel_bytes_of(Packing packing, size_t columns, size_t k) {
  return panels_of(packing, static_cast<uint32_t>(columns)) *
         panel_bytes(packing, static_cast<uint32_t>(k)).value();
}

// Returns the parameters of a kernel, by its arguments: only kernels that clamp have parameters.
template <typename... Arguments>
constexpr auto params_of(void (*)(Arguments...)) {
  if constexpr ((std::is_same_v<Arguments, const xnn_f32_default_params*> || ...)) {
    return &kNoParams;
  } else if constexpr ((std::is_same_v<Arguments, const xnn_f32_qb4w_minmax_params*> || ...)) {
    return &kNoClampOfBlocks;
  } else {
    return &kNoClamp;
  }
}

template <Packing kPacking, auto kKernel>
void gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
          const void* w, float* c, size_t c_stride_bytes) {
  kernel_reads_rows(a, rows, k_bytes, a_stride_bytes);
  kernel_reads(w, panel_bytes_of(kPacking, columns, k_bytes / sizeof(float)));
  kernel_writes_rows(c, rows, columns * sizeof(float), c_stride_bytes);
  // Some kernels take a const float*, others a const void*.
  kKernel(rows, columns, k_bytes, a, a_stride_bytes, static_cast<const float*>(w), c,
          c_stride_bytes, kPacking.nr * sizeof(float), params_of(kKernel));
}

template <Packing kPacking, size_t kListRows, auto kKernel>
void indirect_gemm(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                   const float** list, const void* w, float* c, size_t c_stride_bytes) {
  for (size_t i = 0; i < pieces * kListRows; ++i) kernel_reads(list[i], piece_bytes);
  kernel_reads(w, panel_bytes_of(kPacking, columns, pieces * piece_bytes / sizeof(float)));
  kernel_writes_rows(c, rows, columns * sizeof(float), c_stride_bytes);
  kKernel(rows, columns, piece_bytes, pieces * kListRows * sizeof(float*), list,
          static_cast<const float*>(w), c, c_stride_bytes, kPacking.nr * sizeof(float), 0, nullptr,
          params_of(kKernel));
}

static_assert(sizeof(QuantizedRow) == sizeof(xnn_qd8_quantization_params) &&
              offsetof(QuantizedRow, scale) == offsetof(xnn_qd8_quantization_params, inv_scale));

template <Packing kPacking, auto kKernel>
void quantized_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                    const void* w, float* c, size_t c_stride_bytes,
                    const QuantizedRow (&a_rows)[kRowsMax], std::byte*) {
  kernel_reads_rows(a, rows, k, a_stride_bytes);
  kernel_reads(a_rows, kTileRows<kKernel> * sizeof(QuantizedRow));
  kernel_reads(w, panel_bytes_of(kPacking, columns, k));
  kernel_writes_rows(c, rows, columns * sizeof(float), c_stride_bytes);
  const auto* const params = reinterpret_cast<const xnn_qd8_quantization_params*>(a_rows);
  kKernel(rows, columns, k, a, a_stride_bytes, w, c, c_stride_bytes, kPacking.nr * sizeof(float),
          params_of(kKernel), params);
}

template <auto kKernel>
void quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point, int8_t* y) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes / sizeof(float));
  const xnn_f32_qs8_cvt_params params = {{inverse_scale, static_cast<int16_t>(zero_point)}};
  kKernel(bytes, x, y, &params);
}

// quantize() to unsigned bytes (128 added), which VNNI kernels read (vnni_kernels.h).
template <auto kKernel>
void quantize_unsigned(size_t bytes, const float* x, float inverse_scale, int32_t zero_point,
                       int8_t* y) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes / sizeof(float));
  const xnn_f32_qu8_cvt_params params = {{inverse_scale, static_cast<int16_t>(zero_point + 128)}};
  kKernel(bytes, x, reinterpret_cast<uint8_t*>(y), &params);
}

template <auto kKernel>
void row_extremes(size_t bytes, const float* x, float* extremes) {
  kernel_reads(x, bytes);
  kKernel(bytes, x, extremes, &kNoParams);
}

template <auto kKernel>
void sum(size_t bytes, const float* x, float* sum) {
  kernel_reads(x, bytes);
  kKernel(bytes, x, sum, &kScaleByOne);
}

template <auto kKernel>
void exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes);
  kKernel(bytes, x, max, y, sum, nullptr);
}

template <auto kKernel>
void binary(size_t bytes, const float* a, const float* b, float* y) {
  kernel_reads(a, bytes);
  kernel_reads(b, bytes);
  kernel_writes(y, bytes);
  kKernel(bytes, a, b, y, &kNoParams);
}

template <auto kKernel>
void with_constant(size_t bytes, const float* a, const float* constant, float* y) {
  kernel_reads(a, bytes);
  kernel_reads(constant, sizeof(float));
  kernel_writes(y, bytes);
  kKernel(bytes, a, constant, y, &kNoParams);
}

template <auto kKernel>
void complex_product(size_t bytes, const float* a, const float* b, float* y) {
  kernel_reads(a, 2 * bytes);
  kernel_reads(b, 2 * bytes);
  kernel_writes(y, 2 * bytes);
  kKernel(bytes, a, b, y, &kNoParams);
}

template <auto kKernel>
void unary(size_t bytes, const float* x, float* y) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes);
  kKernel(bytes, x, y, &kNoParams);
}

template <auto kKernel>
void transpose(size_t rows, size_t columns, const float* x, size_t x_stride_bytes, float* y,
               size_t y_stride_bytes) {
  kernel_reads_rows(x, rows, columns * sizeof(float), x_stride_bytes);
  kernel_writes_rows(y, columns, rows * sizeof(float), y_stride_bytes);
  kKernel(reinterpret_cast<const uint32_t*>(x), reinterpret_cast<uint32_t*>(y), x_stride_bytes,
          y_stride_bytes, columns, rows);
}

// The maximum rows of each kernel in a list, in ascending order. Of the three kernels for
//   UpTo<1, 4, 6>
// the first takes 1 row, the second 2 to 4, and the third 5 and 6.
template <uint8_t... kMost>
struct UpTo {
  static constexpr uint8_t kRows[sizeof...(kMost)] = {kMost...};
  static constexpr uint8_t kLargest = kRows[sizeof...(kMost) - 1];

  // Whether the tiles of the kernels are large enough for their rows.
  static consteval bool fits(const uint8_t (&tiles)[sizeof...(kMost)]) {
    for (size_t i = 0; i < sizeof...(kMost); ++i) {
      if (tiles[i] < kRows[i] || tiles[i] > kRowsMax) return false;
    }
    return true;
  }

  // Sets of_rows[rows] to the item of `list` for that many rows.
  template <typename Item>
  static consteval void fill(Item (&of_rows)[kRowsMax + 1], const Item (&list)[sizeof...(kMost)]) {
    for (size_t i = 0, rows = 1; i < sizeof...(kMost); ++i) {
      for (; rows <= kRows[i]; ++rows) of_rows[rows] = list[i];
    }
  }
};

// The kernels of a target for a weight type. Functions make them, since the packing is a template
// argument of the kernels.
template <Target kTarget, TensorType kType, typename Rows, auto... kKernels>
consteval FloatKernels make_float_kernels() {
  constexpr Packing kPacking = packing_of(kTarget, kType);
  static_assert(Rows::kLargest == kPacking.mr && Rows::fits({kTileRows<kKernels>...}));
  FloatKernels made = {kPacking, {}};
  Rows::fill(made.gemm, {gemm<kPacking, kKernels>...});
  return made;
}
template <Target kTarget, TensorType kType, typename Rows, auto... kKernels>
inline constexpr FloatKernels float_kernels =
    make_float_kernels<kTarget, kType, Rows, kKernels...>();

template <Target kTarget, auto... kKernels, uint8_t... kMost>
consteval IndirectKernels make_indirect_kernels(UpTo<kMost...> rows) {
  constexpr Packing kPacking = packing_of(kTarget, TensorType::kF32);
  static_assert(rows.kLargest == kPacking.mr);
  static_assert(((kTileRows<kKernels> == kMost) && ...), "kernels read the whole list");
  IndirectKernels made = {};
  rows.fill(made.gemm, {indirect_gemm<kPacking, kMost, kKernels>...});
  rows.fill(made.list_rows, {kMost...});
  return made;
}
template <Target kTarget, typename Rows, auto... kKernels>
inline constexpr IndirectKernels indirect_kernels =
    make_indirect_kernels<kTarget, kKernels...>(Rows());

template <Target kTarget, TensorType kType, QuantizeKernel kQuantize, typename Rows,
          auto... kKernels>
consteval QuantizedKernels make_quantized_kernels() {
  constexpr Packing kPacking = packing_of(kTarget, kType);
  static_assert(Rows::kLargest == kPacking.mr && Rows::fits({kTileRows<kKernels>...}));
  QuantizedKernels made = {kPacking, kQuantize, {}};
  Rows::fill(made.gemm, {quantized_gemm<kPacking, kKernels>...});
  return made;
}
template <Target kTarget, TensorType kType, QuantizeKernel kQuantize, typename Rows,
          auto... kKernels>
inline constexpr QuantizedKernels quantized_kernels =
    make_quantized_kernels<kTarget, kType, kQuantize, Rows, kKernels...>();

// Returns `set` for another target, with other products of int8 rows.
consteval KernelSet with_products(KernelSet set, Target target, const char* name,
                                  const QuantizedKernels* q8, const QuantizedKernels* q4) {
  set.target = target;
  set.name = name;
  set.q8 = q8;
  set.q4 = q4;
  return linked_kernels(set);
}

}  // namespace arenite
