// SPDX-License-Identifier: Apache-2.0
// The benchmarks and what they share: options, machine limits, start-up times, time as text.
#pragma once

#include <chrono>
#include <functional>

#include "arenite/parallel.h"
#include "cli/arguments.h"
#include "cli/profiler.h"

namespace arenite::tool {

// Upper limits of this machine, measured in the same run: the yardstick of every benchmark.
struct MachineLimits {
  double peak_gflops = 0.0;        // float32 multiply-adds in registers, two operations each
  double read_gbytes_per_s = 0.0;  // a plain loop over memory far larger than the caches
  // Products with q8 and q4 weights, on data in the first-level cache; 0: not measured.
  double peak_q8_gops = 0.0;
  double peak_q4_gops = 0.0;
};

// Measures the float32 peak and the read rate on all threads of `parallel`; takes about 0.2 s.
// Reads `share` (at most 1) of 256 MB: little memory is fast to allocate, but shows the caches'
// rate.
MachineLimits measure_limits(const ParallelFor& parallel, double share);

// Measures the float32 peak alone; takes about 20 ms.
double measure_peak_gflops(const ParallelFor& parallel);

// Raises the q8 and q4 peaks in `limits` to what is measured now, for the types that the model's
// tensors have. Takes 15 ms per type.
void measure_int8_peaks(const ParallelFor& parallel, const Model& model, MachineLimits& limits);

// Returns the least time of a call: for each weight type, operations divided by that type's peak.
double least_ms(const Model& model, const Feed& feed, const MachineLimits& limits);

// Measures how fast all threads together read `memory`, which should be as large as what the model
// reads. Takes about as long as reading 1 GB. REQUIRES: memory.size() >= read_bytes(parallel, 1).
double measure_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory);

// Like measure_read_gbytes_per_s, but reads only 32 MB, or `memory` once if it is larger.
double sample_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory);

// Rounds `wanted` bytes up so that each thread gets an equal share.
size_t read_bytes(const ParallelFor& parallel, size_t wanted);

struct BenchOptions {
  std::filesystem::path model;
  std::vector<uint32_t> tokens;    // lengths of single sequences; empty: the usual sizes
  std::vector<uint32_t> lengths;   // sequences of one call; empty: none
  std::vector<uint32_t> prompts;   // for decoders, as are the next four; empty: the usual sizes
  std::vector<uint32_t> at;        // positions held before a decoded token
  std::optional<uint32_t> decode;  // tokens; 0: none; empty: the usual count
  uint32_t context = 0;            // positions; 0: the model's
  uint32_t chunk = 0;              // tokens per call; 0: kDefaultTokens
  std::string kernels;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  double seconds = 1.0;  // for each size
  bool json = false;
  ProfileOptions profile;
};

struct StartUp {
  double load_ms = 0.0;    // Model::load, all checks included
  double crc_ms = 0.0;     // the checksum of the file alone
  double create_ms = 0.0;  // Session::create
};

template <typename Work>
double milliseconds(Work work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Returns the median of at least `samples_min` samples, and of as many as fit into `seconds`.
double median_sample_ms(size_t samples_min, double seconds, const std::function<double()>& sample);
double median(std::vector<double> values);  // REQUIRES: not empty

// `seconds` is roughly the time that all of it may take.
StartUp time_start_up(const ModelFile& file, const SessionOptions& options, double seconds);

// The sizes from `least` to `most`; `what` says in messages where `most` comes from.
struct SizeRange {
  uint32_t most;
  const char* what;
  uint32_t least = 1;  // the model's shortest sequence
  uint32_t step = 1;   // sizes are `least` plus multiples of it
};

SizeRange lengths_of(const InputInfo& input);  // the sequences that an input takes

// Throws an InputError that names the model and `option` if `found` is out of range.
void require_in(const BenchOptions& options, const char* option, uint32_t found,
                const SizeRange& range);

// Returns `wanted`, or throws if a size is out of range. If `wanted` is empty, returns the sizes of
// `usual` that are in range, rounded down to a step, or, if none are, the end of the range nearest
// to them.
std::vector<uint32_t> sizes_to_run(const BenchOptions& options, const char* option,
                                   const std::vector<uint32_t>& wanted,
                                   std::initializer_list<uint32_t> usual, const SizeRange& range);

std::string time_text(double ms);  // three significant digits, in microseconds or milliseconds

// A row of the results.
struct BenchRun {
  Sometimes<std::string> test{}, what{};
  Sometimes<uint32_t> sequences{};
  uint32_t tokens = 0;  // of all sequences together
  double median_ms = 0.0;
  Sometimes<double> tokens_per_s{}, gflops{};
  std::vector<Feed> feeds{};  // one per sequence, for the share of the peak
  Sometimes<Fraction> share_of_peak{};
  Sometimes<double> gbytes_per_s{};
  Sometimes<Fraction> share_of_read{};

  double per_ms(double amount) const { return amount / median_ms / 1e6; }  // 1e9 per second
};
struct BenchFacts {
  const BenchOptions& options;
  const ModelFile& file;
  MachineLimits limits{};
  StartUp start_up{};
  Sometimes<uint64_t> weight_bytes{}, context{}, tokens_per_call{}, tokens_seen{}, arena_bytes{};
  std::vector<BenchRun> runs{};
};

// Fills in each run's share of the peak. Raises the peaks first if a run exceeded them.
void share_peaks(BenchFacts& facts);

// Prints the facts as JSON, or as lines followed by `table`, which formats the runs.
void print_bench(const BenchFacts& facts, const std::function<std::string(const Json&)>& table);

// Benchmarks decoders and models with several inputs; bench_command.cc has all others. Throws
// InputError.
void bench_functions(const BenchOptions& options, const ModelFile& file);

}  // namespace arenite::tool
