// SPDX-License-Identifier: Apache-2.0
// The error as a function of the scale has many local minima, so candidates are tried. For a row: a
// few scales around the plain one, the best of them then refitted by least squares. For a block:
// every eighth bfloat16 in range, then the neighbours of the best.
#include "convert/quantize/quantizers.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <type_traits>

#include "convert/files/thread_pool.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kRowsAtOnce = 64;  // of a task
constexpr size_t kLanes = 8;
constexpr size_t kChunk = 256;  // weights whose errors are added in single precision

// Columns that calibration never used still get a small weight.
constexpr double kImportanceMin = 1e-6;  // of the mean

// Candidates of largest weight / scale for a row.
constexpr float kRowLevels[] = {128.0f, 129.5f, 131.0f, 133.0f, 136.0f, 140.0f, 146.0f,
                                155.0f, 168.0f, 190.0f, 220.0f, 254.0f, 320.0f};
constexpr int kRefits = 3;

// Range of candidates of largest weight / scale for a block: all bfloat16 scales in between.
constexpr float kBlockLevelsMin = 6.0f;
constexpr float kBlockLevelsMax = 16.0f;
constexpr int kBlockStride = 8;

// Largest distance from an integer at which a weight counts as exact: a few float32 roundings, at
// 127.
constexpr float kExactTolerance = 4.0f * 127.0f * 0x1p-24f;

// Rounds to the nearest integer, ties to even, in a form that compilers vectorize. REQUIRES: |x| <
// 2^22.
inline float round_to_even(float x) {
  constexpr float kShift = 0x1.8p23f;
  return (x + kShift) - kShift;
}

inline float nearest_level(float x, const Levels& levels) {
  x = x > levels.least ? x : levels.least;  // NaN, too, becomes a level
  x = x < levels.most ? x : levels.most;
  return round_to_even(x);
}

size_t whole_lanes(size_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

float next_bfloat16(float value, int steps) {
  const uint32_t bits = std::bit_cast<uint32_t>(value) + (static_cast<uint32_t>(steps) << 16);
  return std::bit_cast<float>(bits);
}

}  // namespace

QuantizedMatrix QuantizedMatrix::part(uint32_t first, uint32_t count) const {
  const auto slice = [&](const auto& list) {
    const size_t width = list.size() / rows;
    const auto begin = list.begin() + static_cast<ptrdiff_t>(first * width);
    return std::remove_cvref_t<decltype(list)>(begin,
                                               begin + static_cast<ptrdiff_t>(count * width));
  };
  return {type, count, columns, slice(values), slice(scales)};
}

void QuantizedMatrix::append(const QuantizedMatrix& below) {
  rows += below.rows;
  values.insert(values.end(), below.values.begin(), below.values.end());
  scales.insert(scales.end(), below.scales.begin(), below.scales.end());
}

float to_bfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7FFF + (bits >> 16 & 1);
  return std::bit_cast<float>(bits & 0xFFFF0000);
}

int8_t quantize_weight(float weight, float scale, TensorType type) {
  return static_cast<int8_t>(nearest_level(weight * (1.0f / scale), levels_of(type)));
}

std::optional<size_t> first_non_finite(std::span<const float> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i])) return i;
  }
  return std::nullopt;
}

ScaleSearch::ScaleSearch(TensorType type, uint32_t weights_max)
    : has_blocks_(has_blocks(type)),
      levels_(levels_of(type)),
      weights_(whole_lanes(weights_max)),
      importance_(weights_.size()) {
  assert(type != TensorType::kF32);
}

// Scaling by a power of two changes no result, and keeps squares in range.
void ScaleSearch::load(std::span<const float> weights, std::span<const double> importance) {
  assert(weights.size() == importance.size() && weights.size() <= weights_.size());
  count_ = whole_lanes(weights.size());
  double total = 0.0;
  for (const double one : importance) total += one;
  const double mean = total / static_cast<double>(importance.size());
  largest_ = 0.0f;
  for (const float weight : weights) {
    if (std::fabs(weight) > std::fabs(largest_)) largest_ = weight;
  }
  largest_ = std::frexp(largest_, &exponent_);
  const double factor = std::ldexp(1.0, -exponent_);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights_[i] = static_cast<float>(weights[i] * factor);
    const double share = mean > 0.0 ? importance[i] / mean : 1.0;
    importance_[i] = static_cast<float>(std::max(share, kImportanceMin));
  }
  for (size_t i = weights.size(); i < count_; ++i) weights_[i] = importance_[i] = 0.0f;
}

