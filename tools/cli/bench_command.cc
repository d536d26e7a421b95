// SPDX-License-Identifier: Apache-2.0
// arenite bench: times a model beside the limits of this machine, measured in the same run.

#include "arenite/image.h"
#include "cli/bench.h"
#include "convert/files/thread_pool.h"

namespace arenite::tool {
namespace {

std::optional<double> if_measured(double rate) {
  return rate == 0.0 ? std::nullopt : std::optional(rate);
}

}  // namespace

template <>
constexpr auto kFacts<BenchRun> = std::tuple(
    Fact("test",
         "decoder: \"pp512\", \"tg64\", \"at 1000\"; else the tokens; after a function's name, if "
         "it "
         "has one",
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
    Fact("weight_bytes", &BenchFacts::weight_bytes),
    Fact("context", "decoder: positions", &BenchFacts::context),
    Fact("tokens_per_call", "decoder", &BenchFacts::tokens_per_call),
    Fact("tokens_seen", "decoder: tokens of other inputs, which it sees", &BenchFacts::tokens_seen),
    Fact("arena_bytes", "decoder", &BenchFacts::arena_bytes), Fact("runs", &BenchFacts::runs));

Json bench_facts() { return schema_of<BenchFacts>(); }

namespace {

// Formats three significant digits.
std::string time_text(double ms) {
  const double value = ms < 1.0 ? ms * 1e3 : ms;
  const int decimals = value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, ms < 1.0 ? "us" : "ms");
}

std::string bytes_text(size_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{} bytes", bytes)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string start_text(const StartUp& start) {
  return fmt::format("load {} (checksums {}), create {}", time_text(start.load_ms),
                     time_text(start.crc_ms), time_text(start.create_ms));
}

std::string context_text(const BenchFacts& facts) {
  const std::string seen = facts.tokens_seen ? fmt::format(", which see {} of other inputs",
                                                           counted(*facts.tokens_seen, "token"))
                                             : "";
  return fmt::format("{}, {} a call{}, arena {} bytes", counted(*facts.context, "position"),
                     counted(*facts.tokens_per_call, "token"), seen, grouped(*facts.arena_bytes));
}

std::string machine_text(const BenchFacts& facts) {
  const MachineLimits& limits = facts.limits;
  std::string text = fmt::format("{:.1f} GFLOP/s peak in float32", limits.peak_gflops);
  for (const auto& [type, peak] :
       {std::pair("q8", limits.peak_q8_gops), std::pair("q4", limits.peak_q4_gops)}) {
    if (peak != 0.0) text += fmt::format(", {:.1f} GOP/s in {}", peak, type);
  }
  return text + fmt::format(", {:.1f} GB/s read over {} of weights", limits.read_gbytes_per_s,
                            bytes_text(facts.weight_bytes));
}

std::string runs_table(const std::vector<BenchRun>& runs) {
  const auto share = [](const std::optional<Fraction>& found) {
    return found ? fmt::format("{:.1f}%", 100.0 * found->value) : "";
  };
  const auto rate = [](const std::optional<double>& found, int decimals) {
    return found ? fmt::format("{:.{}f}", *found, decimals) : "";
  };
  TextTable table({">test", ">tokens/s", ">a token", ">in all", ">GFLOP/s", ">of peak", ">GB/s",
                   ">of read", ""});
  for (const BenchRun& run : runs) {
    table.add_row({run.test, fmt::format("{:.1f}", run.tokens_per_s),
                   time_text(run.median_ms / run.tokens), time_text(run.median_ms),
                   rate(run.gflops, 2), share(run.share_of_peak), rate(run.gbytes_per_s, 2),
                   share(run.share_of_read), run.what.value_or("")});
  }
  return table.text();
}

void print_bench(const BenchFacts& facts) {
  if (facts.options.json) return print_json(facts);
  TitledLines header(0, 10);
  header.add("model", fmt::format("{}, {}", facts.options.model.string(),
                                  bytes_text(facts.file.file_bytes())));
  header.add("kernel set", fmt::format("{}, {}", kernel_set_name(facts.file.model().target()),
                                       counted(facts.options.threads, "thread")));
  if (facts.context) header.add("context", context_text(facts));
  header.add("machine", machine_text(facts));
  header.add("start", start_text(facts.start_up));
  print_string(header.text() + "\n" + runs_table(facts.runs));
}

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
  const Model& model = file.model();
  const bool has_several = model.inputs() > 1;
  const auto refuse = [&](std::initializer_list<const char*> names, const char* what) {
    refuse_options(command, file.name(), names, what);
  };
  if (has_several) refuse({"--lengths"}, "one with several inputs");
  if (!is_fed_by_token(model)) {
    refuse({"--prompt", "--decode", "--at", "--context", "--chunk"},
           has_several ? "not fed token by token" : "no decoder");
  } else if (!has_several) {
    refuse({"--tokens", "--lengths"}, "a decoder");
  }
  if (image_shape(model).channels != 0) refuse({"--tokens", "--lengths"}, "one of images");
  convert::ThreadPool pool(options.threads);
  Profiler profiler(options.profile, model);
  print_bench(time_model(options, file, pool.parallel_for(), profiler));
  profiler.report();
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

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      app.add_subcommand("bench", "Time a model, and this machine's limits in the same run");
  command->footer(
      "\nCounts two operations per multiply-add, and attention over visible pairs only. The peak "
      "is a loop of multiply-adds in registers; the bandwidth a loop over the weights. Medians of "
      "several runs; the limits are measured between them.\n"
      "\nDecoders: pp512 is a prompt of 512 tokens, tg64 are 64 tokens one by one after "
      "the first, and 'at 1000' is one token after 1000. GB/s are weights and cache read for "
      "each.\n"
      "\nOf a model with several functions each is timed by its name: those that take whole "
      "sequences for each of --tokens, the last one of an encoder-decoder as a decoder that sees "
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
  add_real(*command, "--seconds", options->seconds, "How long to time each size, about", 0.0, true,
           kSecondsMax)
      ->capture_default_str();
  add_token_options(*command, *options);
  add_machine_options(*command, options->kernels, options->threads);
  add_kv_option(*command, options->kv_cache);
  add_json_option(*command, options->json);
  add_profile_options(*command, options->profile);
  command->callback([command, options] { run_bench(*command, *options); });
}

}  // namespace arenite::tool
