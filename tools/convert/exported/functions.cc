// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/functions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <utility>

namespace arenite::convert {
namespace {

// Functions are the same where they agree to this share of the largest result.
constexpr double kAgreement = 1e-9;
// Constants of a formula are often written with a few digits, or were rounded to float32.
constexpr double kWrittenAgreement = 2e-7;
constexpr size_t kProbedRowsMin = 12;  // gain and bias of a column fit any two rows
constexpr size_t kProbedMax = size_t{1} << 22;

using Real = double (*)(double x, double parameter);

struct Known {
  Activation activation;
  Real function;
};

constexpr Known kActivations[] = {
    {Activation::kRelu, [](double x, double) { return std::max(x, 0.0); }},
    {Activation::kGeluErf,
     [](double x, double) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); }},
    {Activation::kGeluTanh,
     [](double x, double) {
       const double cubic = x + 0.044715 * x * x * x;
       return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * cubic));
     }},
    {Activation::kSilu, [](double x, double) { return x / (1.0 + std::exp(-x)); }},
    {Activation::kTanh, [](double x, double) { return std::tanh(x); }},
    {Activation::kSigmoid, [](double x, double) { return 1.0 / (1.0 + std::exp(-x)); }},
};

// The numbers that an expression is written with.
void collect_numbers(const Argument& argument, std::set<double>& numbers) {
  if (const double* real = argument.as<double>()) numbers.insert(*real);
  if (const int64_t* whole = argument.as<int64_t>()) numbers.insert(static_cast<double>(*whole));
  if (const Array* array = argument.as<Array>(); array && array->has_values()) {
    if (array->elements() == 1) numbers.insert(array->to_reals()[0]);
  }
  if (const auto* list = argument.as<Argument::List>()) {
    for (const Argument& item : *list) collect_numbers(item, numbers);
  }
}

void collect_numbers(const Expression& expression, std::set<const Expression*>& seen,
                     std::set<double>& numbers) {
  if (!seen.insert(&expression).second) return;
  for (const NamedArgument& argument : expression.call.arguments) {
    collect_numbers(argument.value, numbers);
  }
  for (const ExpressionRef& input : expression.inputs) collect_numbers(*input, seen, numbers);
}

