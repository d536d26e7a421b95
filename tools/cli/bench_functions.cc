// SPDX-License-Identifier: Apache-2.0
// Times models function by function: calls with whole sequences and prompts, which are
// compute-bound, and single tokens, which are bound by the memory bandwidth for weights and cache.

#include <bit>
#include <cstring>
#include <stdexcept>

#include "cli/bench.h"
#include "cli/model_cost.h"
#include "cli/thread_pool.h"
#include "convert/check/check_session.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

constexpr size_t kRunsMin = 5;
constexpr uint32_t kUsualDecode = 64;
constexpr size_t kStepsMin = 20;
constexpr size_t kReadsMax = 30;  // per row, as small models take thousands of samples
constexpr int kMeasurements = 3;  // of the limits, each time

// Fills in the options that were not given. Throws if they exceed the context.
BenchOptions completed(BenchOptions options, const ModelFile& file) {
  const InputInfo input = file.model().input(convert::last_input(file.model()));
  if (input.positions_max != 0) {
    require_in(options, "--context", options.context, {input.positions_max, "the model's", 0});
  }
  if (options.context == 0) {
    options.context = input.positions_max != 0 ? input.positions_max : kDefaultPositions;
  }
  if (options.chunk == 0) options.chunk = kDefaultTokens;
  options.chunk = std::min(options.chunk, options.context);
  options.prompts = sizes_to_run(options, "--prompt", options.prompts, {128, 512},
                                 {options.context, "the context"});
  const uint32_t others = options.context - 1;
  if (!options.decode) options.decode = std::min(kUsualDecode, others);
  require_in(options, "--decode", *options.decode,
             {others, "the context minus its first token", 0});
  for (const uint32_t held : options.at) {
    require_in(options, "--at", held, {others, "the context minus one", 0});
  }
  return options;
}

// Tracks the machine's limits during the benchmark. Clock and memory bandwidth of a shared machine
// drift. So the compute peak is the best value seen between rows; the read rate is the median of
// many samples, taken over the very bytes that decoding reads.
class Limits {
 public:
  // Samples read `weights` in place or, if they are too few bytes, a buffer of the least size.
  Limits(const ParallelFor& parallel, const Model& model, std::span<const std::byte> weights)
      : parallel_(parallel), model_(model), small_(read_bytes(parallel, 1)), memory_(weights) {
    if (weights.size() >= small_.size()) return;
    std::memset(small_.data(), 1, small_.size());
    memory_ = small_.span();
  }

  void measure() {
    for (int i = 0; i < kMeasurements; ++i) {
      peaks_.peak_gflops = std::max(peaks_.peak_gflops, measure_peak_gflops(parallel_));
      measure_int8_peaks(parallel_, model_, peaks_);
      (void)sample_read();
    }
  }

  // Reads for at least `ms`. The longer of two samples is interrupted more often by other programs,
  // so the caller passes the duration of the sample that it compares with.
  double sample_read(double ms = 0.0) {
    double ms_spent = 0.0, per_rate = 0.0;
    uint32_t count = 0;
    do {
      ms_spent +=
          milliseconds([&] { per_rate += 1.0 / sample_read_gbytes_per_s(parallel_, memory_); });
      ++count;
    } while (ms_spent < ms);
    reads_.push_back(count / per_rate);
    return reads_.back();
  }

  // Returns the limits, raised to what the model itself reached.
  MachineLimits found(const std::vector<BenchRun>& runs) const {
    MachineLimits limits = peaks_;
    limits.read_gbytes_per_s = median(reads_);
    for (const BenchRun& run : runs) {
      limits.read_gbytes_per_s = std::max(limits.read_gbytes_per_s, run.gbytes_per_s.value_or(0.0));
    }
    return limits;
  }

 private:
  ParallelFor parallel_;
  const Model& model_;
  convert::AlignedBytes small_;
  std::span<const std::byte> memory_;
  MachineLimits peaks_;
  std::vector<double> reads_;
};

