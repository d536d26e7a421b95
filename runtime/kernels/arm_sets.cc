// SPDX-License-Identifier: Apache-2.0
// The sets for NEON of AArch64, with dot product or I8MM where the CPU has them, and NEON of ARMv7.
#include "kernels/microkernels.h"

namespace arenite {

#if defined(ARENITE_HAVE_NEON) || defined(ARENITE_HAVE_NEONDOT) || defined(ARENITE_HAVE_NEONI8MM)
constexpr KernelSet kNeonSet = linked_kernels({
    .target = Target::kArm64,
    .name = "neon",
    .f32 = float_kernels<Target::kArm64, TensorType::kF32, UpTo<1, 4, 6>,
                         xnn_f32_gemm_minmax_ukernel_1x8__aarch64_neonfma_lane_ld128,
                         xnn_f32_gemm_minmax_ukernel_4x8__aarch64_neonfma_lane_ld128,
                         xnn_f32_gemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128>,
    .w8 = &float_kernels<Target::kArm64, TensorType::kW8, UpTo<1, 4, 6>,
                         xnn_f32_qc8w_gemm_minmax_ukernel_1x8__aarch64_neonfma_lane_ld128,
                         xnn_f32_qc8w_gemm_minmax_ukernel_4x8__aarch64_neonfma_lane_ld128,
                         xnn_f32_qc8w_gemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128>,
    .q8 = &quantized_kernels<Target::kArm64, TensorType::kQ8,
                             quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4, 6>,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x16__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x16__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_3x16__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x16__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_6x16__neon_mlal_lane>,
    .q4 = &quantized_kernels<Target::kArm64, TensorType::kQ4,
                             quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4, 6>,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_6x16__neon_mlal_lane>,
    .indirect = &indirect_kernels<Target::kArm64, UpTo<1, 4, 6>,
                                  xnn_f32_igemm_minmax_ukernel_1x8__aarch64_neonfma_lane_ld128,
                                  xnn_f32_igemm_minmax_ukernel_4x8__aarch64_neonfma_lane_ld128,
                                  xnn_f32_igemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128>,
    .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__neon_u16_acc4>,
    .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__neonfma_rr1_p5_u16_acc2>,
    .sum = sum<xnn_f32_rsum_ukernel__neon_u16_acc4>,
    .add = binary<xnn_f32_vadd_ukernel__neon_u8>,
    .multiply = binary<xnn_f32_vmul_ukernel__neon_u8>,
    .add_constant = with_constant<xnn_f32_vaddc_ukernel__neon_u8>,
    .scale = with_constant<xnn_f32_vmulc_ukernel__neon_u8>,
    .transpose = transpose<xnn_x32_transposec_ukernel__4x4_aarch64_neon_tbl128>,
    .rotate = complex_product<xnn_f32_vcmul_ukernel__neon_u8>,
    .gelu = unary<xnn_f32_vgelu_ukernel__neon_rational_12_10_div_u8>,
    .sigmoid = unary<xnn_f32_vsigmoid_ukernel__aarch64_neonfma_rr1_p5_div_u16>,
    .tanh = unary<xnn_f32_vtanh_ukernel__neon_rational_9_8_div_u8>,
});
#endif

#if defined(ARENITE_HAVE_NEONDOT)
constexpr KernelSet kNeonDotSet = with_products(
    kNeonSet, Target::kArm64_dot, "neondot",
    &quantized_kernels<Target::kArm64_dot, TensorType::kQ8,
                       quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4, 5, 6>,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x16c4__neondot,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x16c4__neondot,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_3x16c4__neondot,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x16c4__neondot,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x16c4__neondot,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_6x16c4__neondot>,
    &quantized_kernels<Target::kArm64_dot, TensorType::kQ4,
                       quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4, 5, 6>,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x16c4__neondot,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x16c4__neondot,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x16c4__neondot,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x16c4__neondot,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_5x16c4__neondot,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_6x16c4__neondot>);
#endif

#if defined(ARENITE_HAVE_NEONI8MM)
constexpr KernelSet kNeonI8mmSet = with_products(
    kNeonSet, Target::kArm64_i8mm, "neoni8mm",
    &quantized_kernels<Target::kArm64_i8mm, TensorType::kQ8,
                       quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4, 5, 6, 7, 8>,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_3x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_6x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_7x16c8__neoni8mm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_8x16c8__neoni8mm>,
    &quantized_kernels<Target::kArm64_i8mm, TensorType::kQ4,
                       quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4, 5, 6, 7, 8>,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_5x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_6x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_7x16c8__neoni8mm,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_8x16c8__neoni8mm>);
#endif

#if defined(ARENITE_HAVE_NEON32)
constexpr KernelSet kNeon32Set = linked_kernels({
    .target = Target::kArm32,
    .name = "neon32",
    .f32 = float_kernels<Target::kArm32, TensorType::kF32, UpTo<1, 4>,
                         xnn_f32_gemm_minmax_ukernel_1x8__neon_lane_ld64,
                         xnn_f32_gemm_minmax_ukernel_4x8__neon_lane_ld64>,
    .w8 = &float_kernels<Target::kArm32, TensorType::kW8, UpTo<1, 4>,
                         xnn_f32_qc8w_gemm_minmax_ukernel_1x8__neon_lane_ld64,
                         xnn_f32_qc8w_gemm_minmax_ukernel_4x8__neon_lane_ld64>,
    .q8 = &quantized_kernels<Target::kArm32, TensorType::kQ8,
                             quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4>,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x8__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x8__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_3x8__neon_mlal_lane,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x8__neon_mlal_lane>,
    .q4 = &quantized_kernels<Target::kArm32, TensorType::kQ4,
                             quantize<xnn_f32_qs8_vcvt_ukernel__neon_u32>, UpTo<1, 2, 3, 4>,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x16__neon_mlal_lane,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x16__neon_mlal_lane>,
    .indirect = &indirect_kernels<Target::kArm32, UpTo<1, 4>,
                                  xnn_f32_igemm_minmax_ukernel_1x8__neon_lane_ld64,
                                  xnn_f32_igemm_minmax_ukernel_4x8__neon_lane_ld64>,
    .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__neon_u16_acc4>,
    .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__neon_rr2_p5_u16_acc2>,
    .sum = sum<xnn_f32_rsum_ukernel__neon_u16_acc4>,
    .add = binary<xnn_f32_vadd_ukernel__neon_u8>,
    .multiply = binary<xnn_f32_vmul_ukernel__neon_u8>,
    .add_constant = with_constant<xnn_f32_vaddc_ukernel__neon_u8>,
    .scale = with_constant<xnn_f32_vmulc_ukernel__neon_u8>,
    .transpose = transpose<xnn_x32_transposec_ukernel__4x4_reuse_dec_zip_neon>,
    .rotate = complex_product<xnn_f32_vcmul_ukernel__neon_u8>,
    .gelu = unary<xnn_f32_vgelu_ukernel__neon_rational_12_10_div_u8>,
    .sigmoid = unary<xnn_f32_vsigmoid_ukernel__neon_rr2_p5_nr2recps_u8>,
    .tanh = unary<xnn_f32_vtanh_ukernel__neon_rational_9_8_div_u8>,
});
#endif

}  // namespace arenite
