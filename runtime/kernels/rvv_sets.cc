// SPDX-License-Identifier: Apache-2.0
// The sets for vectors of 64-bit RISC-V. A panel is as long as a vector register, so a file
// supports one length; the kernels support every length.
#include "kernels/microkernels.h"
#include "kernels/rvv_products.h"

namespace arenite {
namespace {

template <Target kTarget>
inline constexpr FloatKernels own_w8 = {
    packing_of(kTarget, TensorType::kW8),
    {nullptr, rvv_w8_gemm, rvv_w8_gemm, rvv_w8_gemm, rvv_w8_gemm}};

template <Target kTarget, TensorType kType, QuantizedGemmKernel kGemm>
inline constexpr QuantizedKernels own_products = {
    packing_of(kTarget, kType),
    quantize<xnn_f32_qs8_vcvt_ukernel__rvv_u8v>,
    {nullptr, kGemm, kGemm, kType == TensorType::kQ8 ? kGemm : nullptr,
     kType == TensorType::kQ8 ? kGemm : nullptr}};

inline constexpr IndirectKernels own_indirect = {
    {nullptr, rvv_f32_indirect_gemm, rvv_f32_indirect_gemm, rvv_f32_indirect_gemm,
     rvv_f32_indirect_gemm},
    {0, 1, 2, 3, 4}};

template <Target kTarget>
consteval KernelSet vector_kernels(const char* name) {
  return linked_kernels({
      .target = kTarget,
      .name = name,
      .f32 = {packing_of(kTarget, TensorType::kF32),
              {nullptr, rvv_f32_gemm, rvv_f32_gemm, rvv_f32_gemm, rvv_f32_gemm}},
      .w8 = &own_w8<kTarget>,
      .q8 = &own_products<kTarget, TensorType::kQ8, rvv_q8_gemm>,
      .q4 = &own_products<kTarget, TensorType::kQ4, rvv_q4_gemm>,
      .indirect = &own_indirect,
      .row_extremes = row_extremes<xnn_f32_rminmax_ukernel__rvv_u8v>,
      .exp_sum = exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__scalar_rr2_p5_u4_acc2>,
      .sum = sum<xnn_f32_rsum_ukernel__rvv_u1v>,
      .add = binary<xnn_f32_vadd_ukernel__rvv_u8v>,
      .multiply = binary<xnn_f32_vmul_ukernel__rvv_u8v>,
      .add_constant = with_constant<xnn_f32_vaddc_ukernel__rvv_u8v>,
      .scale = with_constant<xnn_f32_vmulc_ukernel__rvv_u8v>,
      .transpose = transpose<xnn_x32_transposec_ukernel__4x4_rvv>,
      .rotate = complex_product<xnn_f32_vcmul_ukernel__rvv_u2v>,
      .gelu = unary<xnn_f32_vgelu_ukernel__scalar_rational_12_10_div_u1>,
      .sigmoid = unary<xnn_f32_vsigmoid_ukernel__scalar_rr2_p5_div_u2>,
      .tanh = unary<xnn_f32_vtanh_ukernel__scalar_rational_9_8_div_u1>,
  });
}

}  // namespace

#if defined(ARENITE_HAVE_RVV128)
constexpr KernelSet kRvv128Set = vector_kernels<Target::kRv64_v128>("rvv128");
#endif
#if defined(ARENITE_HAVE_RVV256)
constexpr KernelSet kRvv256Set = vector_kernels<Target::kRv64_v256>("rvv256");
#endif

}  // namespace arenite