// A session for timing one function, with room for one sequence of each input.
class FunctionBench {
 public:
  // `options` gives the tokens of each input, at most those of `sequence`. Runs the earlier
  // functions here, because the timed function may read what they cache.
  FunctionBench(const ModelFile& file, const SessionOptions& options, uint32_t function,
                convert::ModelInput sequence, Profiler& profiler)
      : model_(file.model()),
        function_(function),
        info_(model_.function(function)),
        is_stepped_(function + 1 == model_.functions() && convert::is_stepped(model_)),
        sequence_(std::move(sequence)),
        session_(file, options),
        profiler_(profiler) {
    for (uint32_t f = 0; f <= function_; ++f) {
      Feed feed = {held_, {}, 1};
      for (uint32_t i = 0; i < model_.inputs(); ++i) {
        if (ModelAccess::reader(model_).function_of_input(i) != f) continue;
        if (f == function_) taken_.push_back(i);
        if (f < function_) held_.of[i] = feed.tokens.of[i] = sequence_.of(i).tokens;
      }
      if (f == function_) break;
      profiler_.add_sequence(feed);
      step(f, model_.function(f).inputs, 0, UINT32_MAX);
    }
  }

  const ArenaPlan& plan() const { return session_.plan(); }

  // Returns the feed from which compute and reads are counted.
  Feed feed(uint32_t held, uint32_t tokens) const {
    Feed feed = {held_, {}, 1};
    for (const uint32_t i : taken_) {
      feed.held.of[i] = held;
      feed.tokens.of[i] = std::min(tokens, sequence_.of(i).tokens);
    }
    if (!info_.causal) feed.outputs = tokens;
    return feed;
  }

  uint32_t held() { return session_.session().positions(0, taken_[0]); }

  // Rewinds the function's inputs to `tokens` tokens; 0 restarts them.
  bool rewind(uint32_t tokens) {
    return std::ranges::all_of(taken_, [&](uint32_t input) {
      return session_.session().rewind_input(input, 0, tokens) == Status::kOk;
    });
  }

  // Makes one call with `tokens` tokens, or with all if the function takes whole sequences.
  void call(uint32_t tokens) {
    profiler_.add_sequence(feed(held(), tokens));
    step(function_, info_.inputs, held(), is_stepped_ ? tokens : UINT32_MAX);
  }

 private:
  void step(uint32_t function, uint32_t inputs, uint32_t begin, uint32_t count) {
    const std::vector<Input> fed = convert::inputs_of_call(inputs, sequence_, begin, count);
    if (!session_.session().step(function, fed).ok()) {
      throw std::logic_error("a step that was checked fails: this is a bug");
    }
  }

  const Model& model_;
  uint32_t function_;
  FunctionInfo info_;  // cached, because finding out whether it is causal takes time
  bool is_stepped_;
  convert::ModelInput sequence_;
  std::vector<uint32_t> taken_;  // input indices
  InputTokens held_;             // of the inputs of other functions
  ModelSession session_;
  Profiler& profiler_;
};

// Times single tokens and prompts of the last function.
class TokenBench {
 public:
  TokenBench(const BenchOptions& options, const ModelFile& file, FunctionBench& bench,
             Limits& limits)
      : options_(options),
        reader_(file.model().file()),
        packed_index_(ModelAccess::packed_index(file.model())),
        kv_type_(options.kv_cache == KvType::kOfModel ? reader_.kv_cache()
                 : options.kv_cache == KvType::kInt8  ? TensorType::kInt8
                                                      : TensorType::kF32),
        bench_(bench),
        limits_(limits) {}

  BenchRun time_prompt(uint32_t tokens) {
    BenchRun run = {.test = fmt::format("pp{}", tokens), .tokens = tokens};
    double flops = 0.0;
    for (uint32_t begin = 0; begin < tokens; begin += options_.chunk) {
      run.feeds.push_back(bench_.feed(begin, std::min(options_.chunk, tokens - begin)));
      flops += model_flops(reader_, run.feeds.back());
    }
    feed_prompt(tokens);
    run.median_ms = median_sample_ms(kRunsMin, options_.seconds,
                                     [&] { return milliseconds([&] { feed_prompt(tokens); }); });
    run.gflops = run.per_ms(flops);
    return run;
  }

