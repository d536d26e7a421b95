// SPDX-License-Identifier: Apache-2.0
// Times decoders: prompts, which are bound by arithmetic, and single tokens, which are bound by the
// memory that weights and cache are read from.

#include <cstring>
#include <stdexcept>

#include "cli/bench.h"
#include "cli/model_cost.h"
#include "cli/thread_pool.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

constexpr size_t kRunsMin = 5;
constexpr uint32_t kUsualDecode = 64;
constexpr size_t kStepsMin = 20;
constexpr size_t kReadsMax = 30;  // for a row: small models have thousands of samples
constexpr int kMeasurements = 3;  // of the limits, each time

// Fills in what the person left open, and refuses what the context has no room for.
BenchOptions completed(BenchOptions options, const ModelFile& file) {
  const format::ModelReader reader(file.model().file());
  const SessionOptions usual = default_session_options(reader);
  if (!file.model().causal()) {
    throw convert::InputError("{}: it is not causal, and cannot be fed token by token",
                              convert::quote(file.name()));
  }
  if (reader.positions_max() != 0) {
    require_in(options, "--context", options.context, {reader.positions_max(), "the model's", 0});
  }
  if (options.context == 0) options.context = usual.positions_max;
  if (options.chunk == 0) options.chunk = kDefaultTokens;
  options.chunk = std::min(options.chunk, options.context);
  options.prompts = sizes_to_run(options, "--prompt", options.prompts, {128, 512},
                                 {options.context, "the context"});
  const uint32_t others = options.context - 1;
  if (!options.decode) options.decode = std::min(kUsualDecode, others);
  require_in(options, "--decode", *options.decode,
             {others, "the context less the token that comes first", 0});
  for (const uint32_t held : options.at) {
    require_in(options, "--at", held, {others, "the context less one", 0});
  }
  return options;
}

// The clock of a shared machine drifts, and so does what its memory gives to one of those who share
// it: the peak is the best seen between the rows, and what can be read is measured again and again
// over the very bytes that decoding reads, and the median counts, as it does for the rows.
class Limits {
 public:
  // `weights` are read as they lie in the file; where there are too few, as much memory is.
  Limits(const ParallelFor& parallel, std::span<const std::byte> weights)
      : parallel_(parallel), small_(read_bytes(parallel, 1)), memory_(weights) {
    if (weights.size() >= small_.size()) return;
    std::memset(small_.data(), 1, small_.size());
    memory_ = small_.span();
  }

  void measure() {
    for (int i = 0; i < kMeasurements; ++i) {
      peak_gflops_ = std::max(peak_gflops_, measure_peak_gflops(parallel_));
      (void)sample_read();
    }
  }

  double sample_read() {
    reads_.push_back(sample_read_gbytes_per_s(parallel_, memory_));
    return reads_.back();
  }

  // What the model itself reached the machine can do.
  MachineLimits found(const std::vector<BenchRun>& runs) const {
    MachineLimits limits = {peak_gflops_, median(reads_)};
    for (const BenchRun& run : runs) {
      limits.peak_gflops = std::max(limits.peak_gflops, run.gflops.value_or(0.0));
      limits.read_gbytes_per_s = std::max(limits.read_gbytes_per_s, run.gbytes_per_s.value_or(0.0));
    }
    return limits;
  }

 private:
  ParallelFor parallel_;
  convert::AlignedBytes small_;
  std::span<const std::byte> memory_;
  double peak_gflops_ = 0.0;
  std::vector<double> reads_;
};

class TokenBench {
 public:
  TokenBench(const BenchOptions& options, const ModelFile& file,
             const SessionOptions& session_options, Limits& limits, Profiler& profiler)
      : options_(options),
        reader_(file.model().file()),
        packed_index_(ModelAccess::packed_index(file.model())),
        kv_type_(options.kv_cache == KvType::kOfModel ? reader_.kv_cache()
                 : options.kv_cache == KvType::kInt8  ? TensorType::kInt8
                                                      : TensorType::kF32),
        session_(file, session_options),
        limits_(limits),
        profiler_(profiler) {
    uint32_t state = 1;
    for (uint32_t i = 0; i < options.context; ++i) {
      state = state * 1664525u + 1013904223u;
      ids_.push_back((state >> 8) % reader_.vocab_size());
    }
  }

  const ArenaPlan& plan() const { return session_.plan(); }

  BenchRun time_prompt(uint32_t tokens) {
    BenchRun run = {.test = fmt::format("pp{}", tokens), .tokens = tokens};
    double flops = 0.0;
    for (uint32_t begin = 0; begin < tokens; begin += options_.chunk) {
      flops += model_flops(reader_, {begin, std::min(options_.chunk, tokens - begin), 1});
    }
    feed_prompt(tokens);
    run.median_ms = median_sample_ms(kRunsMin, options_.seconds,
                                     [&] { return milliseconds([&] { feed_prompt(tokens); }); });
    run.gflops = run.per_ms(flops);
    return run;
  }

