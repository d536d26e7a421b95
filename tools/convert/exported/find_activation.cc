// SPDX-License-Identifier: Apache-2.0
// Activations with factors: lines and plateaus are read off the results, other factors are among
// the numbers that the function is written with, and what multiplies the result is fitted.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "convert/exported/probes.h"
#include "convert/graph/activation_functions.h"

namespace arenite::convert {
namespace {

// Constants of a formula are often written with a few digits, or were rounded to float32.
constexpr double kWrittenAgreement = 2e-7;
constexpr size_t kFittedMax = 96;   // samples that candidates are fitted to
constexpr size_t kNumbersMax = 16;  // numbers of a formula that are tried as factors

constexpr Activation kWithoutParameter[] = {
    Activation::kRelu,     Activation::kGeluErf, Activation::kGeluTanh,
    Activation::kSilu,     Activation::kTanh,    Activation::kSigmoid,
    Activation::kSoftplus, Activation::kMish,    Activation::kHardSwish};

double value_of(const FoundActivation& found, double x) {
  const double inner = found.scale_in * x + found.offset_in;
  return found.scale_out *
             activate(found.activation.activation, found.activation.parameter, inner) +
         found.linear * x + found.offset_out;
}

class ActivationFinder {
 public:
  explicit ActivationFinder(const Samples& samples) : samples_(samples) {
    for (const double number : samples.numbers) {
      if (number == 0.0 || !std::isfinite(number) || factors_.size() >= 4 * kNumbersMax) continue;
      for (const double factor : {number, 1.0 / number}) {
        factors_.push_back(factor);
        factors_.push_back(-factor);
      }
    }
    factors_.insert(factors_.end(), {1.0, -1.0});
    const size_t step = std::max<size_t>(1, samples.x.size() / kFittedMax);
    for (size_t i = 0; i < samples.x.size(); i += step) fitted_.push_back(i);
  }

  std::optional<FoundActivation> find() const {
    for (const double agreement : {kAgreement, kWrittenAgreement}) {
      for (const Activation function : kWithoutParameter) {
        const FoundActivation found = {{function}};
        if (agrees(found, agreement)) return found;
      }
    }
    for (const double factor : factors_) {
      const FoundActivation cap = {{Activation::kSoftCap, factor}};
      if (factor > 0.0 && agrees(cap, kAgreement)) return cap;
    }
    for (const double factor : factors_) {
      const FoundActivation gate = {{Activation::kSilu}, factor, 0.0, 1.0 / factor};
      if (agrees(gate, kAgreement)) return gate;
    }
    if (auto found = find_lines()) return found;
    if (auto found = find_clamp()) return found;
    if (auto found = find_elu()) return found;
    return find_sum();
  }

 private:
  bool agrees(const FoundActivation& found, double agreement) const {
    const double error_max = samples_.error_max(agreement);
    const auto fits = [&](size_t i) {
      return std::fabs(value_of(found, samples_.x[i]) - samples_.y[i]) <= error_max;
    };
    if (!std::ranges::all_of(fitted_, fits)) return false;
    for (size_t i = 0; i < samples_.x.size(); ++i) {
      if (!fits(i)) return false;
    }
    return true;
  }

  std::optional<FoundActivation> checked(const FoundActivation& found) const {
    if (agrees(found, kAgreement)) return found;
    return std::nullopt;
  }

  // The slope of results of one sign of x, which the sample farthest from 0 shows best.
  double slope(double sign) const {
    size_t best = 0;
    for (size_t i = 0; i < samples_.x.size(); ++i) {
      if (sign * samples_.x[i] > sign * samples_.x[best]) best = i;
    }
    return as_written(samples_.y[best] / samples_.x[best]);
  }

  // Two lines that meet at 0.
  std::optional<FoundActivation> find_lines() const {
    const double right = slope(1.0), left = slope(-1.0);
    if (right == left) return std::nullopt;
    if (left == 0.0) return checked({{Activation::kRelu}, 1.0, 0.0, right});
    if (right == 0.0) return checked({{Activation::kRelu}, -1.0, 0.0, -left});
    return checked({{Activation::kLeakyRelu, as_written(left / right)}, 1.0, 0.0, right});
  }