  BenchRun time_decode(uint32_t tokens) {
    double bytes = 0.0;
    for (uint32_t i = 0; i < tokens; ++i) bytes += bytes_at(1 + i);
    return time_against_reads(fmt::format("tg{}", tokens), tokens, bytes, kRunsMin, [&] {
      feed_prompt(1);
      return milliseconds([&] {
        for (uint32_t i = 0; i < tokens; ++i) bench_.call(1);
      });
    });
  }

  BenchRun time_step_at(uint32_t held) {
    feed_prompt(held);
    return time_against_reads(fmt::format("at {}", held), 1, bytes_at(held), kStepsMin, [&] {
      // A ring buffer may have dropped rows that the step needs.
      if (!bench_.rewind(held)) feed_prompt(held);
      return milliseconds([&] { bench_.call(1); });
    });
  }

 private:
  // Measures the read rate after each sample, so that both are taken under the same load.
  BenchRun time_against_reads(const std::string& test, uint32_t tokens, double bytes,
                              size_t samples_min, const std::function<double()>& sample) {
    BenchRun run = {.test = test, .tokens = tokens};
    std::vector<double> reads;
    run.median_ms = median_sample_ms(samples_min, options_.seconds, [&] {
      const double ms = sample();
      if (reads.size() < kReadsMax) reads.push_back(limits_.sample_read(ms));
      return ms;
    });
    run.gbytes_per_s = run.per_ms(bytes);
    // The model itself may reach more than the measured rate.
    const double most = std::max(median(reads), *run.gbytes_per_s);
    run.share_of_read = Fraction{*run.gbytes_per_s / most};
    return run;
  }

  double bytes_at(uint32_t held) const {
    return decode_bytes(reader_, packed_index_, bench_.feed(held, 1).held, kv_type_);
  }

  void feed_prompt(uint32_t tokens) {
    bench_.rewind(0);
    for (uint32_t begin = 0; begin < tokens; begin += options_.chunk) {
      bench_.call(std::min(options_.chunk, tokens - begin));
    }
  }

  const BenchOptions& options_;
  format::ModelReader reader_;
  uint32_t packed_index_;
  TensorType kv_type_;
  FunctionBench& bench_;
  Limits& limits_;
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
                {">in all", "{all}"},
                {">GFLOP/s", "{gflops:.2f}"},
                {">of peak", "{?gflops}{percent:.1f}%"},
                {">GB/s", "{gbytes_per_s:.2f}"},
                {">of read", "{?gbytes_per_s}{percent:.1f}%"}},
               runs);
}

// State that all runs of a model share.
struct Machine {
  Profiler& profiler;
  SessionOptions options;  // of a session, except for its sizes
  Limits limits;
  std::vector<BenchRun> runs = {};

  void add(BenchRun run, const char* function) {
    if (*function != 0) run.test = fmt::format("{} {}", function, *run.test);
    runs.push_back(std::move(run));
    limits.measure();
  }
};

SessionOptions sized(const Machine& machine, const ModelFile& file, const InputTokens& tokens,
                     uint32_t chunk) {
  SessionOptions options = convert::options_for_functions(file.model(), tokens, chunk);
  options.outputs = machine.options.outputs;
  options.kv_cache = machine.options.kv_cache;
  options.parallel = machine.options.parallel;
  options.profile = machine.options.profile;
  return options;
}

// Times calls of function `function`, which takes whole sequences. Returns the longest length.
uint32_t time_calls(const BenchOptions& options, const ModelFile& file, uint32_t function,
                    Machine& machine) {
  const Model& model = file.model();
  const FunctionInfo info = model.function(function);
  const InputInfo input = model.input(static_cast<uint32_t>(std::countr_zero(info.inputs)));
  const SizeRange range = lengths_of(input);
  uint32_t longest = 0;
  for (const uint32_t tokens :
       sizes_to_run(options, "--tokens", options.tokens, {128, 512}, range)) {
    convert::ModelInput sequence = convert::sequence_to_check(model, tokens);
    const SessionOptions sizes = sized(machine, file, sequence.tokens_of_inputs(), UINT32_MAX);
    FunctionBench bench(file, sizes, function, std::move(sequence), machine.profiler);
    BenchRun run = {.test = fmt::format("{}", tokens), .tokens = tokens};
    run.median_ms = median_sample_ms(kRunsMin, options.seconds, [&] {
      bench.rewind(0);
      return milliseconds([&] { bench.call(tokens); });
    });
    run.feeds.push_back(bench.feed(0, tokens));
    run.gflops = run.per_ms(model_flops(format::ModelReader(model.file()), run.feeds[0]));
    machine.add(run, info.name);
    longest = std::max(longest, tokens);
  }
  return longest;
}