double ScaleSearch::error_of(float scale) const {
  const float inverse = 1.0f / scale;
  double total = 0.0;
  for (size_t chunk = 0; chunk < count_; chunk += kChunk) {
    float sums[kLanes] = {};
    const size_t end = std::min(chunk + kChunk, count_);
    for (size_t i = chunk; i < end; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float weight = weights_[i + lane];
        const float difference = weight - scale * nearest_level(weight * inverse, levels_);
        sums[lane] += importance_[i + lane] * difference * difference;
      }
    }
    for (const float sum : sums) total += sum;
  }
  return total;
}

bool ScaleSearch::is_exact(float scale) const {
  const float inverse = 1.0f / scale;
  for (size_t i = 0; i < count_; ++i) {
    const float level = weights_[i] * inverse;
    const float nearest = nearest_level(level, levels_);
    const bool is_level = has_blocks_ ? scale * nearest == weights_[i]
                                      : std::fabs(level - nearest) <= kExactTolerance;
    if (!is_level) return false;
  }
  return true;
}

void ScaleSearch::try_scale(float scale) {
  const double error = error_of(scale);
  if (error >= best_error_) return;
  best_error_ = error;
  best_scale_ = scale;
}

// Finds a scale at which all weights are integers, as they are if they were quantized before. The
// first few weights nearly always rule it out.
bool ScaleSearch::find_exact_scale() {
  for (float level = 1.0f; level <= -levels_.least; level += 1.0f) {
    for (const float sign : {-1.0f, 1.0f}) {
      const float scale = sign * largest_ / level;
      best_scale_ = has_blocks_ ? to_bfloat16(scale) : scale;
      if ((has_blocks_ || scale > 0.0f) && is_exact(best_scale_)) return true;
    }
  }
  return false;
}

// The largest weight was rounded to float32, so its scale may be one of the neighbours.
void ScaleSearch::improve_exact_scale() {
  const float found = best_scale_;
  try_scale(found);
  try_scale(std::nextafter(found, 0.0f));
  try_scale(std::nextafter(found, 2.0f));
}

// Returns the least-squares scale for the integers of the best scale.
float ScaleSearch::refitted() const {
  const float inverse = 1.0f / best_scale_;
  double products = 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < count_; ++i) {
    const double level = nearest_level(weights_[i] * inverse, levels_);
    products += double{importance_[i]} * weights_[i] * level;
    squares += double{importance_[i]} * level * level;
  }
  return squares > 0.0 && products > 0.0 ? static_cast<float>(products / squares) : best_scale_;
}

void ScaleSearch::search_row() {
  const float magnitude = std::fabs(largest_);
  try_scale(magnitude / levels_.most);
  for (const float level : kRowLevels) try_scale(magnitude / level);
  for (int i = 0; i < kRefits; ++i) try_scale(refitted());
}

void ScaleSearch::search_block() {
  try_scale(to_bfloat16(largest_ / levels_.least));
  try_scale(to_bfloat16(largest_ / levels_.most));
  for (const float sign : {-1.0f, 1.0f}) {
    const float end = to_bfloat16(sign * largest_ / kBlockLevelsMin);
    float scale = to_bfloat16(sign * largest_ / kBlockLevelsMax);
    for (; std::fabs(scale) <= std::fabs(end); scale = next_bfloat16(scale, kBlockStride)) {
      try_scale(scale);
    }
  }
  for (int steps = kBlockStride / 2; steps >= 1; steps /= 2) {
    const float best = best_scale_;
    try_scale(next_bfloat16(best, steps));
    try_scale(next_bfloat16(best, -steps));
  }
}

float ScaleSearch::in_range(double scale) {
  const double magnitude = std::fabs(scale);
  if (magnitude < kScaleMin) {
    ++report_.zeroed;
    return 1.0f;  // all weights are nearest to zero
  }
  if (magnitude <= kScaleMax) return static_cast<float>(scale);
  ++report_.clamped;
  return std::copysign(kScaleMax, static_cast<float>(best_scale_));
}

float ScaleSearch::scale_of(std::span<const float> weights, std::span<const double> importance) {
  load(weights, importance);
  if (largest_ == 0.0f) return 1.0f;
  best_error_ = std::numeric_limits<double>::infinity();
  if (find_exact_scale()) {
    if (!has_blocks_) improve_exact_scale();
  } else if (has_blocks_) {
    search_block();
  } else {
    search_row();
  }
  return in_range(std::ldexp(double{best_scale_}, exponent_));
}

