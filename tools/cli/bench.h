// SPDX-License-Identifier: Apache-2.0
// The benchmarks, and what they share: options, clocks, start-up times, numbers as text.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/facts.h"
#include "cli/machine_limits.h"
#include "cli/model_file.h"
#include "cli/process.h"
#include "cli/profiler.h"

namespace arenite::tool {

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

std::string bytes_text(size_t bytes);
std::string time_text(double ms);  // three digits that count, in microseconds or milliseconds

// The first lines of the text; `sizes` and `memory` go into them as they are.
void print_header(const BenchOptions& options, const ModelFile& file, const MachineLimits& limits,
                  const StartUp& start_up, const std::string& sizes = "",
                  const std::string& memory = "");

// The same as JSON, with what only one of the two benchmarks has.
struct BenchRun {
  Sometimes<std::string> test{}, what{};
  Sometimes<uint32_t> sequences{};
  uint32_t tokens = 0;
  double median_ms = 0.0;
  Sometimes<double> tokens_per_s{}, gflops{};
  Sometimes<Fraction> share_of_peak{};
  Sometimes<double> gbytes_per_s{};
  Sometimes<Fraction> share_of_read{};
};
struct BenchFacts {
  const BenchOptions& options;
  const ModelFile& file;
  const MachineLimits& limits;
  const StartUp& start_up;
  Sometimes<uint64_t> weight_bytes{}, context{}, tokens_per_call{}, arena_bytes{};
  std::vector<BenchRun> runs{};
};
void print_bench(const BenchFacts& facts);

// The two benchmarks. Throw InputError.
void bench_sequences(const BenchOptions& options, const ModelFile& file);
void bench_tokens(const BenchOptions& options, const ModelFile& file);

}  // namespace arenite::tool
