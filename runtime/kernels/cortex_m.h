// SPDX-License-Identifier: Apache-2.0
// Our own kernels for Cortex-M, with the same bits as XNNPACK's scalar kernels (kernel_set.h).
#pragma once

#include <type_traits>

#include "kernels/kernel_set.h"

#if defined(ARENITE_HAVE_MVE) && (__ARM_FEATURE_MVE & 2)
#define ARENITE_HAVE_MVE_FLOATS
#endif
// FPv5, which no macro names, has instructions for the minimum and the maximum of two floats.
#if defined(__ARM_FP) && (__ARM_ARCH >= 8 || (__ARM_FP & 8) != 0)
#define ARENITE_HAVE_NUMERIC_MAXMIN
#endif
#if defined(__ARM_FP) && (defined(ARENITE_HAVE_DSP) || defined(ARENITE_HAVE_MVE))
#define ARENITE_HAVE_FPU_ROWS
#endif

namespace arenite {

inline constexpr size_t kLanes = 4;  // outputs of a panel, and rows of a block

// A panel of q8 weights (packing.h) of k inputs, padding included.
struct Q8Panel {
  const int32_t* head;
  const int8_t* weights;
  const float* scales;  // [4], then biases [4]

  Q8Panel(const std::byte* at, size_t k)
      : head(reinterpret_cast<const int32_t*>(at)),
        weights(reinterpret_cast<const int8_t*>(head + kLanes)),
        scales(reinterpret_cast<const float*>(weights + k * kLanes)) {}
  const std::byte* end() const { return reinterpret_cast<const std::byte*>(scales + 2 * kLanes); }
};

// Returns the zero point correction of a sum. It wraps, as damaged files may contain any sum.
inline int32_t correction(int32_t minus_sum_of_weights, int32_t zero_point) {
  return static_cast<int32_t>(static_cast<uint32_t>(minus_sum_of_weights) *
                              static_cast<uint32_t>(zero_point));
}

// With the DSP extension: cortex_m_dsp.cc and, for attention in integers,
// cortex_m_dsp_attention.cc. dsp_quantize REQUIRES: x * inverse_scale is within 2^14 of zero.
std::remove_pointer_t<QuantizeKernel> dsp_quantize;
std::remove_pointer_t<QuantizedGemmKernel> dsp_q8_gemm, dsp_q4_gemm;
std::remove_pointer_t<RowExtremesKernel> dsp_row_extremes;
std::remove_pointer_t<RowRangeKernel> dsp_row_range;
std::remove_pointer_t<IntegerExpSumKernel> dsp_integer_exp_sum;
std::remove_pointer_t<IntegerScoresKernel> dsp_integer_scores;
std::remove_pointer_t<IntegerValuesKernel> dsp_integer_values;

// With an FPU: cortex_m_rows.cc.
std::remove_pointer_t<BinaryKernel> cortex_m_add, cortex_m_multiply;
std::remove_pointer_t<WithConstantKernel> cortex_m_add_constant, cortex_m_scale;
std::remove_pointer_t<SumKernel> cortex_m_sum;
std::remove_pointer_t<RotateKernel> cortex_m_rotate;

// With MVE: cortex_m_mve.cc. mve_quantize REQUIRES: x * inverse_scale is within 2^14 of zero.
std::remove_pointer_t<QuantizedGemmKernel> mve_q8_gemm, mve_q4_gemm;
std::remove_pointer_t<QuantizeKernel> mve_quantize;

// With MVE of floats: cortex_m_mve.cc and, for attention, cortex_m_mve_attention.cc ...
std::remove_pointer_t<IntegerExpSumKernel> mve_integer_exp_sum;
std::remove_pointer_t<IntegerScoresKernel> mve_integer_scores;
std::remove_pointer_t<IntegerValuesKernel> mve_integer_values;
std::remove_pointer_t<RowExtremesKernel> mve_row_extremes;
std::remove_pointer_t<RowRangeKernel> mve_row_range;
std::remove_pointer_t<GemmKernel> mve_f32_gemm;
std::remove_pointer_t<RoundRowKernel> mve_round_row;
std::remove_pointer_t<QueryStepsKernel> mve_query_steps;

// ... and cortex_m_mve_functions.cc.
std::remove_pointer_t<ExpSumKernel> mve_exp_sum;
std::remove_pointer_t<UnaryKernel> mve_gelu, mve_sigmoid, mve_tanh;
std::remove_pointer_t<DivideRowKernel> mve_divide_row;

#if defined(ARENITE_SOFT_FLOATS)
// Without an FPU: soft_kernels.cc.
std::remove_pointer_t<QuantizedGemmKernel> soft_q8_gemm;
std::remove_pointer_t<QuantizeKernel> soft_quantize;
std::remove_pointer_t<RowExtremesKernel> soft_row_extremes;
std::remove_pointer_t<RowRangeKernel> soft_row_range;
std::remove_pointer_t<ExpSumKernel> soft_exp_sum;
std::remove_pointer_t<UnaryKernel> soft_gelu, soft_sigmoid;
#endif

}  // namespace arenite
