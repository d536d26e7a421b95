// SPDX-License-Identifier: Apache-2.0
// Times models function by function: calls with whole sequences and prompts, which are
// compute-bound, and single tokens, which are bound by the memory bandwidth for weights and cache.
// Reports medians, because the speed of a shared machine changes with the load of others.

#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "arenite/image.h"
#include "cli/bench.h"
#include "cli/model_cost.h"
#include "convert/check/check_session.h"
#include "core/crc32c.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

constexpr size_t kRunsMin = 5;
constexpr uint32_t kUsualDecode = 64;
constexpr size_t kStepsMin = 20;
constexpr int kMeasurements = 3;  // of the limits, each time

template <typename Work>
double milliseconds(Work work) {
  const Clock::time_point start = Clock::now();
  work();
  return 1e3 * seconds_since(start);
}

double median(std::vector<double> values) {  // REQUIRES: not empty
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the median of at least `samples_min` samples, and of as many as fit into `seconds`.
double median_sample_ms(size_t samples_min, double seconds, const std::function<double()>& sample) {
  std::vector<double> samples;
  double total_ms = 0.0;
  while (total_ms < seconds * 1e3 || samples.size() < samples_min) {
    samples.push_back(sample());
    total_ms += samples.back();
  }
  return median(std::move(samples));
}

StartUp time_start_up(const ModelFile& file, const SessionOptions& options, double seconds) {
  const ModelSession session(file, options);
  convert::AlignedBytes arena(session.plan().total_bytes);
  const auto time = [seconds](const auto& work) {
    return median_sample_ms(kRunsMin, seconds / 3, [&] { return milliseconds(work); });
  };
  StartUp start_up;
  start_up.load_ms = time([&] { (void)Model::load(file.model().file()); });
  start_up.crc_ms = time([&] {
    volatile uint32_t sink = crc32c(file.model().file());
    (void)sink;
  });
  // Each load includes the checksum, but the clock of a shared machine drifts.
  start_up.crc_ms = std::min(start_up.crc_ms, start_up.load_ms);
  start_up.create_ms = time([&] { (void)Session::create(file.model(), options, arena.span()); });
  return start_up;
}

// --- Sizes ---

// The sizes from `least` to `most`; `what` says in messages where `most` comes from.
struct SizeRange {
  uint32_t most;
  const char* what;
  uint32_t least = 1;  // the model's shortest sequence
  uint32_t step = 1;   // sizes are `least` plus multiples of it
};

// Returns the sequences that an input takes.
SizeRange lengths_of(const InputInfo& input) {
  return {input.positions_max != 0 ? input.positions_max : UINT32_MAX, "its context",
          std::max(1u, input.tokens_min), std::max(1u, input.tokens_step)};
}

// Throws an InputError that names the model and `option` if `found` is out of range.
void require_in(const BenchOptions& options, const char* option, uint32_t found,
                const SizeRange& range) {
  const std::string quoted = convert::quote(options.model.string());
  convert::refuse_if(found < range.least,
                     "{}: {}: found {}; at least {}, the model's shortest sequence", quoted, option,
                     found, range.least);
  convert::refuse_if(range.least != 0 && (found - range.least) % range.step != 0,
                     "{}: {}: found {}; the model takes {} and more in steps of {}", quoted, option,
                     found, range.least, range.step);
  convert::refuse_if(found > range.most, "{}: {}: found {}; at most {}, {}", quoted, option, found,
                     range.most, range.what);
}

// Returns `wanted`, or throws if a size is out of range. If `wanted` is empty, returns the sizes of
// `usual` that are in range, rounded down to a step, or, if none are, the end of the range nearest
// to them.
std::vector<uint32_t> sizes_to_run(const BenchOptions& options, const char* option,
                                   const std::vector<uint32_t>& wanted,
                                   const std::vector<uint32_t>& usual, const SizeRange& range) {
  for (const uint32_t size : wanted) require_in(options, option, size, range);
  if (!wanted.empty()) return wanted;
  std::vector<uint32_t> sizes;
  for (const uint32_t size : usual) {
    if (size < range.least || size > range.most) continue;
    sizes.push_back(size - (size - range.least) % range.step);
  }
  if (sizes.empty()) sizes.push_back(usual[0] < range.least ? range.least : range.most);
  return sizes;
}

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
        is_stepped_(function + 1 == model_.functions() && is_fed_by_token(model_)),
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
    if (!is_stepped_) feed.outputs = info_.pooled ? 1 : tokens;
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
  TokenBench(const BenchOptions& options, const ModelFile& file, FunctionBench& bench)
      : options_(options),
        reader_(file.model().file()),
        packed_index_(ModelAccess::packed_index(file.model())),
        kv_type_(options.kv_cache == KvType::kOfModel ? reader_.kv_cache()
                 : options.kv_cache == KvType::kInt8  ? TensorType::kInt8
                                                      : TensorType::kF32),
        bench_(bench) {}

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
    return time_reads(fmt::format("tg{}", tokens), tokens, bytes, kRunsMin, [&] {
      feed_prompt(1);
      return milliseconds([&] {
        for (uint32_t i = 0; i < tokens; ++i) bench_.call(1);
      });
    });
  }

  BenchRun time_step_at(uint32_t held) {
    feed_prompt(held);
    return time_reads(fmt::format("at {}", held), 1, bytes_at(held), kStepsMin, [&] {
      // A ring buffer may have dropped rows that the step needs.
      if (!bench_.rewind(held)) feed_prompt(held);
      return milliseconds([&] { bench_.call(1); });
    });
  }

 private:
  BenchRun time_reads(const std::string& test, uint32_t tokens, double bytes, size_t samples_min,
                      const std::function<double()>& sample) {
    BenchRun run = {.test = test, .tokens = tokens};
    run.median_ms = median_sample_ms(samples_min, options_.seconds, sample);
    run.gbytes_per_s = run.per_ms(bytes);
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
};

