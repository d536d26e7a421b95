// SPDX-License-Identifier: Apache-2.0
// Our own kernels for Cortex-M, beside XNNPACK's scalar ones, whose bits they give (kernel_set.h).
#pragma once

#include "kernels/kernel_set.h"

#if defined(ARENITE_HAVE_MVE) && (__ARM_FEATURE_MVE & 2)
#define ARENITE_HAVE_MVE_FLOATS
#endif
// FPv5, of which no macro tells, has an instruction each for the lesser and the larger of two
// floats.
#if defined(__ARM_FP) && (__ARM_ARCH >= 8 || (__ARM_FP & 8) != 0)
#define ARENITE_HAVE_NUMERIC_MAXMIN
#endif

namespace arenite {

// What corrects a sum for a row's zero point. A damaged file may make it as large as it likes, so
// it wraps.
inline int32_t correction(int32_t minus_sum_of_weights, int32_t zero_point) {
  return static_cast<int32_t>(static_cast<uint32_t>(minus_sum_of_weights) *
                              static_cast<uint32_t>(zero_point));
}

// With the DSP extension: cortex_m_dsp.cc. The first REQUIRES: no more than 2^14 steps from zero.
void dsp_quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point, int8_t* y);
void dsp_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte* scratch);
void dsp_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte* scratch);

void dsp_row_extremes(size_t bytes, const float* x, float* extremes);
void dsp_row_range(size_t bytes, const float* x, float* extremes, float* sum);
void dsp_integer_exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum);
void dsp_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes);
void dsp_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds);

// With MVE: cortex_m_mve.cc. Those after the first six where MVE has floats.
void mve_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte*);
void mve_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte*);
void mve_quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point, int8_t* y);
void mve_integer_exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum);
void mve_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes);
void mve_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds);
void mve_row_extremes(size_t bytes, const float* x, float* extremes);
void mve_row_range(size_t bytes, const float* x, float* extremes, float* sum);
void mve_f32_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a,
                  size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes);

}  // namespace arenite
