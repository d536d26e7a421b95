// SPDX-License-Identifier: Apache-2.0
// Fills the kernel sets with XNNPACK's microkernels. The choice follows XNNPACK's own
// src/configs, except that each set has a GEMM kernel for (nearly) every number of rows, so that
// no row block computes rows that it throws away.
#include "kernels/kernel_set.h"

#include <cmath>

#include "core/cpu_features.h"
#include "core/needs.h"
#include "kernels/thread_check.h"
#include "xnnpack/gemm.h"
#include "xnnpack/raddstoreexpminusmax.h"
#include "xnnpack/reduce.h"
#include "xnnpack/transpose.h"
#include "xnnpack/vbinary.h"
#include "xnnpack/vunary.h"

namespace arenite {
namespace {

// The parameters of a kernel that could clamp, and of one that could not.
constexpr xnn_f32_minmax_params kNoClamp = {{-INFINITY, INFINITY}};
constexpr xnn_f32_default_params kNoParams = {};
constexpr xnn_f32_scale_params kScaleByOne = {{1.0f}};

template <auto kKernel, uint32_t kNr, auto* kParams = &kNoClamp>
void gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride_bytes,
          const float* w, float* c, size_t c_stride_bytes) {
  kernel_reads_rows(a, rows, k_bytes, a_stride_bytes);
  kernel_reads(w, (columns + kNr - 1) / kNr * kNr * (sizeof(float) + k_bytes));
  kernel_writes_rows(c, rows, columns * sizeof(float), c_stride_bytes);
  kKernel(rows, columns, k_bytes, a, a_stride_bytes, w, c, c_stride_bytes, kNr * sizeof(float),
          kParams);
}

template <auto kKernel>
void row_extremes(size_t bytes, const float* x, float* extremes) {
  kernel_reads(x, bytes);
  kKernel(bytes, x, extremes, &kNoParams);
}

template <auto kKernel>
void sum(size_t bytes, const float* x, float* sum) {
  kernel_reads(x, bytes);
  kKernel(bytes, x, sum, &kScaleByOne);
}

template <auto kKernel>
void exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes);
  kKernel(bytes, x, max, y, sum, nullptr);
}

template <auto kKernel>
void binary(size_t bytes, const float* a, const float* b, float* y) {
  kernel_reads(a, bytes);
  kernel_reads(b, bytes);
  kernel_writes(y, bytes);
  kKernel(bytes, a, b, y, &kNoParams);
}

template <auto kKernel>
void with_constant(size_t bytes, const float* a, const float* constant, float* y) {
  kernel_reads(a, bytes);
  kernel_reads(constant, sizeof(float));
  kernel_writes(y, bytes);
  kKernel(bytes, a, constant, y, &kNoParams);
}

template <auto kKernel>
void complex_product(size_t bytes, const float* a, const float* b, float* y) {
  kernel_reads(a, 2 * bytes);
  kernel_reads(b, 2 * bytes);
  kernel_writes(y, 2 * bytes);
  kKernel(bytes, a, b, y, &kNoParams);
}

template <auto kKernel>
void unary(size_t bytes, const float* x, float* y) {
  kernel_reads(x, bytes);
  kernel_writes(y, bytes);
  kKernel(bytes, x, y, &kNoParams);
}

template <auto kKernel>
void transpose(size_t rows, size_t columns, const float* x, size_t x_stride_bytes, float* y,
               size_t y_stride_bytes) {
  kernel_reads_rows(x, rows, columns * sizeof(float), x_stride_bytes);
  kernel_writes_rows(y, columns, rows * sizeof(float), y_stride_bytes);
  kKernel(reinterpret_cast<const uint32_t*>(x), reinterpret_cast<uint32_t*>(y), x_stride_bytes,
          y_stride_bytes, columns, rows);
}

// What no linked op calls becomes null, so that the linker leaves out the microkernel.
constexpr KernelSet linked_kernels(KernelSet set) {
  using enum Need;
  if (!linked(kAttention)) {
    set.row_extremes = nullptr;
    set.exp_sum = nullptr;
    set.transpose = nullptr;
  }
  if (!kNormsLinked) set.sum = nullptr;
  if (!kNormsLinked && !kActivationsLinked) set.multiply = nullptr;
  if (!linked(kRope)) set.rotate = nullptr;
  if (!linked(kGeluErf)) set.gelu = nullptr;
  if (!any_linked(kGeluTanh, kSilu)) set.sigmoid = nullptr;
  if (!any_linked(kSoftCap, kTanh)) set.tanh = nullptr;
  return set;
}