std::span<const std::byte> packed_weights(const ModelFile& file) {
  const format::ModelReader reader(file.model().file());
  const format::SegmentView segment =
      reader.packed(ModelAccess::packed_index(file.model())).segment;
  return file.model().file().subspan(static_cast<size_t>(segment.begin()),
                                     static_cast<size_t>(segment.bytes()));
}

// The runs of a model, and the limits of the machine. Clock and memory bandwidth of a shared
// machine drift, so they are measured between runs: the best peak, and the median rate of reading.
struct Machine {
  Machine(Profiler& of_model, const ModelFile& file, const ParallelFor& parallel_for)
      : profiler(of_model),
        model(file.model()),
        parallel(parallel_for),
        small(read_bytes(parallel, 1)),
        memory(packed_weights(file)) {
    if (memory.size() >= small.size()) return;
    std::memset(small.data(), 1, small.size());
    memory = small.span();
  }

  void add(BenchRun run, const char* function) {
    if (*function != 0) run.test = fmt::format("{} {}", function, run.test);
    runs.push_back(std::move(run));
    measure();
  }

  void measure() {
    for (int i = 0; i < kMeasurements; ++i) {
      limits.peak_gflops = std::max(limits.peak_gflops, measure_peak_gflops(parallel));
      measure_int8_peaks(parallel, model, limits);
      reads.push_back(sample_read_gbytes_per_s(parallel, memory));
    }
    limits.read_gbytes_per_s = median(reads);
  }

  Profiler& profiler;
  const Model& model;
  ParallelFor parallel;
  convert::AlignedBytes small;        // read in place of weights that are fewer bytes
  std::span<const std::byte> memory;  // the very bytes that decoding reads, or `small`
  SessionOptions options = {};        // of a session, except for its sizes
  MachineLimits limits = {};
  std::vector<double> reads = {};
  std::vector<BenchRun> runs = {};
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
  const bool has_several = model.inputs() > 1;
  const auto usual =
      has_several ? std::vector<uint32_t>{128, 512} : std::vector<uint32_t>{6, 128, 512};
  uint32_t longest = 0;
  for (const uint32_t tokens :
       sizes_to_run(options, "--tokens", options.tokens, usual, lengths_of(input))) {
    convert::ModelInput sequence = convert::sequence_to_check(model, tokens);
    const SessionOptions sizes = sized(machine, file, sequence.tokens_of_inputs(), UINT32_MAX);
    FunctionBench bench(file, sizes, function, std::move(sequence), machine.profiler);
    BenchRun run = {.test = fmt::format("{}", tokens), .tokens = tokens};
    run.sequences = 1;
    if (image_shape(model).channels != 0) run.what = "an image";
    run.median_ms = median_sample_ms(kRunsMin, options.seconds, [&] {
      bench.rewind(0);
      return milliseconds([&] { bench.call(tokens); });
    });
    run.feeds.push_back(bench.feed(0, tokens));
    run.gflops = run.per_ms(model_flops(format::ModelReader(model.file()), run.feeds[0]));
    machine.add(run, has_several ? info.name : "");
    longest = std::max(longest, tokens);
  }
  return longest;
}

