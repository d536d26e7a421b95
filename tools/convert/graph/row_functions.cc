// SPDX-License-Identifier: Apache-2.0
#include "convert/graph/row_functions.h"

#include <algorithm>
#include <cmath>

namespace arenite::convert {

void softmax(bool is_log, std::span<double> row) {
  const double most = *std::ranges::max_element(row);
  double sum = 0.0;
  for (const double x : row) sum += std::exp(x - most);
  for (double& x : row) x = is_log ? x - most - std::log(sum) : std::exp(x - most) / sum;
}

void normalise(const NormNode& node, double* row) {
  const NormSpec& spec = node.norm;
  const size_t width = spec.gain.size();
  double mean = 0.0;
  if (is_centred(spec.kind)) {
    for (size_t i = 0; i < width; ++i) mean += row[i] / static_cast<double>(width);
  }
  double variance = 0.0;
  for (size_t i = 0; i < width; ++i) {
    variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(width);
  }
  const double scale = adds_epsilon_to_root(spec.kind) ? 1.0 / (std::sqrt(variance) + spec.epsilon)
                                                       : 1.0 / std::sqrt(variance + spec.epsilon);
  for (size_t i = 0; i < width; ++i) {
    const double gain = spec.gain_plus_one ? 1.0 + spec.gain[i] : spec.gain[i];
    const double bias = spec.bias.empty() ? 0.0 : spec.bias[i];
    row[i] = node.scale * ((row[i] - mean) * scale * gain + bias);
  }
}

void rotate_head(const RopeSpec& rope, size_t position, double* head) {
  const size_t half = rope.rotary_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * rope.inverse_frequencies[i];
    double& first = rope.turns_neighbours ? head[2 * i] : head[i];
    double& second = rope.turns_neighbours ? head[2 * i + 1] : head[i + half];
    const double x = rope.magnitude * first;
    const double y = rope.magnitude * second;
    first = x * std::cos(angle) - y * std::sin(angle);
    second = y * std::cos(angle) + x * std::sin(angle);
  }
}

double pooled(SelectKind kind, const Rows& x, size_t width, size_t column) {
  const size_t rows = x.size() / width;
  double sum = 0.0, weighted = 0.0, weights = 0.0, largest = x[column];
  for (size_t t = 0; t < rows; ++t) {
    const double value = x[t * width + column];
    const double weight = static_cast<double>(t + 1);
    sum += value;
    weighted += weight * value;
    weights += weight;
    largest = std::max(largest, value);
  }
  switch (kind) {
    case SelectKind::kFirst:
      return x[column];
    case SelectKind::kMean:
      return sum / static_cast<double>(rows);
    case SelectKind::kMax:
      return largest;
    case SelectKind::kMeanSqrtLength:
      return sum / std::sqrt(static_cast<double>(rows));
    case SelectKind::kWeightedMean:
      return weighted / weights;
    case SelectKind::kLast:
    case SelectKind::kAsAsked:
      return x[(rows - 1) * width + column];
  }
  return 0.0;
}

Rows patches_of(const ImagePatches& cut, std::span<const float> image) {
  Rows rows;
  for (size_t top = 0; top + cut.patch_height <= cut.height; top += cut.patch_height) {
    for (size_t left = 0; left + cut.patch_width <= cut.width; left += cut.patch_width) {
      for (size_t c = 0; c < cut.channels; ++c) {
        for (size_t y = top; y < top + cut.patch_height; ++y) {
          for (size_t x = left; x < left + cut.patch_width; ++x) {
            rows.push_back(image[(c * cut.height + y) * cut.width + x]);
          }
        }
      }
    }
  }
  return rows;
}

}  // namespace arenite::convert
