// SPDX-License-Identifier: Apache-2.0
// Times whole sequences of several lengths, and many in one call: models of features, encoders.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "arenite/image.h"
#include "cli/bench.h"
#include "cli/model_cost.h"
#include "cli/process.h"
#include "cli/thread_pool.h"

namespace arenite::tool {
namespace {

struct Timing {
  std::string what;     // "one sequence", "32 sequences, padded to 60"
  uint32_t tokens = 0;  // of all sequences
  uint32_t sequences = 1;
  double median_ms = 0.0;
  double gflops = 0.0;
  double share_of_peak = 0.0;
};

constexpr size_t kSequenceRunsMin = 15;

// Sequences of random tokens, back to back, or random images.
class RandomBatch {
 public:
  RandomBatch(const Model& model, const std::vector<uint32_t>& lengths)
      : lengths_(lengths), are_images_(image_shape(model).channels != 0) {
    const size_t tokens = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
    const size_t count = are_images_ ? lengths.size() * image_shape(model).pixels()
                                     : tokens * model.input_features();
    uint32_t state = 1;
    const auto next = [&] { return state = state * 1664525u + 1013904223u; };
    if (model.vocab_size() != 0) {
      for (size_t i = 0; i < tokens; ++i) ids_.push_back((next() >> 8) % model.vocab_size());
    } else {
      for (size_t i = 0; i < count; ++i) {
        features_.push_back(static_cast<float>(next() >> 8) * 0x1p-23f - 1.0f);
      }
    }
  }

  Result<Output> run(Session& session) const {
    const uint32_t sequences = static_cast<uint32_t>(lengths_.size());
    if (are_images_) return session.run(Batch{features_, sequences, 0});
    if (ids_.empty()) return session.run(Batch{features_, sequences, 0, lengths_, {}, true});
    return session.run(TokenBatch{ids_, sequences, 0, lengths_, {}, true, {}});
  }

