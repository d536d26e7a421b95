// SPDX-License-Identifier: Apache-2.0
// Samples a function of one value, and fits activations, norms, softmax and linear maps to the
// samples.
#include "convert/exported/recover/functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "convert/graph/interpreter.h"

namespace arenite::convert {
namespace {

constexpr size_t kProbedRowsMin = 12;     // any gain and bias fit two rows
constexpr size_t kLinearWidthMax = 1024;  // wider matrices take too many evaluations
constexpr size_t kProbedMax = size_t{1} << 22;
constexpr size_t kSetMax = 64;    // integers in one constant, such as a set of ids
constexpr double kRiseMax = 1e8;  // beside larger results, differences of others vanish

void collect_numbers(const Argument& argument, std::set<double>& numbers) {
  if (const double* real = argument.as<double>()) numbers.insert(*real);
  if (const int64_t* whole = argument.as<int64_t>()) numbers.insert(static_cast<double>(*whole));
  const Array* array = argument.as<Array>();
  if (array != nullptr && array->has_values() &&
      array->elements() <= (is_integer(array->type()) ? kSetMax : 1)) {
    for (const double number : array->to_reals()) numbers.insert(number);
  }
  if (const auto* list = argument.as<Argument::List>()) {
    for (const Argument& item : *list) collect_numbers(item, numbers);
  }
}

void collect_numbers(const Function& function, std::set<const Call*>& seen,
                     std::set<double>& numbers) {
  if (function.is_base() || !seen.insert(function.call.get()).second) return;
  for (const NamedArgument& argument : function.call->arguments) {
    collect_numbers(argument.value, numbers);
  }
  for (const TracedValue& input : values_of(*function.call)) {
    if (const FunctionRef& part = input.as<FunctionRef>()) collect_numbers(*part, seen, numbers);
  }
}

// Returns a nearly normal random number: a sum of uniforms, which is equal on all machines.
double normal(std::mt19937_64& random) {
  double sum = -2.0;
  uint64_t bits = random();
  for (int i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<double>(bits & 0xffff) * 0x1p-16;
  return sum * std::numbers::sqrt3;
}

// Evaluates the function on random rows around 0, around 0.4, and with large elements, where
// functions saturate.
Samples samples_of(const Function& function, OpBudget& budget) {
  const Shape& shape = function.base->shape;
  Samples samples;
  samples.width = static_cast<size_t>(shape.back());
  samples.numbers = scalar_constants(function);
  std::mt19937_64 random(7);
  const size_t rows = std::max<size_t>(1, elements_of(shape) / samples.width);
  for (size_t i = 0; i < std::max<size_t>(3, kProbedRowsMin / rows); ++i) {
    Array::Reals x(elements_of(shape));
    for (double& each : x) {
      const double number = normal(random);
      each = i % 3 == 0 ? 1.7 * number : i % 3 == 1 ? 0.4 + 0.6 * number : 5.0 * number;
    }
    budget.live_elements = OpBudget{}.live_elements;  // earlier samples are freed
    const Array::Reals y = evaluate(function, Array::real(shape, x), budget).to_reals();
    samples.x.insert(samples.x.end(), x.begin(), x.end());
    samples.y.insert(samples.y.end(), y.begin(), y.end());
  }
  for (const double y : samples.y) samples.largest = std::max(samples.largest, std::fabs(y));
  return samples;
}

// Fits W x + b to each row: b is the result for x = 0, and column k of W the result for unit vector
// k, less b.
std::optional<LinearSpec> find_linear(const Function& function, const Samples& samples,
                                      OpBudget& budget) {
  const Shape& shape = function.base->shape;
  const size_t width = samples.width;
  const size_t rows = elements_of(shape) / width;
  if (width > kLinearWidthMax) return std::nullopt;
  WorkBudget::take(samples.x.size() * width);
  const auto results = [&](const Array::Reals& x) {
    budget.live_elements = OpBudget{}.live_elements;
    return evaluate(function, Array::real(shape, x), budget).to_reals();
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
  set_exact(linear.weight, [matrix] { return matrix; });
  linear.bias.assign(bias.begin(), bias.begin() + static_cast<ptrdiff_t>(width));
  return linear;
}

}  // namespace

std::set<double> scalar_constants(const Function& function) {
  std::set<const Call*> seen;
  std::set<double> numbers;
  collect_numbers(function, seen, numbers);
  return numbers;
}

Array evaluate(const Function& function, const Array& base, OpBudget& budget) {
  std::map<const Call*, Array> known;
  const std::function<Array(const Function&)> compute = [&](const Function& part) -> Array {
    if (part.is_base()) return base;
    if (const auto found = known.find(part.call.get()); found != known.end()) return found->second;
    const Level level;
    const Call call = bind<TracedRef>(*part.call, [&](const TracedRef& ref) -> Argument {
      const FunctionRef& input = ref->as<FunctionRef>();
      return input ? compute(*input) : ref->as<ConstantRef>()->array();
    });
    return known[part.call.get()] = apply_for_array(call, budget);
  };
  return compute(function);
}

namespace {

const Call* op_among(const Function& function, std::initializer_list<std::string_view> names) {
  const Level level;
  if (function.is_base()) return nullptr;
  if (is_one_of(function.call->op, names)) return function.call.get();
  for (const TracedValue& input : values_of(*function.call)) {
    const FunctionRef& part = input.as<FunctionRef>();
    if (const Call* found = part ? op_among(*part, names) : nullptr) return found;
  }
  return nullptr;
}

}  // namespace

const Call* unseen_comparison(const Function& function, OpBudget& budget) {
  if (const Call* equals = op_among(function, {"eq", "ne"})) return equals;
  const Call* const compares = op_among(function, {"lt", "le", "gt", "ge", "isnan"});
  const Shape& base = function.base->shape;
  if (compares == nullptr || base.empty() || elements_of(base) > kProbedMax) return nullptr;
  const std::vector<double> y = samples_of(function, budget).y;
  const bool is_constant = std::ranges::all_of(y, [&](double each) { return each == y[0]; });
  return is_constant ? compares : nullptr;
}

std::optional<FoundFunction> find_function(const Function& function, OpBudget& budget) {
  const Shape& base = function.base->shape;
  if (function.shape != base || base.empty() || elements_of(base) > kProbedMax) {
    return std::nullopt;
  }
  const Samples samples = samples_of(function, budget);
  if (!std::isfinite(samples.largest) || samples.largest == 0.0) return std::nullopt;
  // Very large results, such as those of 1 / max(x, 1e-9), raise the tolerance so far that any
  // function agrees.
  if (samples.largest > kRiseMax) return std::nullopt;
  if (samples.y.size() != samples.x.size()) return std::nullopt;
  if (auto found = find_activation(samples)) return *found;
  if (auto found = find_xielu(samples)) return *found;
  if (samples.width < 2) return std::nullopt;
  if (auto found = find_norm(samples)) return *found;
  if (auto found = find_softmax(samples)) return *found;
  if (auto found = find_linear(function, samples, budget)) return *found;
  return std::nullopt;
}

// ---- activations with factors: lines and plateaus are read off the results, inner factors are
// among the formula's constants, and outer factors are fitted ----

namespace {

// Tolerance for constants that were written with few digits, or rounded to float32.
constexpr double kWrittenAgreement = 2e-7;
constexpr size_t kLevelsMax = 4096;  // samples compared with each other
constexpr size_t kFittedMax = 96;    // samples that candidates are fitted to
constexpr size_t kNumbersMax = 16;   // constants tried as factors

double value_of(const FoundActivation& found, double x) {
  const double inner = found.scale_in * x + found.offset_in;
  return found.scale_out *
             activate(found.activation.activation, found.activation.parameter, inner) +
         found.linear * x + found.offset_out;
}

class ActivationFinder {
 public:
  explicit ActivationFinder(const Samples& samples) : samples_(samples) {
    for (size_t i = 0; i < std::size(kActivationNames); ++i) {
      const auto kind = static_cast<Activation>(i);
      // Exponentials and other fast-growing activations are matched by name only.
      if (!has_parameter(kind) && kind < Activation::kExp) without_parameter_.push_back(kind);
    }
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
    has_level_ = find_level();
  }

  std::optional<FoundActivation> find() const {
    for (const double agreement : {kAgreement, kWrittenAgreement}) {
      for (const Activation function : without_parameter_) {
        const FoundActivation found = {{function}};
        // Relu must match exactly: max(x, 1e-6) before a logarithm is no relu.
        if (function == Activation::kRelu && (agreement != kAgreement || has_level_)) continue;
        if (agrees(found, agreement)) return found;
      }
    }
    for (const double factor : factors_) {
      if (factor <= 0.0) continue;
      if (auto cap = checked({{Activation::kSoftCap, factor}})) return cap;
    }
    for (const double factor : factors_) {
      if (has_level_) break;
      if (auto gate = checked({{Activation::kSilu}, factor, 0.0, 1.0 / factor})) return gate;
    }
    if (auto found = find_lines()) return found;
    if (auto found = find_bend()) return found;
    if (auto found = find_clamp()) return found;
    if (auto found = find_elu()) return found;
    // Tries a f(factor x) + b x + c.
    for (const Activation function : without_parameter_) {
      for (const double factor : factors_) {
        FoundActivation found = {{function}, factor};
        if (fit(found) && agrees(found, kAgreement)) return found;
      }
    }
    return std::nullopt;
  }

 private:
  bool agrees(const FoundActivation& found, double agreement) const {
    const double error_max = samples_.error_max(agreement);
    for (size_t i = 0; i < samples_.x.size(); ++i) {
      if (!(std::fabs(value_of(found, samples_.x[i]) - samples_.y[i]) <= error_max)) return false;
    }
    return true;
  }

  std::optional<FoundActivation> checked(const FoundActivation& found) const {
    if (agrees(found, kAgreement)) return found;
    return std::nullopt;
  }

  // Whether two inputs share a nonzero result, as with max(x, 1e-9).
  bool find_level() const {
    std::map<double, double> known;  // maps a result to its first input
    for (size_t i = 0, count = std::min(samples_.x.size(), kLevelsMax); i < count; ++i) {
      const double x = samples_.x[i], y = samples_.y[i];
      if (y != 0.0 && known.try_emplace(y, x).first->second != x) return true;
    }
    return false;
  }

  // Returns y / x of the sample farthest from 0, on the side of 0 that `sign` gives.
  double slope(double sign) const {
    size_t best = 0;
    for (size_t i = 0; i < samples_.x.size(); ++i) {
      if (sign * samples_.x[i] > sign * samples_.x[best]) best = i;
    }
    return as_written(samples_.y[best] / samples_.x[best]);
  }

  // Fits two lines that meet at 0.
  std::optional<FoundActivation> find_lines() const {
    const double right = slope(1.0), left = slope(-1.0);
    if (right == left || has_level_) return std::nullopt;
    if (left == 0.0) return checked({{Activation::kRelu}, 1.0, 0.0, right});
    if (right == 0.0) return checked({{Activation::kRelu}, -1.0, 0.0, -left});
    return checked({{Activation::kLeakyRelu, as_written(left / right)}, 1.0, 0.0, right});
  }

  // Fits a factor times max(x, c) or min(x, c): a plateau and a line.
  std::optional<FoundActivation> find_bend() const {
    const auto [least, most] = std::ranges::minmax(samples_.y);
    for (const double end : {least, most}) {
      if (std::ranges::count(samples_.y, end) < 2) continue;
      std::optional<size_t> first, last;  // ends of the line
      for (size_t i = 0; i < samples_.y.size(); ++i) {
        if (samples_.y[i] == end) continue;
        if (!first || samples_.x[i] < samples_.x[*first]) first = i;
        if (!last || samples_.x[i] > samples_.x[*last]) last = i;
      }
      if (!first || !(samples_.x[*last] > samples_.x[*first])) continue;
      const double rise = as_written((samples_.y[*last] - samples_.y[*first]) /
                                     (samples_.x[*last] - samples_.x[*first]));
      if (rise == 0.0) continue;
      const double bend = as_written(samples_.x[*first] - (samples_.y[*first] - end) / rise);
      const double sign = (rise > 0.0) == (end == least) ? 1.0 : -1.0;
      const FoundActivation found = {{Activation::kRelu}, sign, -sign * bend,
                                     sign * rise,         0.0,  end};
      if (agrees(found, kAgreement)) return found;
    }
    return std::nullopt;
  }

  // Fits a clamp: a line between two plateaus with several samples each.
  std::optional<FoundActivation> find_clamp() const {
    const auto [least, most] = std::ranges::minmax(samples_.y);
    if (std::ranges::count(samples_.y, least) < 2 || std::ranges::count(samples_.y, most) < 2)
      return std::nullopt;
    const double middle = as_written((least + most) / 2.0);
    const double half = (most - least) / 2.0;
    // The line goes through its outermost samples.
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

  // Fits a line for x > 0, and a multiple of exp(factor x) - 1 for x < 0.
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

  // Fits scale_out, linear and offset_out by least squares.
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
  std::vector<Activation> without_parameter_;
  std::vector<double> factors_;
  std::vector<size_t> fitted_;  // indices of samples
  bool has_level_ = false;
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

constexpr double kXieluMin = 1e-3;  // with smaller factors, a simpler function matches

// Fits xIELU: the linear and quadratic terms from two positive samples, the ELU term from a
// negative one.
std::optional<FoundXielu> find_xielu(const Samples& samples) {
  const std::vector<double>&x = samples.x, &y = samples.y;
  const auto least = static_cast<size_t>(std::ranges::min_element(x) - x.begin());
  const auto most = static_cast<size_t>(std::ranges::max_element(x) - x.begin());
  size_t other = most;  // the sample nearest to half of x[most]
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] > 0.0 && std::fabs(x[i] - x[most] / 2) < std::fabs(x[other] - x[most] / 2)) other = i;
  }
  if (!(x[least] < 0.0 && x[most] > x[other])) return std::nullopt;
  FoundXielu found;
  found.squares = (y[most] / x[most] - y[other] / x[other]) / (x[most] - x[other]);
  found.linear = y[most] / x[most] - found.squares * x[most];
  found.elu = (y[least] - found.linear * x[least]) / (std::expm1(x[least]) - x[least]);
  if (std::fabs(found.squares) < kXieluMin || std::fabs(found.elu) < kXieluMin) return std::nullopt;
  for (size_t i = 0; i < x.size(); ++i) {
    const double rest =
        x[i] > 0.0 ? found.squares * x[i] * x[i] : found.elu * (std::expm1(x[i]) - x[i]);
    const double error = std::fabs(found.linear * x[i] + rest - y[i]);
    if (!(error <= samples.error_max(kAgreement))) return std::nullopt;
  }
  return found;
}

// ---- norms: epsilon is among the formula's constants, gain and bias of each column are fitted
// ----

namespace {

constexpr size_t kFactorsMax = 8;  // tried as factors of rows
constexpr uint64_t kStepsPerSample = 4;

// Fits gain and bias of each column by least squares. Returns nullopt unless the result matches the
// samples.
std::optional<NormSpec> fit_norm(const Samples& samples, NormKind kind, double epsilon) {
  const std::vector<double>& y = samples.y;
  const size_t width = samples.width;
  const size_t rows = y.size() / width;
  WorkBudget::take(kStepsPerSample * y.size());
  NormNode plain;
  plain.norm.kind = kind;
  plain.norm.epsilon = epsilon;
  plain.norm.gain.assign(width, 1.0);
  std::vector<double> a = samples.x;
  for (size_t start = 0; start < a.size(); start += width) normalise(plain, a.data() + start);
  NormSpec spec;
  spec.kind = kind;
  spec.epsilon = epsilon;
  for (size_t c = 0; c < width; ++c) {
    double mean_a = 0.0, mean_y = 0.0, products = 0.0, squares = 0.0;
    for (size_t i = c; i < y.size(); i += width) {
      mean_a += a[i] / static_cast<double>(rows);
      mean_y += y[i] / static_cast<double>(rows);
    }
    for (size_t i = c; i < y.size(); i += width) {
      products += (a[i] - mean_a) * (y[i] - mean_y);
      squares += (a[i] - mean_a) * (a[i] - mean_a);
    }
    const double gain = squares > 0.0 ? products / squares : 0.0;
    const double bias = mean_y - gain * mean_a;
    for (size_t i = c; i < y.size(); i += width) {
      if (!(std::fabs(gain * a[i] + bias - y[i]) <= samples.error_max(kAgreement)))
        return std::nullopt;
    }
    spec.gain.push_back(gain);
    spec.bias.push_back(bias);
  }
  const bool has_bias =
      std::ranges::any_of(spec.bias, [&](double bias) { return std::fabs(bias) > kAgreement; });
  if (!has_bias) spec.bias.clear();
  // Weights are float32; the least-squares solution differs by noise.
  for (double& gain : spec.gain) gain = as_written(gain);
  for (double& bias : spec.bias) bias = as_written(bias);
  return spec;
}

}  // namespace

std::optional<NormSpec> find_norm(const Samples& samples) {
  const auto width = static_cast<double>(samples.width);
  // The function may use sums in place of means, or a deviation with n - 1, which scales epsilon.
  const double share = (width - 1.0) / width;
  std::set<double> inside = {0.0}, outside;
  // A factor of the rows scales epsilon, too.
  std::set<double> factors = {1.0};
  for (const double factor : samples.numbers) {
    if (factor != 0.0 && factors.size() < kFactorsMax) factors.insert(std::fabs(factor));
  }
  for (const double number : samples.numbers) {
    if (number <= 0.0 || number >= 1.0) continue;
    for (const double factor : factors) {
      const double square = factor * factor;
      inside.insert({number / square, number / square / width, number / square * share});
      outside.insert({number / factor, number / factor / std::sqrt(width),
                      number / factor * std::sqrt(share)});
    }
  }
  for (const NormKind kind :
       {NormKind::kLayer, NormKind::kRms, NormKind::kDeviation, NormKind::kRoot}) {
    for (const double epsilon : adds_epsilon_to_root(kind) ? outside : inside) {
      if (auto spec = fit_norm(samples, kind, epsilon)) return spec;
    }
  }
  return std::nullopt;
}

std::optional<RowFunctionNode> find_softmax(const Samples& samples) {
  for (const NormKind kind : {NormKind::kSoftmax, NormKind::kLogSoftmax}) {
    std::vector<double> rows = samples.x;
    for (size_t start = 0; start < rows.size(); start += samples.width) {
      softmax(kind == NormKind::kLogSoftmax, std::span(rows).subspan(start, samples.width));
    }
    const bool agrees = std::ranges::equal(rows, samples.y, [&](double wanted, double y) {
      return std::fabs(wanted - y) <= samples.error_max(kAgreement);
    });
    if (agrees) return RowFunctionNode{kind};
  }
  return std::nullopt;
}

}  // namespace arenite::convert
