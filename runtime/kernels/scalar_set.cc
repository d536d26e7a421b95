// SPDX-License-Identifier: Apache-2.0
// The scalar set, in plain C, for every CPU, and the sets of Cortex-M and WebAssembly, with our own
// products.
// Products of float32 rows are XNNPACK's without clamping, which would turn NaN into -infinity.
#include "kernels/cortex_m.h"
#include "kernels/integer_attention.h"
#include "kernels/microkernels.h"
#include "kernels/simd128_products.h"

namespace arenite {

#if defined(ARENITE_HAVE_SCALAR) || defined(ARENITE_HAVE_DSP) || defined(ARENITE_HAVE_MVE)
namespace {

// The kernels that differ between the sets; the defaults are XNNPACK's, or null.
struct Products {
  const QuantizedKernels* q8;
  const QuantizedKernels* q4;
  const IntegerAttention* integers;
  RowExtremesKernel row_extremes = arenite::row_extremes<xnn_f32_rminmax_ukernel__scalar_u4_acc4>;
  RowRangeKernel row_range = nullptr;
  GemmKernel f32 = nullptr;
  ExpSumKernel exp_sum =
      arenite::exp_sum<xnn_f32_raddstoreexpminusmax_ukernel__scalar_rr2_p5_u4_acc2>;
  UnaryKernel gelu = unary<xnn_f32_vgelu_ukernel__scalar_rational_12_10_div_u1>;
  UnaryKernel sigmoid = unary<xnn_f32_vsigmoid_ukernel__scalar_rr2_p5_div_u2>;
  UnaryKernel tanh = unary<xnn_f32_vtanh_ukernel__scalar_rational_9_8_div_u1>;
  MveKernel<DivideRowKernel> divide = nullptr;
};

// A function, since compilers without optimization would keep an unread table with all its kernels.
consteval KernelSet scalar_kernels(Target target, const char* name, const Products& products) {
  KernelSet set = {
      .target = target,
      .sigmoid_saturates = true,
      .name = name,
      .f32 = float_kernels<Target::kPortable, TensorType::kF32, UpTo<1, 2, 4>,
                           xnn_f32_gemm_ukernel_1x4__scalar, xnn_f32_gemm_ukernel_2x4__scalar,
                           xnn_f32_gemm_ukernel_4x4__scalar>,
      .w8 = &float_kernels<
          Target::kPortable, TensorType::kW8, UpTo<1, 2, 4>, xnn_f32_qc8w_gemm_ukernel_1x4__scalar,
          xnn_f32_qc8w_gemm_ukernel_2x4__scalar, xnn_f32_qc8w_gemm_ukernel_4x4__scalar>,
      .q8 = products.q8,
      .q4 = products.q4,
      .indirect =
          &indirect_kernels<Target::kPortable, UpTo<1, 2, 4>, xnn_f32_igemm_ukernel_1x4__scalar,
                            xnn_f32_igemm_ukernel_2x4__scalar, xnn_f32_igemm_ukernel_4x4__scalar>,
      .row_extremes = products.row_extremes,
      .exp_sum = products.exp_sum,
      .sum = sum<xnn_f32_rsum_ukernel__scalar_u4_acc4>,
      .add = binary<xnn_f32_vadd_ukernel__scalar_u8>,
      .multiply = binary<xnn_f32_vmul_ukernel__scalar_u8>,
      .add_constant = with_constant<xnn_f32_vaddc_ukernel__scalar_u8>,
      .scale = with_constant<xnn_f32_vmulc_ukernel__scalar_u8>,
      .transpose = transpose<xnn_x32_transposec_ukernel__2x4_scalar_int>,
      .rotate = complex_product<xnn_f32_vcmul_ukernel__scalar_u4>,
      .gelu = products.gelu,
      .sigmoid = products.sigmoid,
      .tanh = products.tanh,
      .integers = products.integers,
      .row_range = products.row_range,
      .divide = products.divide,
  };
  for (size_t rows = 1; products.f32 != nullptr && rows <= 4; ++rows) {
    set.f32.gemm[rows] = products.f32;
  }
#if defined(ARENITE_HAVE_FPU_ROWS)
  set.sum = cortex_m_sum;
  set.add = cortex_m_add;
  set.multiply = cortex_m_multiply;
  set.add_constant = cortex_m_add_constant;
  set.scale = cortex_m_scale;
  set.rotate = cortex_m_rotate;
#endif
  return set;
}

}  // namespace

#if defined(ARENITE_HAVE_DSP) || defined(ARENITE_HAVE_MVE) || defined(ARENITE_HAVE_SIMD128) || \
    defined(ARENITE_SOFT_FLOATS)
// Tables of our own kernels, each for up to four rows. They are `inline`, since compilers without
// optimization would keep an unread table with external linkage.
template <Target kTarget, TensorType kType, QuantizeKernel kQuantize, QuantizedGemmKernel kGemm>
inline constexpr QuantizedKernels own_products = {
    packing_of(kTarget, kType), kQuantize, {nullptr, kGemm, kGemm, kGemm, kGemm}};
#endif

template <auto... kKernels>
inline constexpr IntegerAttention own_attention = {kKernels...};
#endif

#if defined(ARENITE_HAVE_SCALAR)
#if defined(ARENITE_SOFT_FLOATS)
inline constexpr QuantizeKernel kQuantize = soft_quantize;
inline constexpr auto& kOfQ8 =
    own_products<Target::kPortable, TensorType::kQ8, kQuantize, soft_q8_gemm>;
#else
// Multiplies rows 1 and 2, then 3 and 4: XNNPACK's kernel for four rows has more sums than a
// Cortex-M has registers, and takes 1.5 times as many instructions. `inline` as above.
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

template <>
inline constexpr uint8_t kTileRows<q8_in_pairs> = 4;

inline constexpr QuantizeKernel kQuantize = quantize<xnn_f32_qs8_vcvt_ukernel__scalar_imagic_u4>;
inline constexpr auto& kOfQ8 =
    quantized_kernels<Target::kPortable, TensorType::kQ8, kQuantize, UpTo<1, 2, 4>,
                      xnn_qd8_f32_qc8w_gemm_minmax_ukernel_1x4__scalar,
                      xnn_qd8_f32_qc8w_gemm_minmax_ukernel_2x4__scalar, q8_in_pairs>;
#endif

constexpr KernelSet kScalarSet = linked_kernels(scalar_kernels(Target::kPortable, "scalar", {
  &kOfQ8,
      &quantized_kernels<Target::kPortable, TensorType::kQ4, kQuantize, UpTo<1, 2, 4>,
                         xnn_qd8_f32_qb4w_gemm_minmax_ukernel_1x4__scalar,
                         xnn_qd8_f32_qb4w_gemm_minmax_ukernel_2x4__scalar,
                         xnn_qd8_f32_qb4w_gemm_minmax_ukernel_4x4__scalar>,
      &own_attention<integer_quantize, integer_exp_sum, integer_scores, integer_values>,
#if defined(ARENITE_SOFT_FLOATS)
      soft_row_extremes, soft_row_range, nullptr, soft_exp_sum, soft_gelu, soft_sigmoid
#endif
}));
#endif

#if defined(ARENITE_HAVE_SIMD128)
inline constexpr FloatKernels kSimd128OfW8 = {
    packing_of(Target::kPortable, TensorType::kW8),
    {nullptr, simd128_w8_gemm, simd128_w8_gemm, simd128_w8_gemm, simd128_w8_gemm}};
inline constexpr IndirectKernels kSimd128Indirect = {
    {nullptr, simd128_f32_indirect_gemm, simd128_f32_indirect_gemm, simd128_f32_indirect_gemm,
     simd128_f32_indirect_gemm},
    {0, 1, 2, 3, 4}};

constexpr KernelSet kSimd128Set = [] {
  KernelSet set = scalar_kernels(
      Target::kPortable, "simd128",
      {.q8 = &own_products<Target::kPortable, TensorType::kQ8, kQuantize, simd128_q8_gemm>,
       .q4 = &own_products<Target::kPortable, TensorType::kQ4, kQuantize, simd128_q4_gemm>,
       .integers =
           &own_attention<integer_quantize, integer_exp_sum, integer_scores, integer_values>,
       .f32 = simd128_f32_gemm});
  set.w8 = &kSimd128OfW8;
  set.indirect = &kSimd128Indirect;
  return linked_kernels(set);
}();
#endif

#if defined(ARENITE_HAVE_DSP)
constexpr KernelSet kDspSet = linked_kernels(scalar_kernels(Target::kCortexMDsp, "dsp", {
  &own_products<Target::kCortexMDsp, TensorType::kQ8, dsp_quantize, dsp_q8_gemm>,
      &own_products<Target::kCortexMDsp, TensorType::kQ4, dsp_quantize, dsp_q4_gemm>,
      &own_attention<dsp_quantize, dsp_integer_exp_sum, dsp_integer_scores, dsp_integer_values>,
#if defined(ARENITE_HAVE_NUMERIC_MAXMIN)
      dsp_row_extremes, dsp_row_range
#elif defined(ARENITE_SOFT_FLOATS)
      soft_row_extremes, soft_row_range, nullptr, soft_exp_sum, soft_gelu, soft_sigmoid
#endif
}));
#endif

#if defined(ARENITE_HAVE_MVE)
constexpr KernelSet kMveSet = linked_kernels(scalar_kernels(Target::kCortexMMve, "mve", {
  &own_products<Target::kCortexMMve, TensorType::kQ8, mve_quantize, mve_q8_gemm>,
      &own_products<Target::kCortexMMve, TensorType::kQ4, mve_quantize, mve_q4_gemm>,
#if defined(ARENITE_HAVE_MVE_FLOATS)
      &own_attention<mve_quantize, mve_integer_exp_sum, mve_integer_scores, mve_integer_values,
                     mve_round_row, mve_query_steps>,
      mve_row_extremes, mve_row_range, mve_f32_gemm, mve_exp_sum, mve_gelu, mve_sigmoid, mve_tanh,
      mve_divide_row
#else
      &own_attention<mve_quantize, integer_exp_sum, integer_scores, integer_values>,
#endif
#if !defined(ARENITE_HAVE_MVE_FLOATS) && defined(ARENITE_SOFT_FLOATS)
          soft_row_extremes,
      soft_row_range, nullptr, soft_exp_sum, soft_gelu, soft_sigmoid
#endif
}));
#endif

}  // namespace arenite