 private:
  std::vector<uint32_t> lengths_;
  bool are_images_ = false;
  std::vector<TokenId> ids_;
  std::vector<float> features_;
};

// One call is timed as the median of many; calls below a microsecond are timed in batches.
double time_run(ModelSession& session, Profiler& profiler, const RandomBatch& batch_to_run,
                const std::vector<Feed>& feeds, double seconds) {
  const auto run = [&] {
    for (const Feed& feed : feeds) profiler.add_sequence(0, feed.tokens, feed.outputs);
    if (!batch_to_run.run(session.session()).ok()) {
      throw std::logic_error("a run that was checked fails: this is a bug");
    }
  };
  const double first_ms = std::min(milliseconds(run), milliseconds(run));
  const size_t batch = std::max<size_t>(1, static_cast<size_t>(0.05 / std::max(first_ms, 1e-5)));
  const double batch_ms = median_sample_ms(kSequenceRunsMin, seconds, [&] {
    return milliseconds([&] {
      for (size_t i = 0; i < batch; ++i) run();
    });
  });
  return batch_ms / static_cast<double>(batch);
}

void print_text(const BenchOptions& options, const ModelFile& file, const MachineLimits& limits,
                const StartUp& start_up, const std::vector<Timing>& timings) {
  print_header(options, file, limits, start_up);
  fmt::print("{:>8} {:>12} {:>10} {:>9} {:>13}\n", "tokens", "median", "GFLOP/s", "of peak",
             "sequences/s");
  for (const Timing& timing : timings) {
    fmt::print("{:>8} {:>12} {:>10.2f} {:>8.1f}% {:>13.1f}  {}\n", timing.tokens,
               time_text(timing.median_ms), timing.gflops, 100.0 * timing.share_of_peak,
               1e3 * timing.sequences / timing.median_ms, timing.what);
  }
}

void print_as_json(const BenchOptions& options, const ModelFile& file, const MachineLimits& limits,
                   const StartUp& start_up, const std::vector<Timing>& timings) {
  BenchFacts facts = {options, file, limits, start_up};
  for (const Timing& timing : timings) {
    facts.runs.push_back({.what = timing.what,
                          .sequences = timing.sequences,
                          .tokens = timing.tokens,
                          .median_ms = timing.median_ms,
                          .gflops = timing.gflops,
                          .share_of_peak = Fraction{timing.share_of_peak}});
  }
  print_bench(facts);
}

struct Case {
  std::string what;
  std::vector<uint32_t> lengths;
};

// Each size alone; then all of --lengths in one call, as they are and padded to the longest.
std::vector<Case> cases_of(const BenchOptions& options, const Model& model) {
  const uint32_t most = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
  const SizeRange range = {most, "its context", std::max(1u, model.tokens_min())};
  std::vector<Case> cases;
  if (image_shape(model).channels != 0) return {{"an image", {most}}};
  for (const uint32_t length : options.lengths) require_in(options, "--lengths", length, range);
  for (const uint32_t tokens :
       sizes_to_run(options, "--tokens", options.tokens, {6, 128, 512}, range)) {
    cases.push_back({"", {tokens}});
  }
  if (options.lengths.empty()) return cases;
  const uint32_t longest = *std::ranges::max_element(options.lengths);
  cases.push_back({fmt::format("{} of {} to {} tokens", options.lengths.size(),
                               *std::ranges::min_element(options.lengths), longest),
                   options.lengths});
  cases.push_back({fmt::format("the same, padded to {}", longest),
                   std::vector<uint32_t>(options.lengths.size(), longest)});
  return cases;
}

Timing time_case(const ModelFile& file, SessionOptions options, Profiler& profiler,
                 const Case& timed, double seconds) {
  const Model& model = file.model();
  Timing timing;
  timing.what = timed.what;
  timing.sequences = static_cast<uint32_t>(timed.lengths.size());
  std::vector<Feed> feeds;
  double flops = 0.0;
  for (const uint32_t length : timed.lengths) {
    timing.tokens += length;
    feeds.push_back({0, length, model.pooled() ? 1 : length});
    flops += model_flops(format::ModelReader(model.file()), feeds.back());
  }
  options.positions_max = *std::ranges::max_element(timed.lengths);
  options.tokens_max = timing.tokens;
  options.sequences_max = timing.sequences;
  ModelSession session(file, options);
  timing.median_ms = time_run(session, profiler, RandomBatch(model, timed.lengths), feeds, seconds);
  timing.gflops = flops / timing.median_ms / 1e6;
  return timing;
}

}  // namespace

void bench_sequences(const BenchOptions& options, const ModelFile& file) {
  const std::vector<Case> cases = cases_of(options, file.model());
  ThreadPool pool(options.threads);
  Profiler profiler(options.profile, file.model());
  SessionOptions session_options;
  session_options.outputs = Outputs::kAll;
  session_options.kv_cache = options.kv_cache;
  profiler.attach(session_options, pool.parallel_for());

  Progress progress(options.model.string());
  MachineLimits limits = measure_limits(pool.parallel_for(), options.seconds);
  std::vector<Timing> timings;
  for (const Case& timed : cases) {
    progress.at("timing", static_cast<double>(timings.size()) / static_cast<double>(cases.size()));
    timings.push_back(time_case(file, session_options, profiler, timed, options.seconds));
    // The clock of a shared machine drifts: the peak is the best seen at any time of the run.
    limits.peak_gflops = std::max(limits.peak_gflops, measure_peak_gflops(pool.parallel_for()));
  }
  session_options.positions_max = 1;
  // What the model itself reached the machine can do.
  for (const Timing& timing : timings) {
    limits.peak_gflops = std::max(limits.peak_gflops, timing.gflops);
  }
  for (Timing& timing : timings) timing.share_of_peak = timing.gflops / limits.peak_gflops;
  for (const Case& timed : cases) {
    session_options.positions_max =
        std::max(session_options.positions_max, *std::ranges::max_element(timed.lengths));
  }
  const StartUp start_up = time_start_up(file, session_options, options.seconds);
  progress.done();
  (options.json ? print_as_json : print_text)(options, file, limits, start_up, timings);
  profiler.report();
}

}  // namespace arenite::tool
