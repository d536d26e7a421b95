// SPDX-License-Identifier: Apache-2.0
// Rate of the scalar f32 GEMM microkernel, the floor that every other kernel set is compared with.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "xnnpack/gemm.h"
#include "xnnpack/microparams.h"

static void scalar_gemm_4x4(benchmark::State& state) {
  const size_t depth = static_cast<size_t>(state.range(0));
  std::vector<float> rows(4 * depth + 16, 0.5f);
  std::vector<float> packed(4 * (depth + 1) + 16, 0.25f);
  std::vector<float> out(4 * 4);
  xnn_f32_minmax_params params{};
  params.scalar.min = -std::numeric_limits<float>::infinity();
  params.scalar.max = std::numeric_limits<float>::infinity();
  for (auto _ : state) {
    xnn_f32_gemm_minmax_ukernel_4x4__scalar(4, 4, depth * sizeof(float), rows.data(),
                                            depth * sizeof(float), packed.data(), out.data(),
                                            4 * sizeof(float), 4 * sizeof(float), &params);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["flop/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 2 * 4 * 4 * static_cast<double>(depth),
      benchmark::Counter::kIsRate);
}
BENCHMARK(scalar_gemm_4x4)->Arg(64)->Arg(768);
