// SPDX-License-Identifier: Apache-2.0
// Plain C, for every CPU; and for Cortex-M the same with products of our own. XNNPACK's scalar
// kernels that clamp make -infinity of NaN, so those of float32 rows are the ones that do not.
#include "kernels/cortex_m.h"
#include "kernels/microkernels.h"

namespace arenite {

#if defined(ARENITE_HAVE_SCALAR) || defined(ARENITE_HAVE_DSP) || defined(ARENITE_HAVE_MVE)
namespace {

// Of portable files, without products of rows in int8. A function, as compilers without options
// keep a table that nobody reads, with all its kernels.
consteval KernelSet scalar_kernels() {
  return {
      .target = Target::kPortable,
      .name = "scalar",
      .f32 = float_kernels<Target::kPortable, TensorType::kF32, xnn_f32_gemm_ukernel_1x4__scalar,
                           xnn_f32_gemm_ukernel_2x4__scalar, xnn_f32_gemm_ukernel_4x4__scalar,
                           xnn_f32_gemm_ukernel_4x4__scalar>,
      .w8 =
          &float_kernels<Target::kPortable, TensorType::kW8, xnn_f32_qc8w_gemm_ukernel_1x4__scalar,
                         xnn_f32_qc8w_gemm_ukernel_2x4__scalar,
                         xnn_f32_qc8w_gemm_ukernel_4x4__scalar,
                         xnn_f32_qc8w_gemm_ukernel_4x4__scalar>,
      .q8 = nullptr,
      .q4 = nullptr,
      .indirect =
          &indirect_kernels<Target::kPortable, xnn_f32_igemm_ukernel_1x4__scalar,
                            xnn_f32_igemm_ukernel_2x4__scalar, xnn_f32_igemm_ukernel_4x4__scalar,
                            xnn_f32_igemm_ukernel_4x4__scalar>,
      .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__scalar_u4_acc4>,
      .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__scalar_rr2_p5_u4_acc2>,
      .sum = sum<xnn_f32_rsum_ukernel__scalar_u4_acc4>,
      .add = binary<xnn_f32_vadd_ukernel__scalar_u8>,
      .multiply = binary<xnn_f32_vmul_ukernel__scalar_u8>,
      .add_constant = with_constant<xnn_f32_vaddc_ukernel__scalar_u8>,
      .scale = with_constant<xnn_f32_vmulc_ukernel__scalar_u8>,
      .transpose = transpose<xnn_x32_transposec_ukernel__2x4_scalar_int>,
      .rotate = complex_product<xnn_f32_vcmul_ukernel__scalar_u4>,
      .gelu = unary<xnn_f32_vgelu_ukernel__scalar_rational_12_10_div_u1>,
      .sigmoid = unary<xnn_f32_vsigmoid_ukernel__scalar_rr2_p5_div_u2>,
      .tanh = unary<xnn_f32_vtanh_ukernel__scalar_rational_9_8_div_u1>,
  };
}

}  // namespace
#endif

#if defined(ARENITE_HAVE_SCALAR)
// Rows 1 and 2, then 3 and 4: XNNPACK's kernel for four rows has more sums than a Cortex-M has
// registers, and takes half as many instructions again. Inline, or compilers without options keep
// it.
inline void q8_in_pairs(size_t rows, size_t columns, size_t k, const int8_t* a,
                        size_t a_stride_bytes, const void* w, float* c, size_t c_stride_bytes,
                        size_t panel_stride_bytes, const xnn_f32_minmax_params* params,
                        const xnn_qd8_quantization_params* a_rows) {
  for (size_t row = 0; row < rows; row += 2) {
    xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4__scalar(
        rows - row < 2 ? 1 : 2, columns, k, a + row * a_stride_bytes, a_stride_bytes, w,
        c + row * (c_stride_bytes / sizeof(float)), c_stride_bytes, panel_stride_bytes, params,
        a_rows + row);
  }
}

consteval KernelSet with_scalar_products(KernelSet set) {
  constexpr QuantizeKernel kQuantize = quantize<xnn_f32_qs8_vcvt_ukernel__scalar_imagic_u4>;
  set.q8 = &quantized_kernels<Target::kPortable, TensorType::kQ8, kQuantize,
                              xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x4__scalar,
                              xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4__scalar, q8_in_pairs,
                              q8_in_pairs>;
  set.q4 = &quantized_kernels<Target::kPortable, TensorType::kQ4, kQuantize,
                              xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x4__scalar,
                              xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x4__scalar,
                              xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x4__scalar,
                              xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x4__scalar>;
  return linked_kernels(set);
}
constexpr KernelSet kScalarSet = with_scalar_products(scalar_kernels());
#endif

#if defined(ARENITE_HAVE_DSP)
constexpr QuantizedKernels kDspQ8 = {packing_of(Target::kCortexMDsp, TensorType::kQ8),
                                     dsp_quantize,
                                     {nullptr, dsp_q8_gemm, dsp_q8_gemm, dsp_q8_gemm, dsp_q8_gemm}};
constexpr QuantizedKernels kDspQ4 = {packing_of(Target::kCortexMDsp, TensorType::kQ4),
                                     dsp_quantize,
                                     {nullptr, dsp_q4_gemm, dsp_q4_gemm, dsp_q4_gemm, dsp_q4_gemm}};

consteval KernelSet with_dsp(KernelSet set) {
  set.target = Target::kCortexMDsp;
  set.name = "dsp";
  set.q8 = &kDspQ8;
  set.q4 = &kDspQ4;
#if defined(ARENITE_HAVE_NUMERIC_MAXMIN)
  set.row_extremes = dsp_row_extremes;
#endif
  return linked_kernels(set);
}
constexpr KernelSet kDspSet = with_dsp(scalar_kernels());
#endif

#if defined(ARENITE_HAVE_MVE)
constexpr QuantizedKernels kMveQ8 = {packing_of(Target::kCortexMMve, TensorType::kQ8),
                                     mve_quantize,
                                     {nullptr, mve_q8_gemm, mve_q8_gemm, mve_q8_gemm, mve_q8_gemm}};
constexpr QuantizedKernels kMveQ4 = {packing_of(Target::kCortexMMve, TensorType::kQ4),
                                     mve_quantize,
                                     {nullptr, mve_q4_gemm, mve_q4_gemm, mve_q4_gemm, mve_q4_gemm}};

consteval KernelSet with_mve(KernelSet set) {
  set.target = Target::kCortexMMve;
  set.name = "mve";
  set.q8 = &kMveQ8;
  set.q4 = &kMveQ4;
#if defined(ARENITE_HAVE_MVE_FLOATS)
  set.f32.gemm[1] = set.f32.gemm[2] = set.f32.gemm[3] = set.f32.gemm[4] = mve_f32_gemm;
  set.row_extremes = mve_row_extremes;
#endif
  return linked_kernels(set);
}
constexpr KernelSet kMveSet = with_mve(scalar_kernels());
#endif

}  // namespace arenite
