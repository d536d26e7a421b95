// SPDX-License-Identifier: Apache-2.0
// The benchmark: its options, the limits of the machine, and the results.
#pragma once

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

// Measures the float32 peak on all threads of `parallel`; takes about 20 ms.
double measure_peak_gflops(const ParallelFor& parallel);

// Raises the q8 and q4 peaks in `limits` to what is measured now, for the types that the model's
// tensors have. Takes 15 ms per type.
void measure_int8_peaks(const ParallelFor& parallel, const Model& model, MachineLimits& limits);

// Returns the least time of a call: for each weight type, operations divided by that type's peak.
double least_ms(const Model& model, const Feed& feed, const MachineLimits& limits);

// Measures how fast all threads together read `memory`, which should be as large as what the model
// reads: 32 MB, or `memory` once if it is larger. REQUIRES: memory.size() >= read_bytes(parallel,
// 1).
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

// A row of the results.
struct BenchRun {
  std::string test{};
  Sometimes<std::string> what{};
  Sometimes<uint32_t> sequences{};
  uint32_t tokens = 0;  // of all sequences together
  double median_ms = 0.0;
  double tokens_per_s = 0.0;
  Sometimes<double> gflops{};
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
  uint64_t weight_bytes = 0;
  Sometimes<uint64_t> context{}, tokens_per_call{}, tokens_seen{}, arena_bytes{};
  std::vector<BenchRun> runs{};
};

// Returns whether a model is timed token by token: a decoder, or the last of several functions.
bool is_fed_by_token(const Model& model);

// Times the model and the machine's limits. Throws InputError.
BenchFacts time_model(const BenchOptions& options, const ModelFile& file,
                      const ParallelFor& parallel, Profiler& profiler);

}  // namespace arenite::tool
