// SPDX-License-Identifier: Apache-2.0
// Medians, because the clock of a shared machine drifts and its neighbours wake up.
#include "cli/bench_support.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "core/crc32c.h"

namespace arenite::tool {
namespace {

constexpr size_t kStartsMin = 5;
constexpr double kSecondsPerStart = 0.3;

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_sample_ms(size_t samples_min, double seconds, const std::function<double()>& sample) {
  std::vector<double> samples;
  double total_ms = 0.0;
  while (total_ms < seconds * 1e3 || samples.size() < samples_min) {
    samples.push_back(sample());
    total_ms += samples.back();
  }
  return median(std::move(samples));
}

StartUp time_start_up(const ModelFile& file, const SessionOptions& options) {
  const ModelSession session(file, options);
  convert::AlignedBytes arena(session.plan().total_bytes);
  const auto time = [](const auto& work) {
    return median_sample_ms(kStartsMin, kSecondsPerStart, [&] { return milliseconds(work); });
  };
  StartUp start_up;
  start_up.load_ms = time([&] { (void)Model::load(file.model().file()); });
  start_up.crc_ms = time([&] {
    volatile uint32_t sink = crc32c(file.model().file());
    (void)sink;
  });
  start_up.create_ms = time([&] { (void)Session::create(file.model(), options, arena.span()); });
  return start_up;
}

std::string bytes_text(size_t bytes) {
  return bytes < 1'000'000 ? fmt::format("{} bytes", bytes)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string time_text(double ms) {
  const double value = ms < 1.0 ? ms * 1e3 : ms;
  const int decimals = value < 10.0 ? 2 : value < 100.0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, ms < 1.0 ? "us" : "ms");
}

void print_header(const BenchOptions& options, const ModelFile& file) {
  fmt::print("model      {}, {}\n", options.model.string(), bytes_text(file.file_bytes()));
  fmt::print("kernel set {}, {} thread{}\n", kernel_set_name(file.model().target()),
             options.threads, options.threads == 1 ? "" : "s");
}

void print_start_up(const StartUp& start_up) {
  fmt::print("start      load {} (checksums {}), create {}\n\n", time_text(start_up.load_ms),
             time_text(start_up.crc_ms), time_text(start_up.create_ms));
}

nlohmann::ordered_json header_as_json(const BenchOptions& options, const ModelFile& file,
                                      const MachineLimits& limits, const StartUp& start_up) {
  nlohmann::ordered_json json;
  json["model"] = options.model.string();
  json["file_bytes"] = file.file_bytes();
  json["kernel_set"] = kernel_set_name(file.model().target());
  json["threads"] = options.threads;
  json["peak_gflops"] = limits.peak_gflops;
  json["read_gbytes_per_s"] = limits.read_gbytes_per_s;
  json["load_ms"] = start_up.load_ms;
  json["crc_ms"] = start_up.crc_ms;
  json["create_ms"] = start_up.create_ms;
  return json;
}

}  // namespace arenite::tool
