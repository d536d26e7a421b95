// SPDX-License-Identifier: Apache-2.0
// Rates of the kernels of every kernel set that this machine runs, and of the checksum.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/crc32c.h"
#include "kernels/kernel_set.h"

namespace {

using arenite::KernelSet;

// Kernels load weights at multiples of 64 bytes.
class Floats {
 public:
  explicit Floats(size_t count)
      : data_(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 127) / 64 * 64)), &free) {
    for (size_t i = 0; i < count; ++i) data_.get()[i] = 0.01f * static_cast<float>(i % 17);
  }
  float* get() const { return data_.get(); }

 private:
  std::unique_ptr<float, decltype(&free)> data_;
};

void set_rate(benchmark::State& state, const char* unit, double work) {
  state.counters[unit] = benchmark::Counter(work * static_cast<double>(state.iterations()),
                                            benchmark::Counter::kIsRate);
}

// The largest block of rows times one chunk of packed weights.
void gemm(benchmark::State& state, const KernelSet* kernels) {
  const WeightKernels& f32 = kernels->f32;
  const size_t rows = f32.packing.mr;
  const size_t columns = size_t{4} * f32.packing.nr;
  const size_t k = static_cast<size_t>(state.range(0));
  const Floats a(rows * k + 16), w(columns * (k + 1)), c(rows * columns + 16);
  for (auto _ : state) {
    f32.gemm[rows](rows, columns, k * 4, a.get(), k * 4, w.get(), c.get(), columns * 4);
    benchmark::ClobberMemory();
  }
  set_rate(state, "FLOP/s", 2.0 * static_cast<double>(rows * columns * k));
}

void softmax_row(benchmark::State& state, const KernelSet* kernels) {
  const size_t keys = static_cast<size_t>(state.range(0));
  const Floats x(keys + 16), y(keys + 16);
  for (auto _ : state) {
    float extremes[2], sum;
    kernels->row_extremes(keys * 4, x.get(), extremes);
    kernels->exp_sum(keys * 4, x.get(), &extremes[1], y.get(), &sum);
    benchmark::DoNotOptimize(sum);
  }
  set_rate(state, "keys/s", static_cast<double>(keys));
}

void transpose_panel(benchmark::State& state, const KernelSet* kernels) {
  const size_t rows = kernels->f32.packing.nr;
  const size_t columns = 64;
  const Floats x(rows * columns + 16), y(rows * columns + 16);
  for (auto _ : state) {
    kernels->transpose(rows, columns, x.get(), columns * 4, y.get(), rows * 4);
    benchmark::ClobberMemory();
  }
  set_rate(state, "bytes/s", static_cast<double>(rows * columns * 4));
}

void checksum(benchmark::State& state, uint32_t (*crc)(std::span<const std::byte>)) {
  const std::vector<std::byte> bytes(size_t{8} << 20, std::byte{5});
  for (auto _ : state) benchmark::DoNotOptimize(crc(bytes));
  set_rate(state, "bytes/s", static_cast<double>(bytes.size()));
}

void register_kernels(const KernelSet* kernels) {
  const std::string prefix = std::string(kernels->name) + "/";
  benchmark::RegisterBenchmark((prefix + "gemm").c_str(), gemm, kernels)->Arg(64)->Arg(768);
  benchmark::RegisterBenchmark((prefix + "softmax_row").c_str(), softmax_row, kernels)
      ->Arg(64)
      ->Arg(1024);
  benchmark::RegisterBenchmark((prefix + "transpose_panel").c_str(), transpose_panel, kernels);
}

}  // namespace

int main(int argc, char** argv) {
  for (uint32_t i = 0; i < arenite::kTargets; ++i) {
    const KernelSet* kernels = arenite::kernel_set(static_cast<arenite::Target>(i));
    if (kernels != nullptr) register_kernels(kernels);
  }
  benchmark::RegisterBenchmark("crc32c/instruction", checksum, arenite::crc32c);
  benchmark::RegisterBenchmark("crc32c/table", checksum, arenite::crc32c_portable);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
