// SPDX-License-Identifier: Apache-2.0
// Plain C, for every CPU. XNNPACK's scalar kernels that clamp make -infinity of NaN, so those of
// float32 rows are the ones that do not.
#include "kernels/microkernels.h"

namespace arenite {
namespace {

// Rows 1 and 2, then 3 and 4: XNNPACK's kernel for four rows has more sums than a Cortex-M has
// registers, and takes half as many instructions again.
void q8_in_pairs(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, size_t panel_stride_bytes,
                 const xnn_f32_minmax_params* params, const xnn_qd8_quantization_params* a_rows) {
  for (size_t row = 0; row < rows; row += 2) {
    xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4__scalar(
        rows - row < 2 ? 1 : 2, columns, k, a + row * a_stride_bytes, a_stride_bytes, w,
        c + row * (c_stride_bytes / sizeof(float)), c_stride_bytes, panel_stride_bytes, params,
        a_rows + row);
  }
}

}  // namespace

constexpr KernelSet kScalarSet = linked_kernels({
    .target = Target::kPortable,
    .name = "scalar",
    .f32 = float_kernels<Target::kPortable, TensorType::kF32, xnn_f32_gemm_ukernel_1x4__scalar,
                         xnn_f32_gemm_ukernel_2x4__scalar, xnn_f32_gemm_ukernel_4x4__scalar,
                         xnn_f32_gemm_ukernel_4x4__scalar>,
    .w8 =
        &float_kernels<Target::kPortable, TensorType::kW8, xnn_f32_qc8w_gemm_ukernel_1x4__scalar,
                       xnn_f32_qc8w_gemm_ukernel_2x4__scalar, xnn_f32_qc8w_gemm_ukernel_4x4__scalar,
                       xnn_f32_qc8w_gemm_ukernel_4x4__scalar>,
    .q8 = &quantized_kernels<Target::kPortable, TensorType::kQ8,
                             quantize<xnn_f32_qs8_vcvt_ukernel__scalar_imagic_u4>,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x4__scalar,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4__scalar, q8_in_pairs,
                             q8_in_pairs>,
    .q4 = &quantized_kernels<Target::kPortable, TensorType::kQ4,
                             quantize<xnn_f32_qs8_vcvt_ukernel__scalar_imagic_u4>,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x4__scalar,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x4__scalar,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x4__scalar,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x4__scalar>,
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
});

}  // namespace arenite
