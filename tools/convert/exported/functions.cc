// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/functions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "convert/exported/probes.h"

namespace arenite::convert {
namespace {

constexpr size_t kProbedRowsMin = 12;     // gain and bias of a column fit any two rows
constexpr size_t kLinearWidthMax = 1024;  // a matrix of more columns takes long to find
constexpr size_t kProbedMax = size_t{1} << 22;

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

// Results for rows of numbers around 0, around 0.4, and of large ones, which reach the ends of
// functions that are constant far from 0.
Samples samples_of(const Expression& expression, const Shape& shape, OpBudget& budget) {
  Samples samples;
  samples.width = static_cast<size_t>(shape.back());
  std::set<const Expression*> seen;
  collect_numbers(expression, seen, samples.numbers);
  std::mt19937_64 random(7);
  const size_t rows = std::max<size_t>(1, elements_of(shape) / samples.width);
  for (size_t i = 0; i < std::max<size_t>(3, kProbedRowsMin / rows); ++i) {
    Array::Reals x(elements_of(shape));
    for (double& each : x) {
      const double number = normal(random);
      each = i % 3 == 0 ? 1.7 * number : i % 3 == 1 ? 0.4 + 0.6 * number : 5.0 * number;
    }
    budget.live_elements = OpBudget{}.live_elements;  // what earlier probes made is gone
    const Array::Reals y = evaluate(expression, Array::real(shape, x), budget).to_reals();
    samples.x.insert(samples.x.end(), x.begin(), x.end());
    samples.y.insert(samples.y.end(), y.begin(), y.end());
  }
  for (const double y : samples.y) samples.largest = std::max(samples.largest, std::fabs(y));
  return samples;
}

// W x + b of each row: b is what it gives for 0, and columns of W what it gives for units.
std::optional<LinearSpec> find_linear(const Expression& expression, const Shape& shape,
                                      const Samples& samples, OpBudget& budget) {
  const size_t width = samples.width;
  const size_t rows = elements_of(shape) / width;
  if (width > kLinearWidthMax) return std::nullopt;
  WorkBudget::take(samples.x.size() * width);
  const auto results = [&](const Array::Reals& x) {
    budget.live_elements = OpBudget{}.live_elements;
    return evaluate(expression, Array::real(shape, x), budget).to_reals();
  };
  const Array::Reals bias = results(Array::Reals(rows * width, 0.0));
  std::vector<double> matrix(width * width, 0.0);
  for (size_t first = 0; first < width; first += rows) {
    Array::Reals x(rows * width, 0.0);
    for (size_t r = 0; r < rows && first + r < width; ++r) x[r * width + first + r] = 1.0;
    const Array::Reals y = results(x);
    for (size_t r = 0; r < rows && first + r < width; ++r) {
      for (size_t c = 0; c < width; ++c) {
        matrix[c * width + first + r] = y[r * width + c] - bias[r * width + c];
      }
    }
  }
  for (size_t i = 0; i < samples.x.size(); i += width) {
    for (size_t c = 0; c < width; ++c) {
      double sum = bias[c];
      for (size_t k = 0; k < width; ++k) sum += matrix[c * width + k] * samples.x[i + k];
      if (!(std::fabs(sum - samples.y[i + c]) <= samples.error_max(kAgreement)))
        return std::nullopt;
    }
  }
  LinearSpec linear;
  const auto side = static_cast<uint32_t>(width);
  linear.weight.rows = linear.weight.columns = side;
  linear.weight.load_f64 = [matrix] { return matrix; };
  linear.weight.load = [matrix] { return std::vector<float>(matrix.begin(), matrix.end()); };
  linear.bias.assign(bias.begin(), bias.begin() + static_cast<ptrdiff_t>(width));
  return linear;
}

}  // namespace

Array evaluate(const Expression& expression, const Array& base, OpBudget& budget) {
  std::map<const Expression*, Array> known;
  const std::function<Array(const Expression&)> compute = [&](const Expression& part) -> Array {
    if (part.is_base()) return base;
    if (const auto found = known.find(&part); found != known.end()) return found->second;
    const Level level;
    std::vector<Array> inputs;
    for (const ExpressionRef& input : part.inputs) inputs.push_back(compute(*input));
    const OpCall call =
        bind(part.call, [&](uint32_t index) -> Argument { return inputs.at(index); });
    return known[&part] = apply_for_array(call, budget);
  };
  return compute(expression);
}

std::optional<FoundFunction> find_function(const Expression& expression, const Shape& base,
                                           OpBudget& budget) {
  if (expression.shape != base || base.empty() || elements_of(base) > kProbedMax) {
    return std::nullopt;
  }
  const Samples samples = samples_of(expression, base, budget);
  if (!std::isfinite(samples.largest) || samples.largest == 0.0) return std::nullopt;
  if (samples.y.size() != samples.x.size()) return std::nullopt;
  if (auto found = find_activation(samples)) return *found;
  if (samples.width < 2) return std::nullopt;
  if (auto found = find_norm(samples)) return *found;
  if (auto found = find_softmax(samples)) return *found;
  if (auto found = find_linear(expression, base, samples, budget)) return *found;
  return std::nullopt;
}

}  // namespace arenite::convert