// Times a call with sequences of these lengths.
BenchRun time_batch(const BenchOptions& options, const ModelFile& file, const std::string& what,
                    const std::vector<uint32_t>& lengths, Machine& machine) {
  const InputInfo info = file.model().input(0);
  const uint32_t tokens = std::accumulate(lengths.begin(), lengths.end(), 0u);
  convert::ModelInput input = convert::input_to_check(tokens, info.vocab_size, info.token_types,
                                                      size_t{tokens} * info.features);
  SessionOptions sizes = machine.options;
  sizes.positions_max = *std::ranges::max_element(lengths);
  sizes.tokens_max = tokens;
  sizes.sequences_max = static_cast<uint32_t>(lengths.size());
  BenchRun run = {.test = fmt::format("{}", tokens), .what = what, .tokens = tokens};
  run.sequences = sizes.sequences_max;
  double flops = 0.0;
  for (const uint32_t length : lengths) {
    if (info.takes_pairs) input.pairs.resize(input.pairs.size() + size_t{length} * length, 1);
    run.feeds.push_back({0, length, file.model().pooled() ? 1 : length});
    flops += model_flops(format::ModelReader(file.model().file()), run.feeds.back());
  }
  ModelSession session(file, sizes);
  const auto call = [&] {
    for (const Feed& feed : run.feeds) machine.profiler.add_sequence(feed);
    const uint32_t sequences = sizes.sequences_max;
    const Result<Output> output =
        info.vocab_size == 0 ? session.session().run(Batch{
                                   input.features, sequences, 0, lengths, {}, true, input.pairs})
                             : session.session().run(TokenBatch{
                                   input.ids, sequences, 0, lengths, {}, true, {}, input.pairs});
    if (!output.ok()) throw std::logic_error("a run that was checked fails: this is a bug");
  };
  run.median_ms = median_sample_ms(kRunsMin, options.seconds, [&] { return milliseconds(call); });
  run.gflops = run.per_ms(flops);
  return run;
}

// Times --lengths in one call as they are, and again padded to the longest. Returns the longest.
uint32_t time_batches(const BenchOptions& options, const ModelFile& file, Machine& machine) {
  const std::vector<uint32_t>& lengths = options.lengths;
  if (lengths.empty()) return 1;
  const auto [shortest, longest] = std::ranges::minmax(lengths);
  machine.add(time_batch(options, file,
                         fmt::format("{} of {} to {} tokens", lengths.size(), shortest, longest),
                         lengths, machine),
              "");
  machine.add(time_batch(options, file, fmt::format("the same, padded to {}", longest),
                         std::vector<uint32_t>(lengths.size(), longest), machine),
              "");
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
  TokenBench bench(options, file, function);
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

// A run that beats the measured limits shows that the machine can do more: they are then scaled up
// so that no share exceeds 1.
void share_limits(BenchFacts& facts) {
  MachineLimits& limits = facts.limits;
  const auto share_of = [&](const BenchRun& run) {
    double least = 0.0;
    for (const Feed& feed : run.feeds) least += least_ms(facts.file.model(), feed, limits);
    return least / run.median_ms;
  };
  double most = 1.0;
  for (const BenchRun& run : facts.runs) {
    most = std::max(most, share_of(run));
    limits.read_gbytes_per_s = std::max(limits.read_gbytes_per_s, run.gbytes_per_s.value_or(0.0));
  }
  limits.peak_gflops *= most;
  limits.peak_q8_gops *= most;
  limits.peak_q4_gops *= most;
  for (BenchRun& run : facts.runs) {
    if (run.gflops) run.share_of_peak = Fraction{std::min(1.0, share_of(run))};
    if (!run.gbytes_per_s) continue;
    run.share_of_read = Fraction{*run.gbytes_per_s / limits.read_gbytes_per_s};
  }
}

}  // namespace

bool is_fed_by_token(const Model& model) {
  return convert::is_stepped(model) && (model.inputs() > 1 || model.vocab_size() != 0);
}

BenchFacts time_model(const BenchOptions& wanted, const ModelFile& file,
                      const ParallelFor& parallel, Profiler& profiler) {
  const Model& model = file.model();
  const bool steps = is_fed_by_token(model);
  const BenchOptions options = steps ? completed(wanted, file) : wanted;
  for (const uint32_t length : options.lengths) {
    require_in(options, "--lengths", length, lengths_of(model.input(0)));
  }
  Machine machine(profiler, file, parallel);
  machine.options.kv_cache = options.kv_cache;
  if (!steps) machine.options.outputs = Outputs::kAll;
  profiler.attach(machine.options, parallel);
  machine.measure();

  Progress progress(options.model.string());
  BenchFacts facts = {wanted, file};
  uint32_t longest = 1;
  const uint32_t whole = model.functions() - (steps ? 1 : 0);
  for (uint32_t f = 0; f < whole; ++f) {
    progress.at("timing", 0.0);
    longest = std::max(longest, time_calls(options, file, f, machine));
  }
  longest = std::max(longest, time_batches(options, file, machine));
  const SessionOptions sizes =
      steps
          ? time_tokens(options, file, longest, machine, progress, facts)
          : sized(machine, file, convert::sequence_to_check(model, longest).tokens_of_inputs(), 1);
  progress.at("starting", 0.0);
  facts.start_up = time_start_up(file, sizes, options.seconds);
  progress.done();
  facts.runs = std::move(machine.runs);
  facts.limits = machine.limits;
  for (BenchRun& run : facts.runs) run.tokens_per_s = run.tokens / run.median_ms * 1e3;
  share_limits(facts);
  facts.weight_bytes = packed_weights(file).size();
  return facts;
}

}  // namespace arenite::tool
