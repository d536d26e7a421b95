// SPDX-License-Identifier: Apache-2.0
// arenite bench: times a model beside the limits of this machine, measured in the same run. Reports
// medians, because the speed of a shared machine changes with the load of others.

#include <iterator>
#include <numeric>
#include <stdexcept>

#include "arenite/image.h"
#include "cli/bench.h"
#include "cli/model_cost.h"
#include "cli/thread_pool.h"
#include "convert/check/check_session.h"
#include "core/crc32c.h"

namespace arenite::tool {
namespace {

// --- Whole sequences of several lengths, and several in one call: feature models and encoders ---

constexpr size_t kSequenceRunsMin = 15;

// Sequences of random tokens, laid out back to back.
class RandomBatch {
 public:
  RandomBatch(const Model& model, const std::vector<uint32_t>& lengths) : lengths_(lengths) {
    const size_t tokens = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
    const size_t count = tokens * model.input_features();
    uint32_t state = 1;
    const auto next = [&] { return state = state * 1664525u + 1013904223u; };
    for (const uint32_t length : model.input(0).takes_pairs ? lengths : std::vector<uint32_t>()) {
      pairs_.resize(pairs_.size() + size_t{length} * length, 1);
    }
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
    if (ids_.empty())
      return session.run(Batch{features_, sequences, 0, lengths_, {}, true, pairs_});
    return session.run(TokenBatch{ids_, sequences, 0, lengths_, {}, true, {}, pairs_});
  }

