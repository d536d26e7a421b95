// SPDX-License-Identifier: Apache-2.0
// The SIMD kernels of one ISA level, with our own signatures. Only kernels/ sees XNNPACK.
//
// Kernels allocate nothing and know nothing of the model. They may read kReadAheadBytes past the
// end of a row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/arena_formula.h"
#include "arenite/target.h"
#include "core/cache_layout.h"
#include "core/needs.h"
#include "core/packing.h"
#include "kernels/soft_floats.h"

namespace arenite {

// c [rows, columns] = a [rows, k] * w + bias, where w is panels of nr columns (packing.h).
// Strides are in bytes. A product's bits do not depend on `rows` or on the row's place among them.
// Products are added in the order of k, one after the other, to the bias; NaN stays NaN.
// REQUIRES: 1 <= rows <= mr, columns >= 1, k_bytes a positive multiple of 4; w at a multiple of nr
// floats or of 64 bytes, whichever is less (SIMD kernels load weights with aligned instructions).
using GemmKernel = void (*)(size_t rows, size_t columns, size_t k_bytes, const float* a,
                            size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes);

// The same for float32 rows that lie in pieces, of which `list` has the addresses: for each piece
// those of `list_rows` rows (IndirectKernels); beyond `rows` they are read like the others.
// REQUIRES: pieces >= 1, piece_bytes a positive multiple of 4.
using IndirectGemmKernel = void (*)(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                                    const float** list, const void* w, float* c,
                                    size_t c_stride_bytes);

// A row of numbers in int8: each stands for (number - zero_point) * scale.
struct QuantizedRow {
  int32_t zero_point;
  float scale;
};

// No kernel of any set computes more rows at once, whatever the packing's mr is.
inline constexpr uint32_t kRowsMax = 8;

// The same for rows in int8, as `quantize` makes them, of at least padded_inputs bytes: numbers
// beyond k do not count. Sums of products are exact, of q4 within each block.
// REQUIRES: all of a_rows is set, those beyond `rows` like the last: a kernel for more rows
// computes the last one several times. `scratch` is the thread's: product_scratch_bytes.
using QuantizedGemmKernel = void (*)(size_t rows, size_t columns, size_t k, const int8_t* a,
                                     size_t a_stride_bytes, const void* w, float* c,
                                     size_t c_stride_bytes, const QuantizedRow (&a_rows)[kRowsMax],
                                     std::byte* scratch);

// y = x / scale + zero_point, rounded to nearest even and to what int8 holds.
using QuantizeKernel = void (*)(size_t bytes, const float* x, float inverse_scale,
                                int32_t zero_point, int8_t* y);

// extremes = the least and the largest of x [bytes / 4]; any two numbers if one of x is NaN.
// REQUIRES: bytes > 0.
using RowExtremesKernel = void (*)(size_t bytes, const float* x, float* extremes);

// The same, and *sum += the sum of x in any order, or 0: finite only if all of x is.
using RowRangeKernel = void (*)(size_t bytes, const float* x, float* extremes, float* sum);

// y = exp(x - *max), *sum = sum of y. Exactly 0 where x is -infinity; NaN where x or *max is, and
// where both are the same infinity. x and y may be the same.
using ExpSumKernel = void (*)(size_t bytes, const float* x, const float* max, float* y, float* sum);

// The same for attention in integers: within 3e-6, 0 below exp(-69), with the same bits in every
// set. *range is no number larger than the least of x, and after it stands *max.
using IntegerExpSumKernel = void (*)(size_t bytes, const float* x, const float* range, float* y,
                                     float* sum);

// y = a + b, or a * b; y may be a or b.
using BinaryKernel = void (*)(size_t bytes, const float* a, const float* b, float* y);

// y = a + *constant, or a * *constant; y may be a.
using WithConstantKernel = void (*)(size_t bytes, const float* a, const float* constant, float* y);

// *sum += the sum of x [bytes / 4]. REQUIRES: bytes > 0.
using SumKernel = void (*)(size_t bytes, const float* x, float* sum);

// y = f(x); y may be x.
using UnaryKernel = void (*)(size_t bytes, const float* x, float* y);

// Complex product: x, angles and y are each `bytes` of real parts, then `bytes` of imaginary
// parts; y may be x.
using RotateKernel = void (*)(size_t bytes, const float* x, const float* angles, float* y);

// y [columns, rows] = x [rows, columns] transposed. Strides are in bytes.
using TransposeKernel = void (*)(size_t rows, size_t columns, const float* x, size_t x_stride_bytes,
                                 float* y, size_t y_stride_bytes);

// What a row of floats is multiplied with before it is rounded, and what one of its steps stands
// for. Not finite: NaN for the steps.
struct RowSteps {
  float per_unit;
  float step;
};

// scores = query * keys^T of keys in int8 (cache_layout.h), where rows are rounded to 16 bits on
// the way. Sums are exact, so that every such kernel gives the same bits: sum * scale of the key *
// step of the row. Keys are read up to a multiple of four, and three words beyond. REQUIRES: 1 <=
// rows <= 4, keys >= 1, dims >= 1; per_unit keeps sums of products within 32 bits.
using IntegerScoresKernel = void (*)(size_t rows, size_t keys, size_t dims, const float* query,
                                     size_t query_stride_bytes, const RowSteps* query_rows,
                                     const int8_t* key, const float* key_scales, float* scores,
                                     size_t scores_stride_bytes);

// output = (weights * scales) * values, or += where it `adds`, for a block of positions whose
// values are in int8 (cache_layout.h). Scales are of the positions; null: 1. Weights
// may become their products with them. Each row of them is rounded to 16 bits by its largest number
// in the block; the bits are the same, as above. REQUIRES: 1 <= rows <= 4, products >= 0 or NaN, 1
// <= positions <= kIntegerBlock, columns >= 1.
using IntegerValuesKernel = void (*)(size_t rows, size_t columns, size_t positions, float* weights,
                                     size_t weights_stride_bytes, const float* scales,
                                     const std::byte* values, float* output,
                                     size_t output_stride_bytes, bool adds);

// Numbers of a row of keys or values in int8 (cache_layout.h), each `apart` bytes from the one
// before; gives their scale.
using RoundRowKernel = float (*)(size_t count, const float* x, size_t apart, int8_t* y);

// What a row of a query is rounded to for products in integers.
using QueryStepsKernel = RowSteps (*)(size_t count, const float* x);

// y = y * factor + 0; false if a result is not finite. REQUIRES: factor >= 2^-32, or NaN.
using DivideRowKernel = bool (*)(size_t count, float factor, float* y);

// A kernel that only vectors of Cortex-M have: other builds know that it is null.
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
template <typename Kernel>
using MveKernel = Kernel;
inline constexpr bool kMveLinked = true;
#else
inline constexpr bool kMveLinked = false;
template <typename Kernel>
struct MveKernel {
  constexpr MveKernel(Kernel = nullptr) {}  // NOLINT: implicit, as it stands for a pointer
  constexpr operator Kernel() const { return nullptr; }
};
#endif

constexpr bool tiles_fit_rows_max() {
  for (uint32_t i = 0; i < kTargets; ++i) {
    for (const TensorType type : {TensorType::kF32, TensorType::kQ8, TensorType::kQ4}) {
      if (packing_of(static_cast<Target>(i), type).mr > kRowsMax) return false;
    }
  }
  return true;
}
static_assert(tiles_fit_rows_max());

// Products of float32 rows with weights of one type.
struct FloatKernels {
  Packing packing;
  GemmKernel gemm[kRowsMax + 1];  // [rows]: the kernel that suits this many rows, up to mr
};

// Products of float32 rows that lie in pieces with float32 weights, packed as for other products.
struct IndirectKernels {
  IndirectGemmKernel gemm[kRowsMax + 1];
  uint8_t list_rows[kRowsMax + 1];  // of the list that the kernel for so many rows reads
};

// Products of quantized rows with weights of one type.
struct QuantizedKernels {
  Packing packing;
  QuantizeKernel quantize;  // what these kernels read, which is not int8's own form everywhere
  QuantizedGemmKernel gemm[kRowsMax + 1];
};

// Attention in integers, for keys and values in int8.
struct IntegerAttention {
  QuantizeKernel quantize;  // keys and values
  IntegerExpSumKernel exp_sum;
  IntegerScoresKernel scores;
  IntegerValuesKernel values;
  [[no_unique_address]] MveKernel<RoundRowKernel> round_row = nullptr;  // null: by `quantize`
  [[no_unique_address]] MveKernel<QueryStepsKernel> query_steps = nullptr;
};

// Members of one type are told apart by name alone: the sets name what they fill.
struct KernelSet {
  Target target;
  bool sigmoid_saturates = false;  // else it may make NaN of numbers beyond 10^14
  const char* name;
  FloatKernels f32;
  const FloatKernels* w8;      // for weights in w8, and caches in int8 without `integers`
  const QuantizedKernels* q8;  // each null where no model of the build has such
  const QuantizedKernels* q4;
  const IndirectKernels* indirect;  // for windows of float32 rows; as the above
  RowExtremesKernel row_extremes;
  ExpSumKernel exp_sum;
  SumKernel sum;
  BinaryKernel add;
  BinaryKernel multiply;
  WithConstantKernel add_constant;
  WithConstantKernel scale;
  TransposeKernel transpose;
  RotateKernel rotate;
  UnaryKernel gelu;  // by the error function
  UnaryKernel sigmoid;
  UnaryKernel tanh;
  const IntegerAttention* integers = nullptr;  // null where floats are quicker
  RowRangeKernel row_range = nullptr;          // null: `sum` and `row_extremes` are as quick
  [[no_unique_address]] MveKernel<DivideRowKernel> divide = nullptr;