// Which of these sets there are is decided by the build (tools/cmake/xnnpack.cmake).
#if defined(ARENITE_HAVE_SCALAR)
// XNNPACK's scalar kernels that clamp make -infinity of NaN, so these are the ones that do not.
constexpr KernelSet kScalar = linked_kernels({
    .target = Target::kPortable,
    .name = "scalar",
    .weights = {{.packing = packing_of(Target::kPortable, TensorType::kF32),
                 .gemm = {nullptr, gemm<xnn_f32_gemm_ukernel_1x4__scalar, 4, &kNoParams>,
                          gemm<xnn_f32_gemm_ukernel_2x4__scalar, 4, &kNoParams>,
                          gemm<xnn_f32_gemm_ukernel_4x4__scalar, 4, &kNoParams>,
                          gemm<xnn_f32_gemm_ukernel_4x4__scalar, 4, &kNoParams>}}},
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
#endif

#if defined(ARENITE_HAVE_SSE41)
constexpr KernelSet kSse41 = linked_kernels({
    .target = Target::kX86_64_v2,
    .name = "sse41",
    .weights = {{.packing = packing_of(Target::kX86_64_v2, TensorType::kF32),
                 .gemm = {nullptr, gemm<xnn_f32_gemm_minmax_ukernel_1x8__sse_load1, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_3x8__sse_load1, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_3x8__sse_load1, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__sse_load1, 8>}}},
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
constexpr KernelSet kAvx2 = linked_kernels({
    .target = Target::kX86_64_v3,
    .name = "avx2",
    .weights = {{.packing = packing_of(Target::kX86_64_v3, TensorType::kF32),
                 .gemm = {nullptr, gemm<xnn_f32_gemm_minmax_ukernel_1x16__fma3_broadcast, 16>,
                          gemm<xnn_f32_gemm_minmax_ukernel_3x16__fma3_broadcast, 16>,
                          gemm<xnn_f32_gemm_minmax_ukernel_3x16__fma3_broadcast, 16>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x16__fma3_broadcast, 16>}}},
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
#endif

#if defined(ARENITE_HAVE_AVX512)
constexpr KernelSet kAvx512 = linked_kernels({
    .target = Target::kX86_64_v4,
    .name = "avx512",
    .weights = {{.packing = packing_of(Target::kX86_64_v4, TensorType::kF32),
                 .gemm = {nullptr, gemm<xnn_f32_gemm_minmax_ukernel_1x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_5x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_6x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_7x32__avx512f_broadcast, 32>,
                          gemm<xnn_f32_gemm_minmax_ukernel_8x32__avx512f_broadcast, 32>}}},
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
#endif

#if defined(ARENITE_HAVE_NEON)
constexpr KernelSet kNeon = linked_kernels({
    .target = Target::kArm64,
    .name = "neon",
    .weights = {{.packing = packing_of(Target::kArm64, TensorType::kF32),
                 .gemm = {nullptr,
                          gemm<xnn_f32_gemm_minmax_ukernel_1x8__aarch64_neonfma_lane_ld128, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__aarch64_neonfma_lane_ld128, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__aarch64_neonfma_lane_ld128, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__aarch64_neonfma_lane_ld128, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128, 8>}}},
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

#if defined(ARENITE_HAVE_NEON32)
constexpr KernelSet kNeon32 = linked_kernels({
    .target = Target::kArm32,
    .name = "neon32",
    .weights = {{.packing = packing_of(Target::kArm32, TensorType::kF32),
                 .gemm = {nullptr, gemm<xnn_f32_gemm_minmax_ukernel_1x8__neon_lane_ld64, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__neon_lane_ld64, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__neon_lane_ld64, 8>,
                          gemm<xnn_f32_gemm_minmax_ukernel_4x8__neon_lane_ld64, 8>}}},
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

}  // namespace

const KernelSet* kernel_set(Target target) {
  [[maybe_unused]] const CpuFeatures cpu = cpu_features();
  switch (target) {
#if defined(ARENITE_HAVE_SCALAR)
    case Target::kPortable:
      return &kScalar;
#endif
#if defined(ARENITE_HAVE_SSE41)
    case Target::kX86_64_v2:
      return cpu.sse41 ? &kSse41 : nullptr;
#endif
#if defined(ARENITE_HAVE_AVX2)
    case Target::kX86_64_v3:
      return cpu.avx2_fma3 ? &kAvx2 : nullptr;
#endif
#if defined(ARENITE_HAVE_AVX512)
    case Target::kX86_64_v4:
      return cpu.avx512f ? &kAvx512 : nullptr;
#endif
#if defined(ARENITE_HAVE_NEON)
    case Target::kArm64:
      return cpu.neon ? &kNeon : nullptr;
#endif
#if defined(ARENITE_HAVE_NEON32)
    case Target::kArm32:
      return cpu.neon ? &kNeon32 : nullptr;
#endif
    default:
      return nullptr;
  }
}

uint32_t cpu_targets() {
  uint32_t targets = 0;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    if (kernel_set(target) != nullptr) targets |= bit(target);
  }
  return targets;
}

const char* kernel_set_name(Target target) {
  switch (target) {
    case Target::kPortable:
      return "scalar";
    case Target::kX86_64_v2:
      return "sse41";
    case Target::kX86_64_v3:
      return "avx2";
    case Target::kX86_64_v4:
      return "avx512";
    case Target::kArm64:
      return "neon";
    case Target::kArm32:
      return "neon32";
  }
  return "unknown";
}

}  // namespace arenite
