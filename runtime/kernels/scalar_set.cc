// SPDX-License-Identifier: Apache-2.0
// Plain C, for every CPU. XNNPACK's scalar kernels that clamp make -infinity of NaN, so those of
// float32 rows are the ones that do not.
#include "kernels/microkernels.h"

namespace arenite {

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
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4__scalar,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x4__scalar,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x4__scalar>,
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