  BenchRun time_decode(uint32_t tokens) {
    double bytes = 0.0;
    for (uint32_t i = 0; i < tokens; ++i) {
      bytes += decode_bytes(reader_, packed_index_, 1 + i, kv_type_);
    }
    return time_against_reads(fmt::format("tg{}", tokens), tokens, bytes, kRunsMin, [&] {
      feed_prompt(1);
      return milliseconds([&] {
        for (uint32_t i = 0; i < tokens; ++i) feed(1);
      });
    });
  }

  BenchRun time_step_at(uint32_t held) {
    const double bytes = decode_bytes(reader_, packed_index_, held, kv_type_);
    feed_prompt(held);
    return time_against_reads(fmt::format("at {}", held), 1, bytes, kStepsMin, [&] {
      // A ring may have forgotten what the step before needs.
      if (session_.session().rewind(0, held) != Status::kOk) feed_prompt(held);
      return milliseconds([&] { feed(1); });
    });
  }

 private:
  // What is read is measured after each sample, so that both see the same moments.
  BenchRun time_against_reads(const std::string& test, uint32_t tokens, double bytes,
                              size_t samples_min, const std::function<double()>& sample) {
    BenchRun run = {.test = test, .tokens = tokens};
    std::vector<double> reads;
    run.median_ms = median_sample_ms(samples_min, options_.seconds, [&] {
      const double ms = sample();
      if (reads.size() < kReadsMax) reads.push_back(limits_.sample_read());
      return ms;
    });
    run.gbytes_per_s = run.per_ms(bytes);
    // What the model itself reached the machine can do.
    const double most = std::max(median(reads), *run.gbytes_per_s);
    run.share_of_read = Fraction{*run.gbytes_per_s / most};
    return run;
  }

  void feed(uint32_t tokens) {
    const uint32_t held = session_.session().positions();
    profiler_.add_sequence(held, tokens, 1);
    if (!session_.session().step(std::span(ids_).subspan(held, tokens)).ok()) {
      throw std::logic_error("a step that was checked fails: this is a bug");
    }
  }

  void feed_prompt(uint32_t tokens) {
    session_.session().reset();
    for (uint32_t begin = 0; begin < tokens; begin += options_.chunk) {
      feed(std::min(options_.chunk, tokens - begin));
    }
  }

  const BenchOptions& options_;
  format::ModelReader reader_;
  uint32_t packed_index_;
  TensorType kv_type_;
  ModelSession session_;
  Limits& limits_;
  Profiler& profiler_;
  std::vector<TokenId> ids_;
};

std::span<const std::byte> packed_weights(const ModelFile& file) {
  const format::ModelReader reader(file.model().file());
  const format::SegmentView segment =
      reader.packed(ModelAccess::packed_index(file.model())).segment;
  return file.model().file().subspan(static_cast<size_t>(segment.begin()),
                                     static_cast<size_t>(segment.bytes()));
}

std::string rates_table(const Json& runs) {
  return table({{">test", "{test}"},
                {">tokens/s", "{tokens_per_s:.1f}"},
                {">a token", "{time}"},
                {">GFLOP/s", "{gflops:.2f}"},
                {">of peak", "{?gflops}{percent:.1f}%"},
                {">GB/s", "{gbytes_per_s:.2f}"},
                {">of read", "{?gbytes_per_s}{percent:.1f}%"}},
               runs);
}

}  // namespace

void bench_tokens(const BenchOptions& wanted, const ModelFile& file) {
  const BenchOptions options = completed(wanted, file);
  ThreadPool pool(options.threads);
  Profiler profiler(options.profile, file.model());
  SessionOptions session_options;
  session_options.positions_max = options.context;
  session_options.tokens_max = options.chunk;
  session_options.kv_cache = options.kv_cache;
  profiler.attach(session_options, pool.parallel_for());
  const std::span<const std::byte> weights = packed_weights(file);
  Limits limits(pool.parallel_for(), weights);
  limits.measure();
  TokenBench bench(options, file, session_options, limits, profiler);

  Progress progress(options.model.string());
  BenchFacts facts = {options, file};
  std::vector<BenchRun>& runs = facts.runs;
  const auto add = [&](const BenchRun& run) {
    runs.push_back(run);
    limits.measure();
  };
  const double all = static_cast<double>(options.prompts.size() + options.at.size() +
                                         (*options.decode > 0 ? 1 : 0));
  const auto show = [&] { progress.at("timing", static_cast<double>(runs.size()) / all); };
  for (const uint32_t tokens : options.prompts) {
    show();
    add(bench.time_prompt(tokens));
  }
  show();
  if (*options.decode > 0) add(bench.time_decode(*options.decode));
  for (const uint32_t held : options.at) {
    show();
    add(bench.time_step_at(held));
  }
  progress.at("starting", 0.0);
  facts.start_up = time_start_up(file, session_options, options.seconds);
  progress.done();
  facts.limits = limits.found(runs);
  for (BenchRun& run : runs) {
    run.tokens_per_s = run.tokens / run.median_ms * 1e3;
    if (run.gflops) run.share_of_peak = Fraction{*run.gflops / facts.limits.peak_gflops};
  }
  facts.weight_bytes = weights.size();
  facts.context = options.context;
  facts.tokens_per_call = options.chunk;
  facts.arena_bytes = bench.plan().total_bytes;
  print_bench(facts, rates_table);
  profiler.report();
}

}  // namespace arenite::tool