QuantizedMatrix quantize(std::span<const float> weights, uint32_t rows, uint32_t columns,
                         TensorType type, std::span<const double> column_weights,
                         ScaleReport* report) {
  assert(weights.size() == size_t{rows} * columns && fits(type, columns));
  assert(column_weights.empty() || column_weights.size() == columns);
  const uint32_t group = weights_per_scale(type, columns);
  std::vector<double> importance(column_weights.begin(), column_weights.end());
  importance.resize(columns, 1.0);
  QuantizedMatrix matrix{type, rows, columns};
  matrix.values.resize(weights.size());
  matrix.scales.resize(weights.size() / group);
  std::vector<ScaleReport> reports((rows + kRowsAtOnce - 1) / kRowsAtOnce);
  on_all_cores(static_cast<uint32_t>(reports.size()), [&](uint32_t index) {
    const size_t first = size_t{index} * kRowsAtOnce * columns;
    const size_t end = std::min(first + size_t{kRowsAtOnce} * columns, weights.size());
    ScaleSearch search(type, group);
    for (size_t begin = first; begin < end; begin += group) {
      const auto part = weights.subspan(begin, group);
      const float scale =
          search.scale_of(part, std::span(importance).subspan(begin % columns, group));
      for (size_t i = 0; i < group; ++i) {
        matrix.values[begin + i] = quantize_weight(part[i], scale, type);
      }
      matrix.scales[begin / group] = scale;
    }
    reports[index] = search.report();
  });
  if (report == nullptr) return matrix;
  *report = {};
  for (const ScaleReport& part : reports) {
    report->zeroed += part.zeroed;
    report->clamped += part.clamped;
  }
  return matrix;
}

namespace {

uint32_t tasks_of(const QuantizedMatrix& matrix) {
  return (matrix.rows + kRowsAtOnce - 1) / kRowsAtOnce;
}

// Returns the first element of a task.
size_t first_of(const QuantizedMatrix& matrix, uint32_t task) {
  return std::min(size_t{task} * kRowsAtOnce, size_t{matrix.rows}) * matrix.columns;
}

}  // namespace

std::vector<float> dequantize(const QuantizedMatrix& matrix) {
  const uint32_t group = weights_per_scale(matrix.type, matrix.columns);
  std::vector<float> weights(matrix.values.size());
  on_all_cores(tasks_of(matrix), [&](uint32_t task) {
    for (size_t begin = first_of(matrix, task); begin < first_of(matrix, task + 1);
         begin += group) {
      const float scale = matrix.scales[begin / group];
      for (size_t i = begin; i < begin + group; ++i) {
        weights[i] = static_cast<float>(matrix.values[i]) * scale;
      }
    }
  });
  return weights;
}

double RoundingNoise::decibels() const {
  if (noise == 0.0) return std::numeric_limits<double>::infinity();
  return 10.0 * std::log10(signal / noise);
}

RoundingNoise noise_of(std::span<const float> weights, const QuantizedMatrix& matrix,
                       std::span<const double> column_weights) {
  assert(weights.size() == matrix.values.size());
  const uint32_t group = weights_per_scale(matrix.type, matrix.columns);
  std::vector<RoundingNoise> parts(tasks_of(matrix));
  on_all_cores(tasks_of(matrix), [&](uint32_t task) {
    RoundingNoise part;
    for (size_t i = first_of(matrix, task); i < first_of(matrix, task + 1); ++i) {
      const double weight = weights[i];
      const double lost = weight - static_cast<float>(matrix.values[i]) * matrix.scales[i / group];
      const double counts = column_weights.empty() ? 1.0 : column_weights[i % matrix.columns];
      part.signal += counts * weight * weight;
      part.noise += counts * lost * lost;
    }
    parts[task] = part;
  });
  RoundingNoise total;
  for (const RoundingNoise& part : parts) {
    total.signal += part.signal;
    total.noise += part.noise;
  }
  return total;
}

// ---- activations ----

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

void round_cached_row(std::span<double> row) {
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

std::vector<double> as_cached(TensorType kv_cache, std::vector<double> rows, size_t width) {
  if (kv_cache != TensorType::kInt8 || width == 0) return rows;
  for (size_t begin = 0; begin < rows.size(); begin += width) {
    round_cached_row(std::span(rows).subspan(begin, width));
  }
  return rows;
}

void round_activations(std::span<double> rows, size_t width) {
  for (size_t begin = 0; begin < rows.size(); begin += width) round_row(rows.subspan(begin, width));
}

}  // namespace arenite::convert
