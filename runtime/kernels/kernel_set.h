// SPDX-License-Identifier: Apache-2.0
// The kernels of one ISA level, with our own signatures. Only kernels/ sees XNNPACK. Kernels
// allocate nothing, know nothing of the model and may read kReadAheadBytes past the end of a row.
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

// c [rows, columns] = a [rows, k] * w + bias, where w is panels of nr columns (packing.h). Strides
// are in bytes. The products of a row are added to the bias in the order of k, so its bits depend
// neither on `rows` nor on its place among them. NaN stays NaN.
// REQUIRES: 1 <= rows <= mr, columns >= 1, k_bytes a positive multiple of 4; w at a multiple of nr
// floats or of 64 bytes, whichever is less (SIMD kernels load weights with aligned instructions).
using GemmKernel = void (*)(size_t rows, size_t columns, size_t k_bytes, const float* a,
                            size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes);

// GemmKernel for float32 rows in pieces, whose addresses `list` holds: for each piece those of
// `list_rows` rows (IndirectKernels). Entries beyond `rows` are read like the others.
// REQUIRES: pieces >= 1, piece_bytes a positive multiple of 4.
using IndirectGemmKernel = void (*)(size_t rows, size_t columns, size_t pieces, size_t piece_bytes,
                                    const float** list, const void* w, float* c,
                                    size_t c_stride_bytes);

// The quantization of a row to int8: element = (number - zero_point) * scale.
struct QuantizedRow {
  int32_t zero_point;
  float scale;
};

// The maximum number of rows that any kernel computes at once, whatever the packing's mr is.
inline constexpr uint32_t kRowsMax = 8;

// GemmKernel for rows in int8, as `quantize` makes them, each of at least padded_inputs bytes;
// numbers beyond k do not count. Sums of products are exact; for q4, within each block. `scratch`
// is that of the thread: product_scratch_bytes.
// REQUIRES: all of a_rows is set, those beyond `rows` like the last: a kernel for more rows
// computes the last one several times.
using QuantizedGemmKernel = void (*)(size_t rows, size_t columns, size_t k, const int8_t* a,
                                     size_t a_stride_bytes, const void* w, float* c,
                                     size_t c_stride_bytes, const QuantizedRow (&a_rows)[kRowsMax],
                                     std::byte* scratch);

// y = x * inverse_scale + zero_point, rounded to nearest even and clamped to int8.
using QuantizeKernel = void (*)(size_t bytes, const float* x, float inverse_scale,
                                int32_t zero_point, int8_t* y);

// extremes = {smallest, largest} of x [bytes / 4]; any two floats if an element is NaN. REQUIRES:
// bytes > 0.
using RowExtremesKernel = void (*)(size_t bytes, const float* x, float* extremes);

// A RowExtremesKernel that also adds 0 or the sum of x, in any order, to *sum, which is finite only
// if all of x is.
using RowRangeKernel = void (*)(size_t bytes, const float* x, float* extremes, float* sum);

// y = exp(x - *max), *sum = sum of y. y is exactly 0 where x is -infinity, and NaN where x or *max
// is NaN or both are the same infinity. x and y may be the same.
using ExpSumKernel = void (*)(size_t bytes, const float* x, const float* max, float* y, float* sum);

// ExpSumKernel for attention in integers: y is within 3e-6, and 0 below exp(-69), with the same
// bits in every set. range[0] is no larger than the least of x, and range[1] is the largest.
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

// y = x * angles, complex: each is `bytes` of real parts, then of imaginary parts. y may be x.
using RotateKernel = void (*)(size_t bytes, const float* x, const float* angles, float* y);

// y [columns, rows] = x [rows, columns] transposed. Strides are in bytes.
using TransposeKernel = void (*)(size_t rows, size_t columns, const float* x, size_t x_stride_bytes,
                                 float* y, size_t y_stride_bytes);

// The rounding of a float row to integers: number = round(x * per_unit), and number * step
// approximates x. The step is NaN if the row is not finite.
struct RowSteps {
  float per_unit;
  float step;
};

// scores = query * keys^T for keys in int8 (cache_layout.h). Rows of the query are rounded to 16
// bits on the way. Sums are exact, so every such kernel gives the same bits:
//   score = sum * scale of the key * step of the row
// Keys are read up to a multiple of four, and three words beyond.
// REQUIRES: 1 <= rows <= 4, keys >= 1, dims >= 1; per_unit keeps sums of products within 32 bits.
using IntegerScoresKernel = void (*)(size_t rows, size_t keys, size_t dims, const float* query,
                                     size_t query_stride_bytes, const RowSteps* query_rows,
                                     const int8_t* key, const float* key_scales, float* scores,
                                     size_t scores_stride_bytes);

// output = (weights * scales) * values, or += with `adds`, for a block of positions with values in
// int8 (cache_layout.h). Scales are those of the positions; null: 1. Each row of weights * scales
// is rounded to 16 bits by its largest element in the block, with the same bits in every set;
// `weights` may be overwritten by the products.
// REQUIRES: 1 <= rows <= 4, products >= 0 or NaN, 1 <= positions <= kIntegerBlock, columns >= 1.
using IntegerValuesKernel = void (*)(size_t rows, size_t columns, size_t positions, float* weights,
                                     size_t weights_stride_bytes, const float* scales,
                                     const std::byte* values, float* output,
                                     size_t output_stride_bytes, bool adds);

// Quantizes a row of keys or values to int8 (cache_layout.h), with elements `apart` bytes apart.
// Returns the scale.
using RoundRowKernel = float (*)(size_t count, const float* x, size_t apart, int8_t* y);