  // For products with keys and values of a cache, where they are not those of `integers`.
  const FloatKernels& of_cache(bool is_int8) const { return is_int8 ? *w8 : f32; }
  CacheLayout layout_of_cache(bool is_int8, const CacheShape& shape, uint32_t positions) const {
    return {packing_of_cache(f32.packing, is_int8), shape, positions, integers != nullptr};
  }
  // REQUIRES: kQ8 or kQ4.
  const QuantizedKernels& quantized(TensorType type) const {
    return type == TensorType::kQ8 ? *q8 : *q4;
  }
};

// The kernels for a target; null where this build lacks them or this CPU cannot run them.
const KernelSet* kernel_set(Target target);
// The one that CPUs without AVX-VNNI take for x86-64-v3, or null.
const KernelSet* plain_avx2_set();

// What a kernel set leaves out where no model needs it: a question to the compiler of a build, and
// to the program that writes the sources of one.

// What no op of the needs calls becomes null, so that the linker leaves out the microkernel.
constexpr KernelSet linked_kernels(KernelSet set, uint64_t needs = kLinked) {
  using enum Need;
  const auto any = [needs](uint64_t of_these) { return (needs & of_these) != 0; };
  const bool quantizes = any(bits_of(kQ8, kQ4));
  if (!any(bits_of(kInt8Cache))) set.integers = nullptr;
  const bool is_w8 = any(bits_of(kW8)) || (any(bits_of(kInt8Cache)) && set.integers == nullptr);
  if (!is_w8) set.w8 = nullptr;
  if (!any(bits_of(kQ8))) set.q8 = nullptr;
  if (!any(bits_of(kQ4))) set.q4 = nullptr;
  if (!any(bits_of(kConvolution))) set.indirect = nullptr;
  const bool has_softmax = any(bits_of(kAttention, kSoftmax, kLogSoftmax));
  if (!has_softmax && !quantizes) set.row_extremes = nullptr;
  if (!quantizes && set.integers == nullptr) set.row_range = nullptr;
  if (!has_softmax) set.exp_sum = nullptr;
  if (!any(bits_of(kAttention))) set.transpose = nullptr;
  if (!any(bits_of(kAttention))) set.divide = nullptr;
  if (!any(kNormNeeds) && !quantizes) set.sum = nullptr;
  const bool multiplies = any(kNormNeeds | kActivationNeeds | bits_of(kInt8Cache, kDepthwise));
  if (!multiplies) set.multiply = nullptr;
  if (!any(bits_of(kRope))) set.rotate = nullptr;
  if (!any(bits_of(kGeluErf))) set.gelu = nullptr;
  if (!any(bits_of(kGeluTanh, kSilu, kSigmoid, kElu, kSoftplus, kMish))) set.sigmoid = nullptr;
  if (!any(bits_of(kSoftCap, kTanh, kScoreCap, kElu))) set.tanh = nullptr;
  return set;
}

}  // namespace arenite
