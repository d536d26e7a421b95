// SPDX-License-Identifier: Apache-2.0
// Rates of the kernels and convolutions of every kernel set that this machine runs, and of the
// checksum.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "core/crc32c.h"
#include "kernels/kernel_set.h"
#include "ops/convolution.h"

namespace {

using arenite::KernelSet;
using arenite::TensorType;

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
  const arenite::FloatKernels& f32 = kernels->f32;
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

// One sequence of kRows, at Whisper tiny's shapes and at a Conformer's; beside the rate its share
// of what multiply-adds in registers reach in the same seconds.
constexpr uint32_t kRows = 3000;

struct ConvolutionCase {
  const char* name;
  arenite::WindowAxis axis;
  uint32_t channels;
  uint32_t outputs;
};
constexpr ConvolutionCase kConvolutions[] = {
    {"80-384-kernel-3", {3, 1, 1, 1, 1}, 80, 384},
    {"384-384-kernel-3-stride-2", {3, 2, 1, 1, 1}, 384, 384},
};
constexpr ConvolutionCase kDepthwise = {"256-kernel-31", {31, 1, 1, 15, 15}, 256, 256};

struct ConvolutionMemory {
  explicit ConvolutionMemory(const ConvolutionCase& of)
      : windows{of.axis, {}, 1},
        count(windows.count(kRows)),
        input(size_t{kRows} * of.channels + 16),
        output(size_t{count} * of.outputs + 16),
        from{0, 0, kRows},
        to{0, 0, count},
        view{{input.get(), kRows, of.channels, of.channels}, {&from, 1}, {&to, 1}},
        result{output.get(), count, of.outputs, of.outputs} {}

  arenite::Windows windows;
  uint32_t count;
  Floats input, output;
  arenite::SequenceRows from, to;
  arenite::WindowInput view;
  arenite::Matrix result;
};

template <typename Run>
void time_beside_peak(benchmark::State& state, double flops, Run run) {
  double peak = arenite::tool::measure_peak_gflops({});
  for (auto _ : state) {
    run();
    benchmark::ClobberMemory();
  }
  peak = std::max(peak, arenite::tool::measure_peak_gflops({}));
  set_rate(state, "FLOP/s", flops);
  set_rate(state, "of_peak", flops / (peak * 1e9));
}

void convolve(benchmark::State& state, const KernelSet* kernels, const ConvolutionCase& of,
              TensorType type) {
  const ConvolutionMemory memory(of);
  const uint32_t inputs = memory.windows.kernel() * of.channels;
  const arenite::Packing packing = packing_of(kernels->target, type);
  const Floats weights(packed_weight_bytes(packing, of.outputs, inputs).value() / 4 + 1);
  const arenite::WeightView view = {reinterpret_cast<const std::byte*>(weights.get()), type,
                                    packing, of.outputs, inputs};
  const size_t bytes = convolution_scratch(packing, memory.windows, of.channels).bytes.value();
  const Floats scratch(bytes / 4 + 1);
  const arenite::ScratchArea area = {nullptr, reinterpret_cast<std::byte*>(scratch.get()), bytes};
  time_beside_peak(state, 2.0 * memory.count * of.outputs * inputs, [&] {
    convolution(*kernels, memory.windows, memory.view, view, memory.result, area, {});
  });
}

void depthwise(benchmark::State& state, const KernelSet* kernels) {
  const ConvolutionCase& of = kDepthwise;
  const ConvolutionMemory memory(of);
  const Floats kernel(size_t{of.axis.kernel} * of.channels + 16), bias(of.channels + 16);
  const size_t bytes = depthwise_scratch(memory.windows, of.channels).bytes.value();
  const Floats scratch(bytes / 4 + 1);
  const arenite::ScratchArea area = {nullptr, reinterpret_cast<std::byte*>(scratch.get()), bytes};
  time_beside_peak(state, 2.0 * memory.count * of.outputs * of.axis.kernel, [&] {
    depthwise_convolution(*kernels, memory.windows, memory.view, {kernel.get(), bias.get()},
                          memory.result, area, {});
  });
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
  for (const ConvolutionCase& of : kConvolutions) {
    for (const TensorType type : {TensorType::kF32, TensorType::kW8, TensorType::kQ8}) {
      const std::string title = prefix + "convolution-" + name(type) + "/" + of.name;
      benchmark::RegisterBenchmark(title.c_str(), convolve, kernels, of, type);
    }
  }
  benchmark::RegisterBenchmark((prefix + "depthwise/" + kDepthwise.name).c_str(), depthwise,
                               kernels);
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