 private:
  std::vector<uint32_t> lengths_;
  std::vector<TokenId> ids_;
  std::vector<float> features_;
  std::vector<uint8_t> pairs_;
};

// Returns the median time of a call. Calls below a microsecond are timed in batches.
double time_run(ModelSession& session, Profiler& profiler, const RandomBatch& batch_to_run,
                const std::vector<Feed>& feeds, double seconds) {
  const auto run = [&] {
    for (const Feed& feed : feeds) profiler.add_sequence(feed);
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

std::string as_table(const Json& runs) {
  std::string text = fmt::format("{:>8} {:>12} {:>10} {:>9} {:>13}\n", "tokens", "median",
                                 "GFLOP/s", "of peak", "sequences/s");
  for (const Json& run : runs) {
    text += filled(
        "{tokens:>8} {time:>12} {gflops:>10.2f} {percent:>8.1f}% {rate:>13.1f}  {what}\n", run);
  }
  return text;
}

struct Case {
  std::string what;
  std::vector<uint32_t> lengths;
};

// Returns a case per size; then two with all of --lengths in one call: packed, and padded.
std::vector<Case> cases_of(const BenchOptions& options, const Model& model) {
  const uint32_t most = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
  const SizeRange range = lengths_of(model.input(0));
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

BenchRun time_case(const ModelFile& file, SessionOptions options, Profiler& profiler,
                   const Case& timed, double seconds) {
  const Model& model = file.model();
  BenchRun run = {.what = timed.what, .sequences = static_cast<uint32_t>(timed.lengths.size())};
  std::vector<Feed>& feeds = run.feeds;
  double flops = 0.0;
  for (const uint32_t length : timed.lengths) {
    run.tokens += length;
    feeds.push_back({0, length, model.pooled() ? 1 : length});
    flops += model_flops(format::ModelReader(model.file()), feeds.back());
  }
  options.positions_max = *std::ranges::max_element(timed.lengths);
  options.tokens_max = run.tokens;
  options.sequences_max = *run.sequences;
  ModelSession session(file, options);
  run.median_ms = time_run(session, profiler, RandomBatch(model, timed.lengths), feeds, seconds);
  run.gflops = run.per_ms(flops);
  return run;
}

void bench_sequences(const BenchOptions& options, const ModelFile& file) {
  const std::vector<Case> cases = cases_of(options, file.model());
  ThreadPool pool(options.threads);
  Profiler profiler(options.profile, file.model());
  SessionOptions session_options;
  session_options.outputs = Outputs::kAll;
  session_options.kv_cache = options.kv_cache;
  profiler.attach(session_options, pool.parallel_for());

  Progress progress(options.model.string());
  BenchFacts facts = {options, file, measure_limits(pool.parallel_for(), options.seconds)};
  double& peak = facts.limits.peak_gflops;
  uint32_t longest = 1;
  for (const Case& timed : cases) {
    progress.at("timing",
                static_cast<double>(facts.runs.size()) / static_cast<double>(cases.size()));
    facts.runs.push_back(time_case(file, session_options, profiler, timed, options.seconds));
    // The clock of a shared machine drifts, so the peak is the best value seen during the run.
    peak = std::max(peak, measure_peak_gflops(pool.parallel_for()));
    measure_int8_peaks(pool.parallel_for(), file.model(), facts.limits);
    longest = std::max(longest, *std::ranges::max_element(timed.lengths));
  }
  share_peaks(facts);
  session_options.positions_max = longest;
  facts.start_up = time_start_up(file, session_options, options.seconds);
  progress.done();
  print_bench(facts, as_table);
  profiler.report();
}

// --- The command ---

constexpr size_t kStartsMin = 5;
constexpr double kSecondsMax = 3600.0;
constexpr uint32_t kTokensMax = 1u << 20;  // features for more tokens would not fit most machines

// Throws for options that are for the other kind of model, which would ignore them silently.
void refuse_options(const CLI::App& command, const std::string& model,
                    std::initializer_list<const char*> names, const char* what) {
  for (const char* name : names) {
    if (command.count(name) == 0) continue;
    throw convert::InputError("{}: {} does not fit: the model is {}", convert::quote(model), name,
                              what);
  }
}

void run_bench(const CLI::App& command, const BenchOptions& options) {
  const convert::OutputGuard guard({{"--trace", options.profile.trace}});
  const ModelFile file(options.model, options.kernels);
  const bool is_decoder = file.model().vocab_size() != 0 && file.model().causal();
  if (file.model().inputs() > 1) {
    refuse_options(command, file.name(), {"--lengths"}, "one with several inputs");
    if (!convert::is_stepped(file.model())) {
      refuse_options(command, file.name(), {"--prompt", "--decode", "--at", "--context", "--chunk"},
                     "not fed token by token");
    }
    bench_functions(options, file);
  } else if (is_decoder) {
    refuse_options(command, file.name(), {"--tokens", "--lengths"}, "a decoder");
    bench_functions(options, file);
  } else {
    refuse_options(command, file.name(), {"--prompt", "--decode", "--at", "--context", "--chunk"},
                   "no decoder");
    if (image_shape(file.model()).channels != 0) {
      refuse_options(command, file.name(), {"--tokens", "--lengths"}, "one of images");
    }
    bench_sequences(options, file);
  }
}

void add_token_options(CLI::App& command, BenchOptions& options) {
  add_number(command, "--prompt", options.prompts,
             "Prompts to time, in tokens: 128,512 by default");
  add_number(command, "--decode", options.decode,
             "Time this many tokens, one by one; 64 by default", 0);
  add_number(command, "--at", options.at, "Time one token with this many positions held: 10,1000",
             0);
  add_number(command, "--context", options.context, "Positions; the model's by default", 2);
  add_number(command, "--chunk", options.chunk,
             "Most tokens of a prompt in one call; 64 by default");
  put_in_group(command, "Decoders", {"--prompt", "--decode", "--at", "--context", "--chunk"});
}

}  // namespace

double median_sample_ms(size_t samples_min, double seconds, const std::function<double()>& sample) {
  std::vector<double> samples;
  double total_ms = 0.0;
  while (total_ms < seconds * 1e3 || samples.size() < samples_min) {
    samples.push_back(sample());
    total_ms += samples.back();
  }
  return median(std::move(samples));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

StartUp time_start_up(const ModelFile& file, const SessionOptions& options, double seconds) {
  const ModelSession session(file, options);
  convert::AlignedBytes arena(session.plan().total_bytes);
  const auto time = [seconds](const auto& work) {
    return median_sample_ms(kStartsMin, seconds / 3, [&] { return milliseconds(work); });
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

SizeRange lengths_of(const InputInfo& input) {
  return {input.positions_max != 0 ? input.positions_max : UINT32_MAX, "its context",
          std::max(1u, input.tokens_min), std::max(1u, input.tokens_step)};
}

void require_in(const BenchOptions& options, const char* option, uint32_t found,
                const SizeRange& range) {
  if (found < range.least) {
    throw convert::InputError("{}: {}: found {}; at least {}, the model's shortest sequence",
                              convert::quote(options.model.string()), option, found, range.least);
  }
  const bool is_step = range.least == 0 || (found - range.least) % range.step == 0;
  if (found <= range.most && is_step) return;
  const std::string quoted = convert::quote(options.model.string());
  convert::refuse_if(!is_step, "{}: {}: found {}; the model takes {} and more in steps of {}",
                     quoted, option, found, range.least, range.step);
  throw convert::InputError("{}: {}: found {}; at most {}, {}", quoted, option, found, range.most,
                            range.what);
}

std::vector<uint32_t> sizes_to_run(const BenchOptions& options, const char* option,
                                   const std::vector<uint32_t>& wanted,
                                   std::initializer_list<uint32_t> usual, const SizeRange& range) {
  for (const uint32_t size : wanted) require_in(options, option, size, range);
  if (!wanted.empty()) return wanted;
  std::vector<uint32_t> sizes;
  for (const uint32_t size : usual) {
    if (size < range.least || size > range.most) continue;
    sizes.push_back(size - (size - range.least) % range.step);
  }
  if (sizes.empty()) sizes.push_back(usual.begin()[0] < range.least ? range.least : range.most);
  return sizes;
}

std::string time_text(double ms) {
  const double value = ms < 1.0 ? ms * 1e3 : ms;
  const int decimals = value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, ms < 1.0 ? "us" : "ms");
}

// A run that beats the measured peaks shows that the machine can do more: all peaks are then scaled
// up so that no share exceeds 1.
void share_peaks(BenchFacts& facts) {
  const auto share_of = [&](const BenchRun& run) {
    double least = 0.0;
    for (const Feed& feed : run.feeds) least += least_ms(facts.file.model(), feed, facts.limits);
    return least / run.median_ms;
  };
  double most = 1.0;
  for (const BenchRun& run : facts.runs) most = std::max(most, share_of(run));
  facts.limits.peak_gflops *= most;
  facts.limits.peak_q8_gops *= most;
  facts.limits.peak_q4_gops *= most;
  for (BenchRun& run : facts.runs) {
    if (run.gflops) run.share_of_peak = Fraction{std::min(1.0, share_of(run))};
  }
}

namespace {

std::optional<double> if_measured(double rate) {
  return rate == 0.0 ? std::nullopt : std::optional(rate);
}

}  // namespace

template <>
constexpr auto kFacts<BenchRun> = std::tuple(
    Fact("test",
         "decoder: \"pp512\", \"tg64\", \"at 1000\"; after a function's name, if it has one",
         &BenchRun::test),
    Fact("what", "What is timed, for several sequences in one call", &BenchRun::what),
    Fact("sequences", &BenchRun::sequences), Fact("tokens", &BenchRun::tokens),
    Fact("median_ms", &BenchRun::median_ms), Fact("tokens_per_s", &BenchRun::tokens_per_s),
    Fact("gflops", &BenchRun::gflops), Fact("share_of_peak", "At most 1", &BenchRun::share_of_peak),
    Fact("gbytes_per_s", "Rate at which weights and cache are read", &BenchRun::gbytes_per_s),
    Fact("share_of_read", "At most 1", &BenchRun::share_of_read));

template <>
constexpr auto kFacts<BenchFacts> = std::tuple(
    Fact("model", [](const BenchFacts& f) { return f.options.model; }),
    Fact("file_bytes", [](const BenchFacts& f) { return f.file.file_bytes(); }),
    Fact("kernel_set",
         [](const BenchFacts& f) { return kernel_set_name(f.file.model().target()); }),
    Fact("threads", [](const BenchFacts& f) { return f.options.threads; }),
    Fact("peak_gflops", "In float32", [](const BenchFacts& f) { return f.limits.peak_gflops; }),
    Fact("peak_q8_gops", "Peak of integer products; null: no such weights",
         [](const BenchFacts& f) { return if_measured(f.limits.peak_q8_gops); }),
    Fact("peak_q4_gops", "Peak of integer products; null: no such weights",
         [](const BenchFacts& f) { return if_measured(f.limits.peak_q4_gops); }),
    Fact("read_gbytes_per_s", [](const BenchFacts& f) { return f.limits.read_gbytes_per_s; }),
    Fact("load_ms", "All checks included", [](const BenchFacts& f) { return f.start_up.load_ms; }),
    Fact("crc_ms", "Checksums, part of load_ms",
         [](const BenchFacts& f) { return f.start_up.crc_ms; }),
    Fact("create_ms", [](const BenchFacts& f) { return f.start_up.create_ms; }),
    Fact("weight_bytes", "decoder", &BenchFacts::weight_bytes),
    Fact("context", "decoder: positions", &BenchFacts::context),
    Fact("tokens_per_call", "decoder", &BenchFacts::tokens_per_call),
    Fact("tokens_seen", "decoder: tokens of other inputs, which it sees", &BenchFacts::tokens_seen),
    Fact("arena_bytes", "decoder", &BenchFacts::arena_bytes), Fact("runs", &BenchFacts::runs));

namespace {

std::string bytes_text(size_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{} bytes", bytes)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

constexpr std::pair<const char*, const char*> kHeaderLines[] = {
    {"model", "{model}, {size}"},
    {"kernel set", "{kernel_set}, {threads#thread}"},
    {"context",
     "{context#position}, {tokens_per_call#token} a call<, which see {tokens_seen#token} of other "
     "inputs>, arena {arena_bytes} bytes"},
    {"machine",
     "{peak_gflops:.1f} GFLOP/s peak in float32<, {peak_q8_gops:.1f} GOP/s in q8>"
     "<, {peak_q4_gops:.1f} GOP/s in q4>, {read_gbytes_per_s:.1f} GB/s read"
     "< over {weights} of weights>"},
    {"start", "load {load} (checksums {crc}), create {create}"},
};

}  // namespace

void print_bench(const BenchFacts& facts, const std::function<std::string(const Json&)>& table) {
  if (facts.options.json) return print_json(facts);
  Json json = json_of(facts);
  json["size"] = bytes_text(facts.file.file_bytes());
  if (facts.weight_bytes) json["weights"] = bytes_text(*facts.weight_bytes);
  json["load"] = time_text(facts.start_up.load_ms);
  json["crc"] = time_text(facts.start_up.crc_ms);
  json["create"] = time_text(facts.start_up.create_ms);
  for (Json& run : json["runs"]) {
    const double ms = run["median_ms"].get<double>(), tokens = run["tokens"].get<double>();
    const bool is_of_tokens = run.contains("tokens_per_s");
    run["time"] = time_text(is_of_tokens ? ms / tokens : ms);
    run["all"] = time_text(ms);
    if (run.contains("sequences")) run["rate"] = 1e3 * run["sequences"].get<double>() / ms;
    for (const char* share : {"share_of_peak", "share_of_read"}) {
      if (run.contains(share)) run["percent"] = 100.0 * run[share].get<double>();
    }
  }
  TitledLines header(0, 10);
  for (const auto& [title, words] : kHeaderLines) header.add(title, filled(words, json));
  print_string(header.text() + "\n" + table(json["runs"]));
}

Json bench_facts() { return schema_of<BenchFacts>(); }

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      app.add_subcommand("bench", "Time a model, and this machine's limits in the same run");
  command->footer(
      "\nCounts two operations per multiply-add, and attention over visible pairs only. The peak\n"
      "is a loop of multiply-adds in registers; the bandwidth a loop over 256 MB, for a decoder\n"
      "over as many bytes as its weights. Medians of several runs; the limits are measured\n"
      "between them.\n"
      "\nDecoders: pp512 is a prompt of 512 tokens, tg64 are 64 tokens one by one after\n"
      "the first, and 'at 1000' is one token after 1000. GB/s are weights and cache read for "
      "each.\n"
      "\nOf a model with several functions each is timed by its name: those that take whole\n"
      "sequences for each of --tokens, the last one of an encoder-decoder as a decoder that sees\n"
      "the longest of them.\n"
      "\nExamples:\n"
      "  arenite bench attention.arn --tokens 6,128,512 --threads 2\n"
      "  arenite bench encoder.arn --tokens 16,128 --lengths 5,60,12,33\n"
      "  arenite bench decoder.arn --prompt 128,512 --decode 64 --at 10,1000\n"
      "  arenite bench speech.arn --tokens 3000 --prompt 4 --decode 64\n");
  add_model(*command, options->model);
  add_number(*command, "--tokens", options->tokens,
             "Sequences to time one by one, of an encoder or a model of features", 1, kTokensMax);
  add_number(*command, "--lengths", options->lengths,
             "Sequences to time in one call, as they are and padded to the longest", 1, kTokensMax);
  add_real(*command, "--seconds", options->seconds,
           "How long to time each size, about; below 1, the bandwidth is measured over less memory",
           0.0, true, kSecondsMax)
      ->capture_default_str();
  add_token_options(*command, *options);
  add_machine_options(*command, options->kernels, options->threads);
  add_kv_option(*command, options->kv_cache);
  add_json_option(*command, options->json);
  add_profile_options(*command, options->profile);
  command->callback([command, options] { run_bench(*command, *options); });
}

}  // namespace arenite::tool
