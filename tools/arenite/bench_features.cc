// SPDX-License-Identifier: Apache-2.0
// Times whole sequences of features of several lengths.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "arenite/bench_support.h"
#include "arenite/model_cost.h"
#include "arenite/progress.h"
#include "arenite/thread_pool.h"
#include "convert/error.h"

namespace arenite::tool {
namespace {

struct Timing {
  uint32_t tokens = 0;
  double median_ms = 0.0;
  double gflops = 0.0;
  double share_of_peak = 0.0;
};

constexpr double kSecondsPerSize = 1.0;
constexpr size_t kRunsMin = 15;
constexpr uint32_t kUsualTokens[] = {6, 128, 512};

std::vector<uint32_t> sizes_to_run(const BenchOptions& options, const Model& model) {
  std::vector<uint32_t> sizes = options.tokens;
  const uint32_t limit = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
  if (sizes.empty()) {
    for (const uint32_t tokens : kUsualTokens) {
      if (tokens <= limit) sizes.push_back(tokens);
    }
    if (sizes.empty()) sizes.push_back(limit);
  }
  for (const uint32_t tokens : sizes) {
    if (tokens > limit) {
      throw convert::InputError("{}: --tokens: found {}, expected at most {}, its context",
                                convert::quote(options.model.string()), tokens, limit);
    }
  }
  return sizes;
}

std::vector<float> noise(size_t count) {
  std::vector<float> values(count);
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
}

// One call is timed as the median of many; calls below a microsecond are timed in batches.
double time_run(ModelSession& session, Profiler& profiler, const std::vector<float>& features,
                uint32_t tokens) {
  const auto run = [&] {
    profiler.add_sequence(0, tokens, tokens);
    if (!session.session().run(Batch{features, 1, tokens, {}}).ok()) {
      throw std::logic_error("a run that was checked fails: this is a bug");
    }
  };
  const double first_ms = std::min(milliseconds(run), milliseconds(run));
  const size_t batch = std::max<size_t>(1, static_cast<size_t>(0.05 / std::max(first_ms, 1e-5)));
  const double batch_ms = median_sample_ms(kRunsMin, kSecondsPerSize, [&] {
    return milliseconds([&] {
      for (size_t i = 0; i < batch; ++i) run();
    });
  });
  return batch_ms / static_cast<double>(batch);
}

void print_text(const BenchOptions& options, const ModelFile& file, const MachineLimits& limits,
                const StartUp& start_up, const std::vector<Timing>& timings) {
  print_header(options, file);
  fmt::print("machine    {:.1f} GFLOP/s peak in float32, {:.1f} GB/s read\n", limits.peak_gflops,
             limits.read_gbytes_per_s);
  print_start_up(start_up);
  fmt::print("{:>8} {:>12} {:>10} {:>9}\n", "tokens", "median", "GFLOP/s", "of peak");
  for (const Timing& timing : timings) {
    fmt::print("{:>8} {:>12} {:>10.2f} {:>8.1f}%\n", timing.tokens, time_text(timing.median_ms),
               timing.gflops, 100.0 * timing.share_of_peak);
  }
}

void print_json(const BenchOptions& options, const ModelFile& file, const MachineLimits& limits,
                const StartUp& start_up, const std::vector<Timing>& timings) {
  nlohmann::ordered_json json = header_as_json(options, file, limits, start_up);
  json["runs"] = nlohmann::ordered_json::array();
  for (const Timing& timing : timings) {
    json["runs"].push_back({{"tokens", timing.tokens},
                            {"median_ms", timing.median_ms},
                            {"gflops", timing.gflops},
                            {"share_of_peak", timing.share_of_peak}});
  }
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

void bench_features(const BenchOptions& options, const ModelFile& file) {
  const std::vector<uint32_t> sizes = sizes_to_run(options, file.model());
  ThreadPool pool(options.threads);
  Profiler profiler(options.profile, file.model());
  SessionOptions session_options;
  session_options.parallel = profiler.watch(pool.parallel_for());
  session_options.profile = profiler.hook();

  Progress progress("timing " + options.model.string());
  MachineLimits limits = measure_limits(pool.parallel_for());
  std::vector<Timing> timings;
  for (const uint32_t tokens : sizes) {
    session_options.positions_max = tokens;
    ModelSession session(file, session_options);
    const std::vector<float> features = noise(size_t{tokens} * file.model().input_features());
    Timing timing;
    timing.tokens = tokens;
    timing.median_ms = time_run(session, profiler, features, tokens);
    timing.gflops = model_flops(format::ModelReader(file.model().file()), {0, tokens, tokens}) /
                    timing.median_ms / 1e6;
    timings.push_back(timing);
    // The clock of a shared machine drifts: the peak is the best seen at any time of the run.
    limits.peak_gflops = std::max(limits.peak_gflops, measure_peak_gflops(pool.parallel_for()));
  }
  for (Timing& timing : timings) timing.share_of_peak = timing.gflops / limits.peak_gflops;
  session_options.positions_max = *std::max_element(sizes.begin(), sizes.end());
  const StartUp start_up = time_start_up(file, session_options);
  progress.done();
  (options.json ? print_json : print_text)(options, file, limits, start_up, timings);
  profiler.report();
}

}  // namespace arenite::tool