// Times the last function, which is fed token by token and sees `seen` tokens of the other inputs.
SessionOptions time_tokens(const BenchOptions& options, const ModelFile& file, uint32_t seen,
                           Machine& machine, Progress& progress, BenchFacts& facts) {
  const Model& model = file.model();
  const uint32_t last = model.functions() - 1;
  const uint32_t own = convert::last_input(model);
  convert::ModelInput sequence = convert::sequence_to_check(model, seen);
  convert::ModelInput& read = own == 0 ? sequence : sequence.others[own - 1];
  const InputInfo info = model.input(own);
  const size_t features = size_t{options.context} * info.features;
  convert::ModelInput tokens =
      convert::input_to_check(options.context, info.vocab_size, info.token_types, features);
  tokens.others = std::move(read.others);
  read = std::move(tokens);
  const SessionOptions sizes = sized(machine, file, sequence.tokens_of_inputs(), options.chunk);
  FunctionBench function(file, sizes, last, std::move(sequence), machine.profiler);
  TokenBench bench(options, file, function, machine.limits);
  const char* const name = model.functions() == 1 ? "" : model.function(last).name;
  const double all = static_cast<double>(options.prompts.size() + options.at.size() +
                                         (*options.decode > 0 ? 1 : 0));
  const size_t before = machine.runs.size();
  const auto add = [&](const BenchRun& run) {
    machine.add(run, name);
    progress.at("timing", static_cast<double>(machine.runs.size() - before) / all);
  };
  progress.at("timing", 0.0);
  for (const uint32_t prompt : options.prompts) add(bench.time_prompt(prompt));
  if (*options.decode > 0) add(bench.time_decode(*options.decode));
  for (const uint32_t held : options.at) add(bench.time_step_at(held));
  facts.context = options.context;
  facts.tokens_per_call = options.chunk;
  if (last > 0) facts.tokens_seen = seen;
  facts.arena_bytes = function.plan().total_bytes;
  return sizes;
}

}  // namespace

void bench_functions(const BenchOptions& wanted, const ModelFile& file) {
  const Model& model = file.model();
  const bool steps = convert::is_stepped(model);
  const BenchOptions options = steps ? completed(wanted, file) : wanted;
  ThreadPool pool(options.threads);
  Profiler profiler(options.profile, model);
  const std::span<const std::byte> weights = packed_weights(file);
  Machine machine = {profiler, {}, Limits(pool.parallel_for(), model, weights)};
  machine.options.kv_cache = options.kv_cache;
  if (!steps) machine.options.outputs = Outputs::kAll;
  profiler.attach(machine.options, pool.parallel_for());
  machine.limits.measure();

  Progress progress(options.model.string());
  BenchFacts facts = {options, file};
  uint32_t seen = 1;
  const uint32_t whole = model.functions() - (steps ? 1 : 0);
  for (uint32_t f = 0; f < whole; ++f) {
    progress.at("timing", 0.0);
    seen = std::max(seen, time_calls(options, file, f, machine));
  }
  const SessionOptions sizes =
      steps ? time_tokens(options, file, seen, machine, progress, facts)
            : sized(machine, file, convert::sequence_to_check(model, seen).tokens_of_inputs(), 1);
  progress.at("starting", 0.0);
  facts.start_up = time_start_up(file, sizes, options.seconds);
  progress.done();
  facts.runs = std::move(machine.runs);
  facts.limits = machine.limits.found(facts.runs);
  for (BenchRun& run : facts.runs) run.tokens_per_s = run.tokens / run.median_ms * 1e3;
  share_peaks(facts);
  facts.weight_bytes = weights.size();
  print_bench(facts, rates_table);
  profiler.report();
}

}  // namespace arenite::tool
