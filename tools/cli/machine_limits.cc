// SPDX-License-Identifier: Apache-2.0
// Measures machine limits by a loop of independent multiply-adds on this CPU's widest vectors, a
// loop of loads, and the int8 kernels.
#include "cli/bench.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cli/process.h"
#include "convert/files/memory.h"
#include "convert/quantize/quantizers.h"
#include "core/targets.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"

namespace arenite::tool {
namespace {

// Enough chains to hide a latency of 4 to 6 cycles on two ports, and few enough for the registers.
constexpr int kChains = 12;
constexpr uint64_t kRounds = 400'000;

// Keeps a value in a register, so that the compiler cannot evaluate the loop.
#if defined(__x86_64__)
#define ARENITE_KEEP(value) asm volatile("" : "+v"(value))
#elif defined(__aarch64__)
#define ARENITE_KEEP(value) asm volatile("" : "+w"(value))
#else
#define ARENITE_KEEP(value) asm volatile("" : "+m"(value))
#endif

// Twelve named chains, because an array would be kept in memory. The compiler fuses multiplication
// and addition if the CPU has such an instruction.
#define ARENITE_STEP(chain)      \
  chain = chain * factor + term; \
  ARENITE_KEEP(chain);
#define ARENITE_ALL_CHAINS(DO) \
  DO(c0) DO(c1) DO(c2) DO(c3) DO(c4) DO(c5) DO(c6) DO(c7) DO(c8) DO(c9) DO(c10) DO(c11)
#define ARENITE_FMA_LOOP(vector_bytes)                                      \
  typedef float Vector __attribute__((vector_size(vector_bytes)));          \
  const Vector factor = Vector{} + 0.999f * seed;                           \
  const Vector term = Vector{} + 0.001f * seed;                             \
  Vector c0 = Vector{} + seed, c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0; \
  Vector c6 = c0, c7 = c0, c8 = c0, c9 = c0, c10 = c0, c11 = c0;            \
  for (uint64_t i = 0; i < kRounds; ++i) {                                  \
    ARENITE_ALL_CHAINS(ARENITE_STEP)                                        \
  }                                                                         \
  return c0[0] + c5[0] + c11[0]

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float fma_loop_avx512(float seed) { ARENITE_FMA_LOOP(64); }
__attribute__((target("avx2,fma"))) float fma_loop_avx2(float seed) { ARENITE_FMA_LOOP(32); }
#endif
#if defined(__x86_64__) || defined(__aarch64__)
constexpr int kPlainFloats = 4;
#else
constexpr int kPlainFloats = 1;
#endif
float fma_loop(float seed) { ARENITE_FMA_LOOP(kPlainFloats * sizeof(float)); }

struct FmaLoop {
  float (*run)(float seed);
  double floats;  // per vector
};

FmaLoop widest_loop() {
#if defined(__x86_64__)
  const CpuFeatures cpu = cpu_features();
  if (cpu.avx512) return {fma_loop_avx512, 16};
  if (cpu.avx2_fma3) return {fma_loop_avx2, 8};
#endif
  return {fma_loop, kPlainFloats};
}

// Runs work(thread) once on every thread and returns the seconds it took.
template <typename Work>
double time_on_all_threads(const ParallelFor& parallel, Work work) {
  const Clock::time_point start = Clock::now();
  if (parallel.run == nullptr) {
    work(0u);
  } else {
    // One task per thread. None ends before all have begun, so each thread takes a single one.
    struct Job {
      Work& work;
      std::atomic<uint32_t> begun;
      uint32_t threads;
    } job{work, 0, parallel.threads};
    parallel.run(
        parallel.pool, parallel.threads,
        [](void* data, uint32_t task_index, uint32_t) {
          Job& shared = *static_cast<Job*>(data);
          ++shared.begun;
          while (shared.begun < shared.threads) {
          }
          shared.work(task_index);
        },
        &job);
  }
  return seconds_since(start);
}

constexpr size_t kSampleBytes = size_t{32} << 20;
constexpr size_t kReadUnit = 4096;

// Sums 32-bit integers with the widest loads. Narrower loads use less of the memory bandwidth: a
// model might seem to read faster than the machine. Two accumulators hide the latency of sums.
#define ARENITE_READ_LOOP(vector_bytes)                               \
  typedef uint32_t Vector __attribute__((vector_size(vector_bytes))); \
  const Vector* const vectors = static_cast<const Vector*>(data);     \
  Vector even = {};                                                   \
  Vector odd = {};                                                    \
  for (size_t i = 0; i + 2 <= bytes / sizeof(Vector); i += 2) {       \
    even += vectors[i];                                               \
    odd += vectors[i + 1];                                            \
  }                                                                   \
  even += odd;                                                        \
  return even[0] + even[1]

#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint32_t read_avx512(const void* data, size_t bytes) {
  ARENITE_READ_LOOP(64);
}
__attribute__((target("avx2"))) uint32_t read_avx2(const void* data, size_t bytes) {
  ARENITE_READ_LOOP(32);
}
#endif
uint32_t read_16(const void* data, size_t bytes) { ARENITE_READ_LOOP(16); }

using ReadLoop = uint32_t (*)(const void* data, size_t bytes);

ReadLoop widest_read_loop() {
#if defined(__x86_64__)
  const CpuFeatures cpu = cpu_features();
  if (cpu.avx512) return read_avx512;
  if (cpu.avx2_fma3) return read_avx2;
#endif
  return read_16;
}

}  // namespace

