// SPDX-License-Identifier: Apache-2.0
// Checks that the f32 GEMM microkernels are linked, run on this CPU and agree with a plain loop.
#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

#include "xnnpack/gemm.h"
#include "xnnpack/microparams.h"

namespace {

struct GemmKernel {
  const char* name;
  decltype(&xnn_f32_gemm_minmax_ukernel_1x4__scalar) run;
  size_t mr;
  size_t nr;
  bool runs_here;
};

std::vector<GemmKernel> kernels() {
  std::vector<GemmKernel> list = {
      {"1x4 scalar", xnn_f32_gemm_minmax_ukernel_1x4__scalar, 1, 4, true},
      {"4x4 scalar", xnn_f32_gemm_minmax_ukernel_4x4__scalar, 4, 4, true}};
#if defined(__x86_64__)
  const bool fma3 = __builtin_cpu_supports("fma") != 0;
  const bool avx512f = __builtin_cpu_supports("avx512f") != 0;
  list.push_back({"4x8 sse", xnn_f32_gemm_minmax_ukernel_4x8__sse_load1, 4, 8, true});
  list.push_back({"5x16 fma3", xnn_f32_gemm_minmax_ukernel_5x16__fma3_broadcast, 5, 16, fma3});
  list.push_back(
      {"7x32 avx512f", xnn_f32_gemm_minmax_ukernel_7x32__avx512f_broadcast, 7, 32, avx512f});
#elif defined(__aarch64__)
  list.push_back(
      {"6x8 neonfma", xnn_f32_gemm_minmax_ukernel_6x8__aarch64_neonfma_lane_ld128, 6, 8, true});
#endif
  return list;
}

// Small integers, so that every sum is exact in whatever order a kernel adds.
float value(size_t i) { return static_cast<float>(static_cast<int>(i * 7 % 11) - 5); }

}  // namespace

TEST(Microkernels, GemmAgreesWithPlainLoop) {
  constexpr size_t kDepth = 13;
  constexpr size_t kSlack = 16;  // kernels may read past the end of a row
  xnn_f32_minmax_params params{};
  params.scalar.min = -std::numeric_limits<float>::infinity();
  params.scalar.max = std::numeric_limits<float>::infinity();
  for (const GemmKernel& kernel : kernels()) {
    if (!kernel.runs_here) continue;
    SCOPED_TRACE(kernel.name);
    std::vector<float> rows(kernel.mr * kDepth + kSlack);
    alignas(64) float packed[(kDepth + 1) * 32];  // bias first, then [depth][nr]; at most 32 wide
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = value(i);
    for (size_t i = 0; i < std::size(packed); ++i) packed[i] = value(3 * i + 1);
    std::vector<float> out(kernel.mr * kernel.nr);
    kernel.run(kernel.mr, kernel.nr, kDepth * sizeof(float), rows.data(), kDepth * sizeof(float),
               packed, out.data(), kernel.nr * sizeof(float), kernel.nr * sizeof(float), &params);
    for (size_t m = 0; m < kernel.mr; ++m) {
      for (size_t n = 0; n < kernel.nr; ++n) {
        double expected = packed[n];
        for (size_t k = 0; k < kDepth; ++k) {
          expected += double{rows[m * kDepth + k]} * packed[(k + 1) * kernel.nr + n];
        }
        EXPECT_EQ(out[m * kernel.nr + n], expected) << "row " << m << " column " << n;
      }
    }
  }
}