// Returns the steps to which a row of a query is rounded for integer products.
using QueryStepsKernel = RowSteps (*)(size_t count, const float* x);

// y = y * factor + 0; false if a result is not finite. REQUIRES: factor >= 2^-32, or NaN.
using DivideRowKernel = bool (*)(size_t count, float factor, float* y);

// The type of a kernel that only MVE sets have. In other builds it is a null constant.
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
    for (const WeightType& of : kWeightTypeRows) {
      if (packing_of(static_cast<Target>(i), of.type).mr > kRowsMax) return false;
    }
  }
  return true;
}
static_assert(tiles_fit_rows_max());

// Products of float32 rows with weights of one type.
struct FloatKernels {
  Packing packing;
  GemmKernel gemm[kRowsMax + 1];  // [rows]: the kernel for so many rows, up to mr
};

// Products of float32 rows in pieces with float32 weights, packed as for other products.
struct IndirectKernels {
  IndirectGemmKernel gemm[kRowsMax + 1];
  uint8_t list_rows[kRowsMax + 1];  // [rows]: the rows of the list that gemm[rows] reads
};

// Products of quantized rows with weights of one type.
struct QuantizedKernels {
  Packing packing;
  QuantizeKernel quantize;  // makes the bytes that these kernels read; not int8 in every set
  QuantizedGemmKernel gemm[kRowsMax + 1];
};

// Integer attention, for int8 keys and values.
struct IntegerAttention {
  QuantizeKernel quantize;  // for keys and values
  IntegerExpSumKernel exp_sum;
  IntegerScoresKernel scores;
  IntegerValuesKernel values;
  [[no_unique_address]] MveKernel<RoundRowKernel> round_row = nullptr;  // null: `quantize` does it
  [[no_unique_address]] MveKernel<QueryStepsKernel> query_steps = nullptr;
};

// The kernels of one ISA level. Sets use designated initializers, as many members have the same
// type.
struct KernelSet {
  Target target;
  bool sigmoid_saturates = false;  // false: the sigmoid of inputs beyond 10^14 may be NaN
  const char* name;
  FloatKernels f32;
  const FloatKernels* w8;      // for weights in w8, and for caches in int8 without `integers`
  const QuantizedKernels* q8;  // null where no model of the build has such weights
  const QuantizedKernels* q4;
  const IndirectKernels* indirect;  // for windows of float32 rows; null as above
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
  const IntegerAttention* integers = nullptr;  // null where floats are faster
  RowRangeKernel row_range = nullptr;          // null: `sum` and `row_extremes` are as fast
  [[no_unique_address]] MveKernel<DivideRowKernel> divide = nullptr;

  // Returns the float kernels for the keys and values of a cache that `integers` does not cover.
  const FloatKernels& of_cache(bool is_int8) const { return is_int8 ? *w8 : f32; }
  CacheLayout layout_of_cache(bool is_int8, const CacheShape& shape, uint32_t positions) const {
    return {packing_of_cache(f32.packing, is_int8), shape, positions, integers != nullptr};
  }
  // REQUIRES: a type that rounds inputs.
  const QuantizedKernels& quantized(TensorType type) const {
    return type == TensorType::kQ8 ? *q8 : *q4;
  }
};

// Returns the kernels for a target; null if this build lacks them or this CPU cannot run them.
const KernelSet* kernel_set(Target target);
// Returns the set that CPUs without AVX-VNNI use for x86-64-v3, or null.
const KernelSet* plain_avx2_set();

// Returns `set` with null in place of each kernel that no op of `needs` calls, so that the linker
// drops the microkernel. Evaluated by the compiler of a build, and by the program that writes the
// sources of a build.
constexpr KernelSet linked_kernels(KernelSet set, const NeedSet& needs = kLinked) {
  using enum Need;
  const auto any = [&needs](const NeedSet& of_these) { return needs.has_any(of_these); };
  const bool quantizes = any(set_of(kQ8, kQ4));
  if (!any(set_of(kInt8Cache))) set.integers = nullptr;
  const bool is_w8 = any(set_of(kW8)) || (any(set_of(kInt8Cache)) && set.integers == nullptr);
  if (!is_w8) set.w8 = nullptr;
  if (!any(set_of(kQ8))) set.q8 = nullptr;
  if (!any(set_of(kQ4))) set.q4 = nullptr;
  if (!any(set_of(kConvolution))) set.indirect = nullptr;
  const bool has_softmax = any(set_of(kAttention, kSoftmax, kLogSoftmax));
  if (!has_softmax && !quantizes) set.row_extremes = nullptr;
  if (!quantizes && set.integers == nullptr) set.row_range = nullptr;
  if (!has_softmax) set.exp_sum = nullptr;
  if (!any(set_of(kAttention, kSelectTransposed))) set.transpose = nullptr;
  if (!any(set_of(kAttention))) set.divide = nullptr;
  if (!any(kNormNeeds) && !quantizes) set.sum = nullptr;
  const bool multiplies = any(kNormNeeds | kActivationNeeds | set_of(kInt8Cache, kDepthwise));
  if (!multiplies) set.multiply = nullptr;
  if (!any(set_of(kRope))) set.rotate = nullptr;
  if (!any(set_of(kGeluErf))) set.gelu = nullptr;
  if (!any(set_of(kGeluTanh, kSilu, kSigmoid, kElu, kSoftplus, kMish))) set.sigmoid = nullptr;
  if (!any(set_of(kSoftCap, kTanh, kScoreCap, kElu))) set.tanh = nullptr;
  return set;
}

}  // namespace arenite