double measure_peak_gflops(const ParallelFor& parallel) {
  const FmaLoop loop = widest_loop();
  std::atomic<float> sink{0.0f};
  double best = 0.0;
  for (int i = 0; i < 5; ++i) {
    const double seconds =
        time_on_all_threads(parallel, [&](uint32_t) { sink = loop.run(1.0f + sink * 1e-9f); });
    best = std::max(best, 2.0 * loop.floats * kChains * static_cast<double>(kRounds) *
                              parallel.threads / seconds / 1e9);
  }
  return best;
}

namespace {

// Measures whole tiles with few inputs, so that all data stays in the first-level cache.
double measure_peak_gops(const ParallelFor& parallel, const QuantizedKernels& kernels) {
  constexpr uint32_t kInputs = 256;
  constexpr uint32_t kCallsAtOnce = 16;
  constexpr double kSeconds = 3e-3;
  const uint32_t rows = kernels.packing.mr, columns = 2u * kernels.packing.nr;
  const size_t weight_bytes = packed_weight_bytes(kernels.packing, columns, kInputs).value();
  std::atomic<uint64_t> calls{0};
  const auto work = [&](uint32_t) {
    convert::AlignedBytes weights(weight_bytes + kReadAheadBytes);
    convert::AlignedBytes input(size_t{rows} * kInputs + kReadAheadBytes);
    QuantizedRow scales[kRowsMax];
    std::ranges::fill(scales, QuantizedRow{0, 1.0f});
    std::vector<float> output(size_t{rows} * columns);
    uint64_t own = 0;
    for (const Clock::time_point start = Clock::now(); seconds_since(start) < kSeconds;) {
      for (uint32_t i = 0; i < kCallsAtOnce; ++i) {
        kernels.gemm[rows](rows, columns, kInputs, reinterpret_cast<const int8_t*>(input.data()),
                           kInputs, weights.data(), output.data(), columns * sizeof(float), scales,
                           nullptr);  // only microcontroller kernels need scratch
      }
      own += kCallsAtOnce;
    }
    calls += own;
  };
  double best = 0.0;
  for (int i = 0; i < 5; ++i) {
    calls = 0;
    const double seconds = time_on_all_threads(parallel, work);
    const double operations = 2.0 * rows * columns * kInputs * static_cast<double>(calls);
    best = std::max(best, operations / seconds / 1e9);
  }
  return best;
}

// The peak of products with each type of weights.
constexpr double MachineLimits::*kPeaks[kWeightTypeCount] = {
    &MachineLimits::peak_gflops, &MachineLimits::peak_gflops, &MachineLimits::peak_q8_gops,
    &MachineLimits::peak_q4_gops};

}  // namespace

void measure_int8_peaks(const ParallelFor& parallel, const Model& model, MachineLimits& limits) {
  const format::ModelReader reader(model.file());
  for (const TensorType type : convert::kIntegerTypes) {
    bool is_used = false;
    for (uint32_t i = 0; i < reader.tensors(); ++i) {
      is_used = is_used || reader.tensor(i).type == type;
    }
    double& peak = limits.*kPeaks[static_cast<uint32_t>(type)];
    const KernelSet& kernels = *kernel_set(model.target());
    if (is_used) peak = std::max(peak, measure_peak_gops(parallel, kernels.quantized(type)));
  }
}

double least_ms(const Model& model, const Feed& feed, const MachineLimits& limits) {
  const format::ModelReader reader(model.file());
  double ms = 0.0;
  for (const TensorType type : convert::kWeightTypes) {
    const double peak = limits.*kPeaks[static_cast<uint32_t>(type)];
    const double flops = model_flops(reader, feed, type);
    if (flops != 0.0) ms += flops / peak / 1e6;
  }
  return ms;
}

size_t read_bytes(const ParallelFor& parallel, size_t wanted) {
  const size_t unit = kReadUnit * parallel.threads;
  return (wanted + unit - 1) / unit * unit;
}

double sample_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory) {
  const size_t passes = (kSampleBytes + memory.size() - 1) / memory.size();
  const size_t share = memory.size() / parallel.threads / kReadUnit * kReadUnit;
  assert(share > 0);
  const ReadLoop read = widest_read_loop();
  std::atomic<uint32_t> sink{0};
  const double seconds = time_on_all_threads(parallel, [&](uint32_t thread) {
    for (size_t pass = 0; pass < passes; ++pass) {
      sink += read(memory.data() + thread * share, share);
    }
  });
  return static_cast<double>(share * parallel.threads * passes) / seconds / 1e9;
}

}  // namespace arenite::tool
