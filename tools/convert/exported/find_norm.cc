// SPDX-License-Identifier: Apache-2.0
// Norms: the epsilon is among the numbers that the function is written with, gain and bias of each
// column are fitted.
#include <algorithm>
#include <cmath>

#include "convert/exported/probes.h"

namespace arenite::convert {
namespace {

constexpr size_t kFactorsMax = 8;  // of rows, that are tried
constexpr uint64_t kStepsPerSample = 4;

class NormFinder {
 public:
  explicit NormFinder(const Samples& samples) : samples_(samples) {}

  std::optional<NormSpec> find() const {
    const auto width = static_cast<double>(samples_.width);
    // Of sums instead of means, and of the deviation that is divided by one less.
    const double share = (width - 1.0) / width;
    std::set<double> inside = {0.0}, outside;
    for (const double number : samples_.numbers) {
      if (number <= 0.0 || number >= 1.0) continue;
      // Of rows that are multiplied by a factor before.
      std::set<double> factors = {1.0};
      for (const double factor : samples_.numbers) {
        if (factor != 0.0 && factors.size() < kFactorsMax) factors.insert(std::fabs(factor));
      }
      for (const double factor : factors) {
        const double square = factor * factor;
        inside.insert({number / square, number / square / width, number / square * share});
        outside.insert({number / factor, number / factor / std::sqrt(width),
                        number / factor * std::sqrt(share)});
      }
    }
    for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
      for (const double epsilon : inside) {
        if (auto spec = fitted(kind, epsilon)) return spec;
      }
    }
    for (const NormKind kind : {NormKind::kDeviation, NormKind::kRoot}) {
      for (const double epsilon : outside) {
        if (auto spec = fitted(kind, epsilon)) return spec;
      }
    }
    return std::nullopt;
  }

 private:
  // Each row, normalised without gain and bias.
  std::vector<double> normalised(NormKind kind, double epsilon) const {
    const std::vector<double>& x = samples_.x;
    WorkBudget::take(kStepsPerSample * x.size());
    std::vector<double> result(x.size());
    const auto width = static_cast<double>(samples_.width);
    for (size_t start = 0; start < x.size(); start += samples_.width) {
      double mean = 0.0;
      for (size_t i = 0; i < samples_.width && is_centred(kind); ++i) mean += x[start + i] / width;
      double variance = 0.0;
      for (size_t i = 0; i < samples_.width; ++i) {
        variance += (x[start + i] - mean) * (x[start + i] - mean) / width;
      }
      const double divisor = adds_epsilon_to_root(kind) ? std::sqrt(variance) + epsilon
                                                        : std::sqrt(variance + epsilon);
      for (size_t i = 0; i < samples_.width; ++i) {
        result[start + i] = (x[start + i] - mean) / divisor;
      }
    }
    return result;
  }

  // Gain and bias by least squares; nothing unless the result is that of the function.
  std::optional<NormSpec> fitted(NormKind kind, double epsilon) const {
    const std::vector<double> a = normalised(kind, epsilon);
    const std::vector<double>& y = samples_.y;
    const size_t width = samples_.width;
    const size_t rows = y.size() / width;
    NormSpec spec;
    spec.kind = kind;
    spec.epsilon = epsilon;
    for (size_t c = 0; c < width; ++c) {
      double mean_a = 0.0, mean_y = 0.0, products = 0.0, squares = 0.0;
      for (size_t r = 0; r < rows; ++r) {
        mean_a += a[r * width + c] / static_cast<double>(rows);
        mean_y += y[r * width + c] / static_cast<double>(rows);
      }
      for (size_t r = 0; r < rows; ++r) {
        const double offset = a[r * width + c] - mean_a;
        products += offset * (y[r * width + c] - mean_y);
        squares += offset * offset;
      }
      const double gain = squares > 0.0 ? products / squares : 0.0;
      const double bias = mean_y - gain * mean_a;
      for (size_t r = 0; r < rows; ++r) {
        const double error = std::fabs(gain * a[r * width + c] + bias - y[r * width + c]);
        if (!(error <= samples_.error_max(kAgreement))) return std::nullopt;
      }
      spec.gain.push_back(gain);
      spec.bias.push_back(bias);
    }
    const bool has_bias =
        std::ranges::any_of(spec.bias, [&](double bias) { return std::fabs(bias) > kAgreement; });
    if (!has_bias) spec.bias.clear();
    // Weights are float32, and least squares are a little off them.
    for (double& gain : spec.gain) gain = as_written(gain);
    for (double& bias : spec.bias) bias = as_written(bias);
    return spec;
  }

  const Samples& samples_;
};

}  // namespace

std::optional<NormSpec> find_norm(const Samples& samples) { return NormFinder(samples).find(); }

std::optional<NormalizeNode> find_softmax(const Samples& samples) {
  for (const NormKind kind : {NormKind::kSoftmax, NormKind::kLogSoftmax}) {
    bool agrees = true;
    for (size_t start = 0; start < samples.x.size() && agrees; start += samples.width) {
      const auto row = samples.x.begin() + static_cast<ptrdiff_t>(start);
      const double most = *std::max_element(row, row + static_cast<ptrdiff_t>(samples.width));
      double sum = 0.0;
      for (size_t i = 0; i < samples.width; ++i) sum += std::exp(samples.x[start + i] - most);
      for (size_t i = 0; i < samples.width && agrees; ++i) {
        const double x = samples.x[start + i] - most;
        const double wanted = kind == NormKind::kSoftmax ? std::exp(x) / sum : x - std::log(sum);
        agrees = std::fabs(wanted - samples.y[start + i]) <= samples.error_max(kAgreement);
      }
    }
    if (agrees) return NormalizeNode{kind};
  }
  return std::nullopt;
}

}  // namespace arenite::convert