// Close to a normal distribution, the same on every machine: a sum of uniforms.
double normal(std::mt19937_64& random) {
  double sum = -2.0;
  uint64_t bits = random();
  for (int i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<double>(bits & 0xffff) * 0x1p-16;
  return sum * std::numbers::sqrt3;
}

class Probe {
 public:
  Probe(const Expression& expression, const Shape& shape, OpBudget& budget)
      : width_(static_cast<size_t>(shape.back())) {
    std::set<const Expression*> seen;
    collect_numbers(expression, seen, numbers_);
    std::mt19937_64 random(7);
    const size_t rows = std::max<size_t>(1, elements_of(shape) / width_);
    for (size_t i = 0; i < std::max<size_t>(2, kProbedRowsMin / rows); ++i) {
      Array::Reals x(elements_of(shape));
      for (double& each : x) each = i % 2 == 0 ? 1.7 * normal(random) : 0.4 + 0.6 * normal(random);
      budget.live_elements = OpBudget{}.live_elements;  // what earlier probes made is gone
      Array y = evaluate(expression, Array::real(shape, x), budget);
      x_.insert(x_.end(), x.begin(), x.end());
      const Array::Reals values = y.to_reals();
      y_.insert(y_.end(), values.begin(), values.end());
    }
    for (const double y : y_) largest_ = std::max(largest_, std::fabs(y));
  }

  std::optional<FoundFunction> find() {
    if (!std::isfinite(largest_) || largest_ == 0.0) return std::nullopt;
    if (auto found = find_activation()) return found;
    return find_norm();
  }

 private:
  bool agrees(const std::function<double(double)>& function, double agreement) const {
    for (size_t i = 0; i < x_.size(); ++i) {
      if (!(std::fabs(function(x_[i]) - y_[i]) <= agreement * std::max(1.0, largest_))) {
        return false;
      }
    }
    return true;
  }

  std::optional<FoundFunction> find_activation() const {
    for (const double agreement : {kAgreement, kWrittenAgreement}) {
      for (const Known& known : kActivations) {
        if (agrees([&](double x) { return known.function(x, 0.0); }, agreement)) {
          return FoundActivation{{known.activation}};
        }
      }
    }
    // c tanh(x / c), and x sigmoid(c x) = silu(c x) / c.
    for (const double number : numbers_) {
      if (number <= 0.0 || number == 1.0) continue;
      for (const double c : {number, 1.0 / number}) {
        if (agrees([&](double x) { return c * std::tanh(x / c); }, kAgreement)) {
          return FoundActivation{{Activation::kSoftCap, c}};
        }
        if (agrees([&](double x) { return x / (1.0 + std::exp(-c * x)); }, kAgreement)) {
          return FoundActivation{{Activation::kSilu}, c, 1.0 / c};
        }
      }
    }
    return std::nullopt;
  }

  // (x - mean) / sqrt(variance + epsilon), or without the mean, row by row.
  std::vector<double> normalised(bool is_layer, double epsilon) const {
    std::vector<double> result(x_.size());
    const auto width = static_cast<double>(width_);
    for (size_t start = 0; start < x_.size(); start += width_) {
      double mean = 0.0;
      for (size_t i = 0; i < width_ && is_layer; ++i) mean += x_[start + i] / width;
      double variance = 0.0;
      for (size_t i = 0; i < width_; ++i) {
        variance += (x_[start + i] - mean) * (x_[start + i] - mean) / width;
      }
      const double factor = 1.0 / std::sqrt(variance + epsilon);
      for (size_t i = 0; i < width_; ++i) result[start + i] = (x_[start + i] - mean) * factor;
    }
    return result;
  }

  // Gain and bias by least squares; nothing unless the result is that of the function.
  std::optional<NormSpec> fitted(bool is_layer, double epsilon) const {
    const std::vector<double> a = normalised(is_layer, epsilon);
    const size_t rows = x_.size() / width_;
    NormSpec spec;
    spec.kind = is_layer ? NormKind::kLayer : NormKind::kRms;
    spec.epsilon = epsilon;
    for (size_t c = 0; c < width_; ++c) {
      double mean_a = 0.0, mean_y = 0.0, products = 0.0, squares = 0.0;
      for (size_t r = 0; r < rows; ++r) {
        mean_a += a[r * width_ + c] / static_cast<double>(rows);
        mean_y += y_[r * width_ + c] / static_cast<double>(rows);
      }
      for (size_t r = 0; r < rows; ++r) {
        const double offset = a[r * width_ + c] - mean_a;
        products += offset * (y_[r * width_ + c] - mean_y);
        squares += offset * offset;
      }
      const double gain = squares > 0.0 ? products / squares : 0.0;
      const double bias = mean_y - gain * mean_a;
      for (size_t r = 0; r < rows; ++r) {
        const double error = std::fabs(gain * a[r * width_ + c] + bias - y_[r * width_ + c]);
        if (!(error <= kAgreement * std::max(1.0, largest_))) return std::nullopt;
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

  static double as_written(double value) {
    const double rounded = static_cast<float>(value);
    return std::fabs(rounded - value) <= 1e-11 * std::max(1.0, std::fabs(value)) ? rounded : value;
  }

  std::optional<FoundFunction> find_norm() const {
    if (width_ < 2 || y_.size() != x_.size()) return std::nullopt;
    std::set<double> epsilons = {0.0};
    for (const double number : numbers_) {
      if (number > 0.0 && number < 1.0)
        epsilons.insert({number, number / static_cast<double>(width_)});
    }
    for (const bool is_layer : {true, false}) {
      for (const double epsilon : epsilons) {
        if (auto spec = fitted(is_layer, epsilon)) return *spec;
      }
    }
    return std::nullopt;
  }

  size_t width_;
  std::set<double> numbers_;
  std::vector<double> x_, y_;  // of all probes, one after the other
  double largest_ = 0.0;
};

}  // namespace

Array evaluate(const Expression& expression, const Array& base, OpBudget& budget) {
  std::map<const Expression*, Array> known;
  const std::function<Array(const Expression&)> compute = [&](const Expression& part) -> Array {
    if (part.is_base()) return base;
    if (const auto found = known.find(&part); found != known.end()) return found->second;
    std::vector<Array> inputs;
    for (const ExpressionRef& input : part.inputs) inputs.push_back(compute(*input));
    const OpCall call =
        bind(part.call, [&](uint32_t index) -> Argument { return inputs.at(index); });
    const std::vector<Argument> results = apply_op(call, budget);
    return known[&part] = *results.at(0).as<Array>();
  };
  return compute(expression);
}

std::optional<FoundFunction> find_function(const Expression& expression, const Shape& base,
                                           OpBudget& budget) {
  if (expression.shape != base || base.empty() || elements_of(base) > kProbedMax) {
    return std::nullopt;
  }
  return Probe(expression, base, budget).find();
}

}  // namespace arenite::convert
