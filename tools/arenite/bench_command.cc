// SPDX-License-Identifier: Apache-2.0
// arenite bench: times a model, beside what this machine can do at best in the same minute.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "arenite/arguments.h"
#include "arenite/commands.h"
#include "arenite/machine_limits.h"
#include "arenite/model_cost.h"
#include "arenite/model_file.h"
#include "arenite/progress.h"
#include "arenite/thread_pool.h"
#include "convert/error.h"
#include "core/crc32c.h"

namespace arenite::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::filesystem::path model;
  std::vector<uint32_t> tokens;
  std::string kernels;
  uint32_t threads = 1;
  bool json = false;
};

struct Timing {
  uint32_t tokens = 0;
  double median_ms = 0.0;
  double gflops = 0.0;
  double share_of_peak = 0.0;
};

struct StartUp {
  double load_ms = 0.0;    // Model::load, all checks included
  double crc_ms = 0.0;     // the checksum of the file alone
  double create_ms = 0.0;  // Session::create
};

constexpr double kSecondsPerSize = 1.0;
constexpr size_t kRunsMin = 15;
constexpr uint32_t kTokensMax = 1u << 20;  // features for more would not fit most machines
constexpr uint32_t kDefaultTokens[] = {6, 128, 512};

template <typename Work>
double milliseconds(Work work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<uint32_t> sizes_to_run(const Arguments& arguments, const Model& model) {
  std::vector<uint32_t> sizes = arguments.tokens;
  const uint32_t limit = model.positions_max() != 0 ? model.positions_max() : UINT32_MAX;
  if (sizes.empty()) {
    for (const uint32_t tokens : kDefaultTokens) {
      if (tokens <= limit) sizes.push_back(tokens);
    }
    if (sizes.empty()) sizes.push_back(limit);
  }
  for (const uint32_t tokens : sizes) {
    if (tokens > limit) {
      throw convert::InputError("{}: --tokens: found {}, expected at most {}, its context",
                                convert::quote(arguments.model.string()), tokens, limit);
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
double time_run(ModelSession& session, const std::vector<float>& features, uint32_t tokens) {
  const auto run = [&] {
    if (!session.session().run(Batch{features, 1, tokens, {}}).ok()) {
      throw std::logic_error("a run that was checked fails: this is a bug");
    }
  };
  const double first_ms = std::min(milliseconds(run), milliseconds(run));
  const size_t batch = std::max<size_t>(1, static_cast<size_t>(0.05 / std::max(first_ms, 1e-5)));
  std::vector<double> samples;
  double total_ms = 0.0;
  while (total_ms < kSecondsPerSize * 1e3 || samples.size() < kRunsMin) {
    const double ms = milliseconds([&] {
      for (size_t i = 0; i < batch; ++i) run();
    });
    total_ms += ms;
    samples.push_back(ms / static_cast<double>(batch));
  }
  return median(samples);
}

StartUp time_start_up(const ModelFile& file, const SessionOptions& options) {
  std::vector<double> load, crc, create;
  const ModelSession session(file, options);
  convert::AlignedBytes arena(session.plan().total_bytes);
  for (size_t i = 0; i < kRunsMin; ++i) {
    load.push_back(milliseconds([&] { (void)Model::load(file.model().file()); }));
    crc.push_back(milliseconds([&] {
      volatile uint32_t sink = crc32c(file.model().file());
      (void)sink;
    }));
    create.push_back(
        milliseconds([&] { (void)Session::create(file.model(), options, arena.span()); }));
  }
  return {median(load), median(crc), median(create)};
}

std::string bytes_text(size_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{} bytes", bytes)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// Three digits that count, in microseconds or milliseconds.
std::string time_text(double ms) {
  const double value = ms < 1.0 ? ms * 1e3 : ms;
  const int decimals = value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, ms < 1.0 ? "us" : "ms");
}

void print_text(const Arguments& arguments, const ModelFile& file, const MachineLimits& limits,
                const StartUp& start_up, const std::vector<Timing>& timings) {
  fmt::print("model      {}, {}\n", arguments.model.string(), bytes_text(file.file_bytes()));
  fmt::print("kernel set {}, {} thread{}\n", kernel_set_name(file.model().target()),
             arguments.threads, arguments.threads == 1 ? "" : "s");
  fmt::print("machine    {:.1f} GFLOP/s peak in float32, {:.1f} GB/s read\n", limits.peak_gflops,
             limits.read_gbytes_per_s);
  fmt::print("start      load {} (checksums {}), create {}\n\n", time_text(start_up.load_ms),
             time_text(start_up.crc_ms), time_text(start_up.create_ms));
  fmt::print("{:>8} {:>12} {:>10} {:>9}\n", "tokens", "median", "GFLOP/s", "of peak");
  for (const Timing& timing : timings) {
    fmt::print("{:>8} {:>12} {:>10.2f} {:>8.1f}%\n", timing.tokens, time_text(timing.median_ms),
               timing.gflops, 100.0 * timing.share_of_peak);
  }
}

void print_json(const Arguments& arguments, const ModelFile& file, const MachineLimits& limits,
                const StartUp& start_up, const std::vector<Timing>& timings) {
  nlohmann::ordered_json json;
  json["model"] = arguments.model.string();
  json["file_bytes"] = file.file_bytes();
  json["kernel_set"] = kernel_set_name(file.model().target());
  json["threads"] = arguments.threads;
  json["peak_gflops"] = limits.peak_gflops;
  json["read_gbytes_per_s"] = limits.read_gbytes_per_s;
  json["load_ms"] = start_up.load_ms;
  json["crc_ms"] = start_up.crc_ms;
  json["create_ms"] = start_up.create_ms;
  json["runs"] = nlohmann::ordered_json::array();
  for (const Timing& timing : timings) {
    json["runs"].push_back({{"tokens", timing.tokens},
                            {"median_ms", timing.median_ms},
                            {"gflops", timing.gflops},
                            {"share_of_peak", timing.share_of_peak}});
  }
  fmt::print("{}\n", json.dump(2));
}

void run_bench(const Arguments& arguments) {
  const ModelFile file(arguments.model, arguments.kernels);
  const std::vector<uint32_t> sizes = sizes_to_run(arguments, file.model());
  ThreadPool pool(arguments.threads);
  SessionOptions options;
  options.parallel = pool.parallel_for();

  Progress progress("timing " + arguments.model.string());
  MachineLimits limits = measure_limits(options.parallel);
  std::vector<Timing> timings;
  for (const uint32_t tokens : sizes) {
    options.positions_max = tokens;
    ModelSession session(file, options);
    const std::vector<float> features = noise(size_t{tokens} * file.model().input_features());
    Timing timing;
    timing.tokens = tokens;
    timing.median_ms = time_run(session, features, tokens);
    timing.gflops = model_flops(format::ModelReader(file.model().file()), {0, tokens, tokens}) /
                    timing.median_ms / 1e6;
    timings.push_back(timing);
    // The clock of a shared machine drifts: the peak is the best seen at any time of the run.
    limits.peak_gflops = std::max(limits.peak_gflops, measure_peak_gflops(options.parallel));
  }
  for (Timing& timing : timings) timing.share_of_peak = timing.gflops / limits.peak_gflops;
  options.positions_max = *std::max_element(sizes.begin(), sizes.end());
  const StartUp start_up = time_start_up(file, options);
  progress.done();
  (arguments.json ? print_json : print_text)(arguments, file, limits, start_up, timings);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Time a model, and this machine's limits in the same run");
  command->footer(
      "\nCounts two operations per multiply-add, and attention over visible pairs only. The peak\n"
      "is a loop of multiply-adds in registers; the bandwidth a loop over 256 MB.\n"
      "\nExample:\n"
      "  arenite bench attention.arn --tokens 6,128,512 --threads 2\n");
  command->add_option("model", arguments->model, "A model file")->required();
  command->add_option("--tokens", arguments->tokens, "Sizes to time")
      ->check(whole_number(1, kTokensMax))
      ->delimiter(',');
  add_machine_options(*command, arguments->kernels, arguments->threads);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run_bench(*arguments); });
}

}  // namespace arenite::tool