  // A line between two plateaus.
  std::optional<FoundActivation> find_clamp() const {
    const auto [least, most] = std::ranges::minmax(samples_.y);
    const double middle = as_written((least + most) / 2.0);
    const double half = (most - least) / 2.0;
    // The two samples of the line that are the farthest from each other.
    std::optional<size_t> first, last;
    for (size_t i = 0; i < samples_.y.size(); ++i) {
      if (samples_.y[i] == least || samples_.y[i] == most) continue;
      if (!first || samples_.x[i] < samples_.x[*first]) first = i;
      if (!last || samples_.x[i] > samples_.x[*last]) last = i;
    }
    if (!first || !(samples_.x[*last] > samples_.x[*first])) return std::nullopt;
    const double rise = as_written((samples_.y[*last] - samples_.y[*first]) /
                                   (samples_.x[*last] - samples_.x[*first]));
    if (rise == 0.0) return std::nullopt;
    const double centre = as_written(samples_.x[*first] - (samples_.y[*first] - middle) / rise);
    const double reach = as_written(half / std::fabs(rise));
    return checked({{Activation::kClamp, reach}, 1.0, -centre, rise, 0.0, middle});
  }

  // A line for positive numbers, and a multiple of exp(factor x) - 1 for others.
  std::optional<FoundActivation> find_elu() const {
    const double right = slope(1.0);
    if (right == 0.0) return std::nullopt;
    for (const double factor : factors_) {
      if (factor <= 0.0) continue;
      double products = 0.0, squares = 0.0;
      for (const size_t i : fitted_) {
        if (samples_.x[i] >= 0.0) continue;
        const double value = std::expm1(factor * samples_.x[i]);
        products += value * samples_.y[i];
        squares += value * value;
      }
      if (squares == 0.0) continue;
      const double outer = right / factor;
      const double parameter = as_written(products / squares / outer);
      if (auto found = checked({{Activation::kElu, parameter}, factor, 0.0, outer})) return found;
    }
    return std::nullopt;
  }

  // a f(factor x) + b x + c.
  std::optional<FoundActivation> find_sum() const {
    for (const Activation function : kWithoutParameter) {
      for (const double factor : factors_) {
        FoundActivation found = {{function}, factor};
        if (!fit(found)) continue;
        if (agrees(found, kAgreement)) return found;
      }
    }
    return std::nullopt;
  }

  // Least squares of three terms.
  bool fit(FoundActivation& found) const {
    double equations[3][4] = {};
    for (const size_t i : fitted_) {
      const double x = samples_.x[i];
      const std::array<double, 3> terms = {
          activate(found.activation.activation, 0.0, found.scale_in * x), x, 1.0};
      for (size_t r = 0; r < 3; ++r) {
        for (size_t c = 0; c < 3; ++c) equations[r][c] += terms[r] * terms[c];
        equations[r][3] += terms[r] * samples_.y[i];
      }
    }
    for (size_t p = 0; p < 3; ++p) {
      size_t pivot = p;
      for (size_t r = p + 1; r < 3; ++r) {
        if (std::fabs(equations[r][p]) > std::fabs(equations[pivot][p])) pivot = r;
      }
      std::swap(equations[p], equations[pivot]);
      if (std::fabs(equations[p][p]) < 1e-9) return false;
      for (size_t r = 0; r < 3; ++r) {
        if (r == p) continue;
        const double ratio = equations[r][p] / equations[p][p];
        for (size_t c = p; c < 4; ++c) equations[r][c] -= ratio * equations[p][c];
      }
    }
    const auto solution = [&](size_t r) {
      const double value = equations[r][3] / equations[r][r];
      return std::fabs(value) < kAgreement ? 0.0 : as_written(value);
    };
    found.scale_out = solution(0);
    found.linear = solution(1);
    found.offset_out = solution(2);
    return found.scale_out != 0.0;
  }

  const Samples& samples_;
  std::vector<double> factors_;
  std::vector<size_t> fitted_;  // samples
};

}  // namespace

double Samples::error_max(double agreement) const { return agreement * std::max(1.0, largest); }

double as_written(double value) {
  const double rounded = static_cast<float>(value);
  return std::fabs(rounded - value) <= 1e-11 * std::max(1.0, std::fabs(value)) ? rounded : value;
}

std::optional<FoundActivation> find_activation(const Samples& samples) {
  return ActivationFinder(samples).find();
}

}  // namespace arenite::convert
