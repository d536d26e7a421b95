// SPDX-License-Identifier: Apache-2.0
// The sets for SSE4.1, AVX2, AVX-512 and VNNI. The choice follows XNNPACK's own src/configs, except
// that more row counts have their own kernel, so that fewer rows are computed needlessly.
#include "kernels/microkernels.h"

namespace arenite {

#if defined(ARENITE_HAVE_SSE41)
constexpr KernelSet kSse41Set = linked_kernels({
    .target = Target::kX86_64_v2,
    .name = "sse41",
    .f32 = float_kernels<Target::kX86_64_v2, TensorType::kF32, UpTo<1, 3, 4>,
                         xnn_f32_gemm_minmax_ukernel_1x8__sse_load1,
                         xnn_f32_gemm_minmax_ukernel_3x8__sse_load1,
                         xnn_f32_gemm_minmax_ukernel_4x8__sse_load1>,
    .w8 = &float_kernels<Target::kX86_64_v2, TensorType::kW8, UpTo<1, 3, 4>,
                         xnn_f32_qc8w_gemm_minmax_ukernel_1x8__sse41_load1,
                         xnn_f32_qc8w_gemm_minmax_ukernel_3x8__sse41_load1,
                         xnn_f32_qc8w_gemm_minmax_ukernel_4x8__sse41_load1>,
    .q8 = &quantized_kernels<Target::kX86_64_v2, TensorType::kQ8,
                             quantize<xnn_f32_qs8_vcvt_ukernel__sse41_u32>, UpTo<1, 2, 3, 4>,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x4c8__sse41_ld64,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4c8__sse41_ld64,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_3x4c8__sse41_ld64,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x4c8__sse41_ld64>,
    .q4 = &quantized_kernels<Target::kX86_64_v2, TensorType::kQ4,
                             quantize<xnn_f32_qs8_vcvt_ukernel__sse41_u32>, UpTo<1, 2, 3, 4>,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x4c8__sse41_ld64,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x4c8__sse41_ld64,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x4c8__sse41_ld64,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x4c8__sse41_ld64>,
    .indirect = &indirect_kernels<
        Target::kX86_64_v2, UpTo<1, 3, 4>, xnn_f32_igemm_minmax_ukernel_1x8__sse_load1,
        xnn_f32_igemm_minmax_ukernel_3x8__sse_load1, xnn_f32_igemm_minmax_ukernel_4x8__sse_load1>,
    .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__sse_u16_acc4>,
    .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__sse2_rr2_p5_u16_acc2>,
    .sum = sum<xnn_f32_rsum_ukernel__sse_u16_acc4>,
    .add = binary<xnn_f32_vadd_ukernel__sse_u8>,
    .multiply = binary<xnn_f32_vmul_ukernel__sse_u8>,
    .add_constant = with_constant<xnn_f32_vaddc_ukernel__sse_u8>,
    .scale = with_constant<xnn_f32_vmulc_ukernel__sse_u8>,
    .transpose = transpose<xnn_x32_transposec_ukernel__4x4_sse>,
    .rotate = complex_product<xnn_f32_vcmul_ukernel__sse_u8>,
    .gelu = unary<xnn_f32_vgelu_ukernel__sse2_rational_12_10_div_u12>,
    .sigmoid = unary<xnn_f32_vsigmoid_ukernel__sse41_rr2_p5_div_u8>,
    .tanh = unary<xnn_f32_vtanh_ukernel__sse2_rational_9_8_div_u8>,
});
#endif

#if defined(ARENITE_HAVE_AVX2)
// With 16 registers, GCC 12 spills accumulators from five rows on and halves the rate.
constexpr KernelSet kAvx2Set = linked_kernels({
    .target = Target::kX86_64_v3,
    .name = "avx2",
    .f32 = float_kernels<Target::kX86_64_v3, TensorType::kF32, UpTo<1, 3, 4>,
                         xnn_f32_gemm_minmax_ukernel_1x16__fma3_broadcast,
                         xnn_f32_gemm_minmax_ukernel_3x16__fma3_broadcast,
                         xnn_f32_gemm_minmax_ukernel_4x16__fma3_broadcast>,
    .w8 = &float_kernels<Target::kX86_64_v3, TensorType::kW8, UpTo<1, 3, 4>,
                         xnn_f32_qc8w_gemm_minmax_ukernel_1x16__avx2_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_3x16__avx2_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_4x16__avx2_broadcast>,
    .q8 = &quantized_kernels<Target::kX86_64_v3, TensorType::kQ8,
                             quantize<xnn_f32_qs8_vcvt_ukernel__avx2_u64>, UpTo<1, 2, 3, 4>,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x8c8__avx2,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x8c8__avx2,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_3x8c8__avx2,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_4x8c8__avx2>,
    .q4 = &quantized_kernels<Target::kX86_64_v3, TensorType::kQ4,
                             quantize<xnn_f32_qs8_vcvt_ukernel__avx2_u64>, UpTo<1, 2, 3, 4>,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x8c8__avx2,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x8c8__avx2,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x8c8__avx2,
                             xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x8c8__avx2>,
    .indirect = &indirect_kernels<Target::kX86_64_v3, UpTo<1, 3, 4>,
                                  xnn_f32_igemm_minmax_ukernel_1x16__fma3_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_3x16__fma3_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_4x16__fma3_broadcast>,
    .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__avx_u32_acc4>,
    .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__avx2_rr2_p5_u32_acc2>,
    .sum = sum<xnn_f32_rsum_ukernel__avx_u32_acc4>,
    .add = binary<xnn_f32_vadd_ukernel__avx_u16>,
    .multiply = binary<xnn_f32_vmul_ukernel__avx_u16>,
    .add_constant = with_constant<xnn_f32_vaddc_ukernel__avx_u16>,
    .scale = with_constant<xnn_f32_vmulc_ukernel__avx_u16>,
    .transpose = transpose<xnn_x32_transposec_ukernel__8x8_reuse_multi_avx>,
    .rotate = complex_product<xnn_f32_vcmul_ukernel__fma3_u16>,
    .gelu = unary<xnn_f32_vgelu_ukernel__fma3_rational_12_10_div_u16>,
    .sigmoid = unary<xnn_f32_vsigmoid_ukernel__avx2_rr1_p5_div_u40>,
    .tanh = unary<xnn_f32_vtanh_ukernel__fma3_rational_9_8_div_u16>,
});

// Reads the files of x86-64-v3 with other q8 products. The CPU determines which of the two sets
// runs.
constexpr KernelSet kAvxVnniSet = with_products(
    kAvx2Set, Target::kX86_64_v3, "avxvnni",
    &quantized_kernels<Target::kX86_64_v3, TensorType::kQ8,
                       quantize_unsigned<xnn_f32_qu8_vcvt_ukernel__avx2_u64>, UpTo<1, 4>,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x8c8__avxvnni_prfm,
                       xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x8c8__avxvnni>,
    kAvx2Set.q4);
#endif

#if defined(ARENITE_HAVE_AVX512) || defined(ARENITE_HAVE_AVX512VNNI)
namespace {
// Lacks q4, whose kernels are those of AVX2 or of VNNI.
constexpr KernelSet kAvx512 = linked_kernels({
    .target = Target::kX86_64_v4,
    .name = "avx512",
    .f32 = float_kernels<Target::kX86_64_v4, TensorType::kF32, UpTo<1, 4, 5, 6, 7, 8>,
                         xnn_f32_gemm_minmax_ukernel_1x32__avx512f_broadcast,
                         xnn_f32_gemm_minmax_ukernel_4x32__avx512f_broadcast,
                         xnn_f32_gemm_minmax_ukernel_5x32__avx512f_broadcast,
                         xnn_f32_gemm_minmax_ukernel_6x32__avx512f_broadcast,
                         xnn_f32_gemm_minmax_ukernel_7x32__avx512f_broadcast,
                         xnn_f32_gemm_minmax_ukernel_8x32__avx512f_broadcast>,
    .w8 = &float_kernels<Target::kX86_64_v4, TensorType::kW8, UpTo<1, 4, 5, 6, 7, 8>,
                         xnn_f32_qc8w_gemm_minmax_ukernel_1x32__avx512skx_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_4x32__avx512skx_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_5x32__avx512skx_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_6x32__avx512skx_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_7x32__avx512skx_broadcast,
                         xnn_f32_qc8w_gemm_minmax_ukernel_8x32__avx512skx_broadcast>,
    .q8 = &quantized_kernels<Target::kX86_64_v4, TensorType::kQ8,
                             quantize<xnn_f32_qs8_vcvt_ukernel__avx512skx_u128>, UpTo<1, 5, 7, 8>,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x16c8__avx512skx_prfm,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x16c8__avx512skx,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_7x16c8__avx512skx,
                             xnn_qd8_f32_qc8w_gemm_minmax_ukernel_8x16c8__avx512skx>,
    .q4 = nullptr,
    .indirect = &indirect_kernels<Target::kX86_64_v4, UpTo<1, 4, 5, 6, 7, 8>,
                                  xnn_f32_igemm_minmax_ukernel_1x32__avx512f_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_4x32__avx512f_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_5x32__avx512f_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_6x32__avx512f_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_7x32__avx512f_broadcast,
                                  xnn_f32_igemm_minmax_ukernel_8x32__avx512f_broadcast>,
    .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__avx512f_u64_acc4>,
    .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__avx512f_rr2_p5_u64_acc2>,
    .sum = sum<xnn_f32_rsum_ukernel__avx512f_u64_acc4>,
    .add = binary<xnn_f32_vadd_ukernel__avx512f_u32>,
    .multiply = binary<xnn_f32_vmul_ukernel__avx512f_u32>,
    .add_constant = with_constant<xnn_f32_vaddc_ukernel__avx512f_u32>,
    .scale = with_constant<xnn_f32_vmulc_ukernel__avx512f_u32>,
    .transpose = transpose<xnn_x32_transposec_ukernel__8x8_reuse_multi_avx>,
    .rotate = complex_product<xnn_f32_vcmul_ukernel__avx512f_u32>,
    .gelu = unary<xnn_f32_vgelu_ukernel__avx512f_rational_12_10_div_u32>,
    .sigmoid = unary<xnn_f32_vsigmoid_ukernel__avx512f_rr1_p5_scalef_div_u64>,
    .tanh = unary<xnn_f32_vtanh_ukernel__avx512f_rational_9_8_div_u32>,
});
}  // namespace
#endif

#if defined(ARENITE_HAVE_AVX512)
constexpr KernelSet kAvx512Set = with_products(
    kAvx512, Target::kX86_64_v4, "avx512", kAvx512.q8,
    &quantized_kernels<Target::kX86_64_v4, TensorType::kQ4,
                       quantize<xnn_f32_qs8_vcvt_ukernel__avx512skx_u128>, UpTo<1, 2, 3, 4>,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x8c8__avx2,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x8c8__avx2,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_3x8c8__avx2,
                       xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x8c8__avx2>);
#endif

#if defined(ARENITE_HAVE_AVX512VNNI)
constexpr KernelSet kAvx512VnniSet =
    with_products(kAvx512, Target::kX86_64_v4_vnni, "avx512vnni",
                  &quantized_kernels<Target::kX86_64_v4_vnni, TensorType::kQ8,
                                     quantize_unsigned<xnn_f32_qu8_vcvt_ukernel__avx512skx_u128>,
                                     UpTo<1, 5, 7, 8>,
                                     xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x16c8__avx512vnni_prfm,
                                     xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x16c8__avx512vnni,
                                     xnn_qd8_f32_qc8w_gemm_minmax_ukernel_7x16c8__avx512vnni,
                                     xnn_qd8_f32_qc8w_gemm_minmax_ukernel_8x16c8__avx512vnni>,
                  &quantized_kernels<Target::kX86_64_v4_vnni, TensorType::kQ4,
                                     quantize_unsigned<xnn_f32_qu8_vcvt_ukernel__avx512skx_u128>,
                                     UpTo<1, 5, 7, 8>,
                                     xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x16c8__avx512vnni_prfm,
                                     xnn_qd8_f32_qb4w_gemm_minmax_ukernel_5x16c8__avx512vnni,
                                     xnn_qd8_f32_qb4w_gemm_minmax_ukernel_7x16c8__avx512vnni,
                                     xnn_qd8_f32_qb4w_gemm_minmax_ukernel_8x16c8__avx512vnni>);
#endif

}  // namespace arenite
