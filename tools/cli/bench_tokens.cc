// SPDX-License-Identifier: Apache-2.0
// Times decoders: prompts, which are bound by arithmetic, and single tokens, which are bound by the
// memory that weights and cache are read from.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "cli/bench.h"
#include "cli/model_cost.h"
#include "cli/process.h"
#include "cli/session_sizes.h"
#include "cli/text_table.h"
#include "cli/thread_pool.h"
#include "convert/files/error.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

constexpr size_t kRunsMin = 5;
constexpr uint32_t kUsualDecode = 64;
constexpr size_t kStepsMin = 20;
constexpr size_t kReadsMax = 30;  // for a row: small models have thousands of samples
constexpr int kMeasurements = 3;  // of the limits, each time

struct BenchRow {
  std::string test;
  uint32_t tokens = 0;  // timed together
  double median_ms = 0.0;
  double flops = 0.0;              // of prompts
  double bytes = 0.0;              // of decoding
  double read_gbytes_per_s = 0.0;  // of a loop of loads over the weights, between the samples

  double gflops() const { return flops / median_ms / 1e6; }
  double gbytes_per_s() const { return bytes / median_ms / 1e6; }
  double share_of_read() const { return gbytes_per_s() / read_gbytes_per_s; }
};

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
  MachineLimits found(const std::vector<BenchRow>& rows) const {
    MachineLimits limits = {peak_gflops_, median(reads_)};
    for (const BenchRow& row : rows) {
      limits.peak_gflops = std::max(limits.peak_gflops, row.gflops());
      limits.read_gbytes_per_s = std::max(limits.read_gbytes_per_s, row.gbytes_per_s());
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

  BenchRow time_prompt(uint32_t tokens) {
    BenchRow row{fmt::format("pp{}", tokens), tokens};
    for (uint32_t begin = 0; begin < tokens; begin += options_.chunk) {
      row.flops += model_flops(reader_, {begin, std::min(options_.chunk, tokens - begin), 1});
    }
    feed_prompt(tokens);
    row.median_ms = median_sample_ms(kRunsMin, options_.seconds,
                                     [&] { return milliseconds([&] { feed_prompt(tokens); }); });
    return row;
  }

  BenchRow time_decode(uint32_t tokens) {
    BenchRow row{fmt::format("tg{}", tokens), tokens};
    for (uint32_t i = 0; i < tokens; ++i)
      row.bytes += decode_bytes(reader_, packed_index_, 1 + i, kv_type_);
    time_against_reads(row, kRunsMin, [&] {
      feed_prompt(1);
      return milliseconds([&] {
        for (uint32_t i = 0; i < tokens; ++i) feed(1);
      });
    });
    return row;
  }

  BenchRow time_step_at(uint32_t held) {
    BenchRow row{fmt::format("at {}", held), 1};
    row.bytes = decode_bytes(reader_, packed_index_, held, kv_type_);
    feed_prompt(held);
    time_against_reads(row, kStepsMin, [&] {
      // A ring may have forgotten what the step before needs.
      if (session_.session().rewind(0, held) != Status::kOk) feed_prompt(held);
      return milliseconds([&] { feed(1); });
    });
    return row;
  }

 private:
  // What is read is measured after each sample, so that both see the same moments.
  void time_against_reads(BenchRow& row, size_t samples_min,
                          const std::function<double()>& sample) {
    std::vector<double> reads;
    row.median_ms = median_sample_ms(samples_min, options_.seconds, [&] {
      const double ms = sample();
      if (reads.size() < kReadsMax) reads.push_back(limits_.sample_read());
      return ms;
    });
    // What the model itself reached the machine can do.
    row.read_gbytes_per_s = std::max(median(reads), row.gbytes_per_s());
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

void print_rates(const BenchOptions& options, const ModelFile& file, const ArenaPlan& plan,
                 size_t weight_bytes, const MachineLimits& limits, const StartUp& start_up,
                 const std::vector<BenchRow>& rows) {
  print_header(options, file, limits, start_up,
               fmt::format("context    {}, {} a call, arena {} bytes\n",
                           counted(options.context, "position"), counted(options.chunk, "token"),
                           grouped(plan.total_bytes)),
               fmt::format(" over {} of weights", bytes_text(weight_bytes)));
  TextTable table({">test", ">tokens/s", ">a token", ">GFLOP/s", ">of peak", ">GB/s", ">of read"});
  for (const BenchRow& row : rows) {
    const bool prompt = row.flops > 0.0;
    const auto percent = [](double value, double limit) {
      return fmt::format("{:.1f}%", 100.0 * value / limit);
    };
    table.add_row({row.test, fmt::format("{:.1f}", row.tokens / row.median_ms * 1e3),
                   time_text(row.median_ms / row.tokens),
                   prompt ? fmt::format("{:.2f}", row.gflops()) : "",
                   prompt ? percent(row.gflops(), limits.peak_gflops) : "",
                   prompt ? "" : fmt::format("{:.2f}", row.gbytes_per_s()),
                   prompt ? "" : percent(row.share_of_read(), 1.0)});
  }
  fmt::print("{}", table.text());
}

void print_rates_as_json(const BenchOptions& options, const ModelFile& file, const ArenaPlan& plan,
                         size_t weight_bytes, const MachineLimits& limits, const StartUp& start_up,
                         const std::vector<BenchRow>& rows) {
  BenchFacts facts = {options, file, limits, start_up};
  facts.weight_bytes = weight_bytes;
  facts.context = options.context;
  facts.tokens_per_call = options.chunk;
  facts.arena_bytes = plan.total_bytes;
  for (const BenchRow& row : rows) {
    BenchRun run = {.test = row.test,
                    .tokens = row.tokens,
                    .median_ms = row.median_ms,
                    .tokens_per_s = row.tokens / row.median_ms * 1e3};
    if (row.flops > 0.0) {
      run.gflops = row.gflops();
      run.share_of_peak = Fraction{row.gflops() / limits.peak_gflops};
    } else {
      run.gbytes_per_s = row.gbytes_per_s();
      run.share_of_read = Fraction{row.share_of_read()};
    }
    facts.runs.push_back(std::move(run));
  }
  print_bench(facts);
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
  std::vector<BenchRow> rows;
  const auto add = [&](const BenchRow& row) {
    rows.push_back(row);
    limits.measure();
  };
  const double all = static_cast<double>(options.prompts.size() + options.at.size() +
                                         (*options.decode > 0 ? 1 : 0));
  const auto show = [&] { progress.at("timing", static_cast<double>(rows.size()) / all); };
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
  const StartUp start_up = time_start_up(file, session_options, options.seconds);
  progress.done();
  (options.json ? print_rates_as_json : print_rates)(options, file, bench.plan(), weights.size(),
                                                     limits.found(rows), start_up, rows);
  profiler.report();
}

}  // namespace arenite::tool
