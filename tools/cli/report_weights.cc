// SPDX-License-Identifier: Apache-2.0
// Large tensors are sampled: a page with pictures of all weights must not take a minute.
#include "cli/report_weights.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace arenite::tool {
namespace {

// Weights further out than so many standard deviations would squeeze all others into few bins.
constexpr double kDeviationsShown = 5.0;

// Rows that are read: all of them where they are few enough.
uint32_t rows_to_sample(const WeightView& view) {
  const uint64_t enough = (kSampledNumbers + view.columns - 1) / view.columns;
  return static_cast<uint32_t>(
      std::min<uint64_t>(view.rows, std::max<uint64_t>(enough, kSampledRows)));
}

std::vector<float> sample(const WeightView& view) {
  const uint32_t rows = rows_to_sample(view);
  std::vector<float> numbers(size_t{rows} * view.columns);
  for (uint32_t i = 0; i < rows; ++i) {
    const auto row = static_cast<uint32_t>(uint64_t{i} * view.rows / rows);
    const auto weights = std::span(numbers).subspan(size_t{i} * view.columns, view.columns);
    read_row(view, row, weights.data());
  }
  return numbers;
}

// REQUIRES: numbers are finite, and there is one.
void measure(std::span<const float> numbers, Distribution& distribution) {
  const double count = static_cast<double>(numbers.size());
  double sum = 0.0;
  for (const float number : numbers) sum += number;
  distribution.mean = sum / count;
  double squares = 0.0;
  for (const float number : numbers) {
    squares += (number - distribution.mean) * (number - distribution.mean);
  }
  distribution.deviation = std::sqrt(squares / count);
  const auto [least, most] = std::ranges::minmax_element(numbers);
  distribution.least = *least;
  distribution.most = *most;
  const double largest = std::max(std::abs(distribution.least), std::abs(distribution.most));
  distribution.limit =
      std::min(largest, std::abs(distribution.mean) + kDeviationsShown * distribution.deviation);
  if (distribution.limit <= 0.0) distribution.limit = 1.0;  // nothing but zeros
}

void count(std::span<const float> numbers, Distribution& distribution) {
  distribution.counts.assign(kDistributionBins, 0);
  const double width = 2.0 * distribution.limit / kDistributionBins;
  for (const float number : numbers) {
    if (std::abs(number) > distribution.limit) {
      ++distribution.beyond;
      continue;
    }
    const auto bin = static_cast<size_t>((number + distribution.limit) / width);
    ++distribution.counts[std::min<size_t>(bin, kDistributionBins - 1)];
  }
}

}  // namespace

bool has_bias(const WeightView& view) {
  if (!view.is_packed()) return false;
  for (uint32_t row = 0; row < view.rows; ++row) {
    const std::byte* const panel =
        view.data + row / view.packing.nr * panel_bytes(view.packing, view.columns);
    float bias = 0.0f;
    std::memcpy(&bias, panel + panel_bias(view.packing, view.columns, row % view.packing.nr),
                sizeof(bias));
    if (bias != 0.0f) return true;
  }
  return false;
}

Distribution distribution_of(const WeightView& view) {
  std::vector<float> numbers = sample(view);
  Distribution distribution;
  distribution.numbers = uint64_t{view.rows} * view.columns;
  distribution.sampled = numbers.size();
  distribution.not_finite =
      std::erase_if(numbers, [](float number) { return !std::isfinite(number); });
  if (numbers.empty()) return distribution;
  measure(numbers, distribution);
  count(numbers, distribution);
  return distribution;
}

}  // namespace arenite::tool
