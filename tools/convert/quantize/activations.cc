// SPDX-License-Identifier: Apache-2.0
#include "convert/quantize/activations.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace arenite::convert {
namespace {

void round_row(std::span<double> row) {
  double least = 0.0;
  double most = 0.0;
  for (const double number : row) {
    if (!std::isfinite(number)) {
      std::ranges::fill(row, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    least = std::min(least, number);
    most = std::max(most, number);
  }
  constexpr double kSmallestRange = 1e-35;
  if (most - least < kSmallestRange) {
    std::ranges::fill(row, 0.0);
    return;
  }
  constexpr double kLeast = -128.0;
  constexpr double kMost = 127.0;
  const double scale = (most - least) / (kMost - kLeast);
  const bool from_least = (kLeast + least / scale) + (kMost + most / scale) > 0.0;
  const double zero = from_least ? kLeast - least / scale : kMost - most / scale;
  const double zero_point = std::nearbyint(std::clamp(zero, kLeast, kMost));
  for (double& number : row) {
    const double rounded = std::nearbyint(number / scale) + zero_point;
    number = (std::clamp(rounded, kLeast, kMost) - zero_point) * scale;
  }
}

void round_kept_row(std::span<double> row) {
  double most = 0.0;
  for (const double number : row) {
    if (!std::isfinite(number)) {
      std::ranges::fill(row, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    most = std::max(most, std::fabs(number));
  }
  constexpr double kSmallest = 1e-35;
  const double scale = most / 127.0;
  for (double& number : row) {
    number = most < kSmallest ? 0.0 : std::nearbyint(number / scale) * scale;
  }
}

}  // namespace

std::vector<double> as_kept(TensorType kv_cache, std::vector<double> rows, size_t width) {
  if (kv_cache != TensorType::kInt8 || width == 0) return rows;
  for (size_t begin = 0; begin < rows.size(); begin += width) {
    round_kept_row(std::span(rows).subspan(begin, width));
  }
  return rows;
}

void round_activations(std::span<double> rows, size_t width) {
  for (size_t begin = 0; begin < rows.size(); begin += width) round_row(rows.subspan(begin, width));
}

}  // namespace arenite::convert
