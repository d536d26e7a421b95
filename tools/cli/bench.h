// SPDX-License-Identifier: Apache-2.0
// The benchmarks, and what they share: options, clocks, start-up times, numbers as text.
#pragma once

#include <chrono>
#include <functional>

#include "arenite/parallel.h"
#include "cli/arguments.h"
#include "cli/profiler.h"

namespace arenite::tool {

// What this machine can do at best: the yardstick of every benchmark, measured in the same run.
struct MachineLimits {
  double peak_gflops = 0.0;        // float32 multiply-adds in registers, two operations each
  double read_gbytes_per_s = 0.0;  // a plain loop over memory far larger than the caches
  // The products of q8 and q4 weights, over data in the first-level cache; 0: not measured.
  double peak_q8_gops = 0.0;
  double peak_q4_gops = 0.0;
};

// Takes about a fifth of a second on all threads of `parallel` together. Reads `share`, at most 1,
// of 256 MB: little memory is quick to make, and its speed is that of the caches.
MachineLimits measure_limits(const ParallelFor& parallel, double share);

// The peak alone; takes about 20 ms.
double measure_peak_gflops(const ParallelFor& parallel);

// Of the types of weights that a model has, at least what is there; takes 15 ms for each.
void measure_int8_peaks(const ParallelFor& parallel, const Model& model, MachineLimits& limits);

// What a call takes at least, as products of each type have a peak of their own.
double least_ms(const Model& model, const Feed& feed, const MachineLimits& limits);

// How fast all threads together read `memory`, which should be as large as what they will read, and
// must have read_bytes(...) bytes. Takes about as long as reading 1 GB.
double measure_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory);

// The same, in as long as reading 32 MB takes, or `memory` once.
double sample_read_gbytes_per_s(const ParallelFor& parallel, std::span<const std::byte> memory);

// `wanted`, rounded up so that each thread has a share.
size_t read_bytes(const ParallelFor& parallel, size_t wanted);

struct BenchOptions {
  std::filesystem::path model;
  std::vector<uint32_t> tokens;    // of a sequence; empty: the usual sizes
  std::vector<uint32_t> lengths;   // of sequences in one call; empty: none
  std::vector<uint32_t> prompts;   // the rest is of decoders; empty: the usual sizes
  std::vector<uint32_t> at;        // positions held
  std::optional<uint32_t> decode;  // 0: none; empty: the usual count
  uint32_t context = 0;            // 0: the model's
  uint32_t chunk = 0;              // 0: kDefaultTokens
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

// The median of at least `samples_min` samples, and of as many as take `seconds` together.
double median_sample_ms(size_t samples_min, double seconds, const std::function<double()>& sample);
double median(std::vector<double> values);  // REQUIRES: not empty

// `seconds` is about how long all of it may take.
StartUp time_start_up(const ModelFile& file, const SessionOptions& options, double seconds);

// From `least` to `most`, which is `what`.
struct SizeRange {
  uint32_t most;
  const char* what;
  uint32_t least = 1;  // a shortest sequence
};

// Throws InputError, which names the model and `option`, for what is not in the range.
void require_in(const BenchOptions& options, const char* option, uint32_t found,
                const SizeRange& range);

// `wanted`, all of which has to be in the range; where it is empty what is of `usual`, or one of
// its ends where nothing is.
std::vector<uint32_t> sizes_to_run(const BenchOptions& options, const char* option,
                                   const std::vector<uint32_t>& wanted,
                                   std::initializer_list<uint32_t> usual, const SizeRange& range);

std::string time_text(double ms);  // three digits that count, in microseconds or milliseconds

// What was timed.
struct BenchRun {
  Sometimes<std::string> test{}, what{};
  Sometimes<uint32_t> sequences{};
  uint32_t tokens = 0;  // timed together
  double median_ms = 0.0;
  Sometimes<double> tokens_per_s{}, gflops{};
  std::vector<Feed> feeds{};  // of all sequences, for the share of the peak
  Sometimes<Fraction> share_of_peak{};
  Sometimes<double> gbytes_per_s{};
  Sometimes<Fraction> share_of_read{};

  double per_ms(double amount) const { return amount / median_ms / 1e6; }  // 1e9 a second
};
struct BenchFacts {
  const BenchOptions& options;
  const ModelFile& file;
  MachineLimits limits{};
  StartUp start_up{};
  Sometimes<uint64_t> weight_bytes{}, context{}, tokens_per_call{}, tokens_seen{}, arena_bytes{};
  std::vector<BenchRun> runs{};
};

// Fills in the shares of what was timed of the peaks, which are at least what was reached.
void share_peaks(BenchFacts& facts);

// As JSON, or as lines and `table`, which has the runs.
void print_bench(const BenchFacts& facts, const std::function<std::string(const Json&)>& table);

// The benchmark of decoders, and of models with several inputs; bench_command.cc has the other one.
// Throws InputError.
void bench_functions(const BenchOptions& options, const ModelFile& file);

}  // namespace arenite::tool
