// SPDX-License-Identifier: Apache-2.0
// Functions of one number each.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

ElementType float_of(ElementType type) { return is_real(type) ? type : ElementType::kF32; }

template <typename Function>
Results reals(const CallArguments& call, const char* name, const Function& function) {
  const Array& self = call.array(name);
  if (is_complex(self.type())) call.refuse("complex numbers are not understood here");
  Array::Reals values = self.to_reals();
  for (double& value : values) value = function(value);
  return {Array::real(self.shape(), std::move(values), float_of(self.type()))};
}

template <double (*kFunction)(double)>
Results real_function(const CallArguments& call, OpBudget&) {
  return reals(call, "self", kFunction);
}

// Functions that give whole numbers for whole numbers.
template <double (*kFunction)(double)>
Results same_kind_function(const CallArguments& call, OpBudget& budget) {
  const Array& self = call.array("self");
  if (is_real(self.type())) return real_function<kFunction>(call, budget);
  if (!is_integer(self.type())) call.refuse("it takes no {}", name(self.type()));
  Array::Reals values = self.to_reals();
  for (double& value : values) value = kFunction(value);
  return {Array::real(self.shape(), std::move(values)).to(self.type())};
}

double rsqrt(double x) { return 1.0 / std::sqrt(x); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }
double silu(double x) { return x * sigmoid(x); }
double relu(double x) { return x > 0.0 || std::isnan(x) ? x : 0.0; }
double relu6(double x) { return std::min(std::max(x, 0.0), 6.0); }
double mish(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
double hardsigmoid(double x) { return relu6(x + 3.0) / 6.0; }
double hardswish(double x) { return x * relu6(x + 3.0) / 6.0; }
double softsign(double x) { return x / (1.0 + std::abs(x)); }
double tanhshrink(double x) { return x - std::tanh(x); }
double square(double x) { return x * x; }
double reciprocal(double x) { return 1.0 / x; }
double absolute(double x) { return std::abs(x); }
double negative(double x) { return -x; }
double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }
double fraction(double x) { return x - std::trunc(x); }
double exp_of(double x) { return std::exp(x); }
double exp2_of(double x) { return std::exp2(x); }
double expm1_of(double x) { return std::expm1(x); }
double log_of(double x) { return std::log(x); }
double log2_of(double x) { return std::log2(x); }
double log10_of(double x) { return std::log10(x); }
double log1p_of(double x) { return std::log1p(x); }
double sqrt_of(double x) { return std::sqrt(x); }
double sin_of(double x) { return std::sin(x); }
double cos_of(double x) { return std::cos(x); }
double tan_of(double x) { return std::tan(x); }
double asin_of(double x) { return std::asin(x); }
double acos_of(double x) { return std::acos(x); }
double atan_of(double x) { return std::atan(x); }
double sinh_of(double x) { return std::sinh(x); }
double cosh_of(double x) { return std::cosh(x); }
double tanh_of(double x) { return std::tanh(x); }
double erf_of(double x) { return std::erf(x); }
double erfc_of(double x) { return std::erfc(x); }
double floor_of(double x) { return std::floor(x); }
double ceil_of(double x) { return std::ceil(x); }
double trunc_of(double x) { return std::trunc(x); }
double nearest_even(double x) { return x - std::remainder(x, 1.0); }

// The absolute value, of complex numbers too.
Results length(const CallArguments& call, OpBudget& budget) {
  const Array& self = call.array("self");
  if (!is_complex(self.type())) return same_kind_function<absolute>(call, budget);
  Array::Reals values;
  values.reserve(self.elements());
  for (const std::complex<double>& value : self.complexes()) values.push_back(std::abs(value));
  return {Array::real(self.shape(), std::move(values))};
}

Results round(const CallArguments& call, OpBudget& budget) {
  if (call.integer("decimals", 0) != 0) call.refuse("rounding to decimals is not understood");
  return same_kind_function<nearest_even>(call, budget);
}

Results gelu(const CallArguments& call, OpBudget&) {
  const std::string kind = call.text("approximate", "none");
  if (kind == "none") {
    return reals(call, "self",
                 [](double x) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); });
  }
  if (kind != "tanh") call.refuse("approximate='{}' is not understood", printable(kind));
  return reals(call, "self", [](double x) {
    const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + std::tanh(inner));
  });
}

Results softplus(const CallArguments& call, OpBudget&) {
  const double beta = call.real("beta", 1.0), threshold = call.real("threshold", 20.0);
  return reals(call, "self", [&](double x) {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  });
}

Results leaky_relu(const CallArguments& call, OpBudget&) {
  const double slope = call.real("negative_slope", 0.01);
  return reals(call, "self", [&](double x) { return x > 0.0 ? x : slope * x; });
}

// Slopes of all numbers, or of channels, which are dimension 1.
Results prelu(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  const Array::Reals slopes = call.array("weight").to_reals();
  const size_t channels = self.rank() < 2 ? 1 : static_cast<size_t>(self.shape()[1]);
  if (slopes.size() != 1 && slopes.size() != channels) {
    call.refuse("it has {} slopes: expected 1, or {}", slopes.size(), channels);
  }
  size_t inner = 1;
  for (size_t d = 2; d < self.rank(); ++d) inner *= static_cast<size_t>(self.shape()[d]);
  Array::Reals values = self.to_reals();
  for (size_t i = 0; i < values.size(); ++i) {
    const double slope = slopes[slopes.size() == 1 ? 0 : i / inner % channels];
    if (!(values[i] > 0.0)) values[i] *= slope;
  }
  return {Array::real(self.shape(), std::move(values), self.type())};
}

// The first half of a dimension times the sigmoid of the second.
Results glu(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  const size_t dim = call.dimension("dim", -1, self.rank());
  if (self.rank() == 0 || self.shape()[dim] % 2 != 0) call.refuse("it has no two halves");
  Shape shape = self.shape();
  shape[dim] /= 2;
  size_t inner = 1;
  for (size_t d = dim; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
  const Array::Reals whole = self.to_reals();
  Array::Reals values;
  for (size_t i = 0; i < whole.size() / 2; ++i) {
    const size_t at = i / inner * 2 * inner + i % inner;
    values.push_back(whole[at] * sigmoid(whole[at + inner]));
  }
  return {Array::real(std::move(shape), std::move(values), self.type())};
}

Results elu(const CallArguments& call, OpBudget&) {
  const double alpha = call.real("alpha", 1.0), scale = call.real("scale", 1.0);
  const double input_scale = call.real("input_scale", 1.0);
  return reals(call, "self", [&](double x) {
    return x > 0.0 ? scale * x : scale * alpha * std::expm1(input_scale * x);
  });
}

Results celu(const CallArguments& call, OpBudget&) {
  const double alpha = call.real("alpha", 1.0);
  return reals(call, "self", [&](double x) { return x > 0.0 ? x : alpha * std::expm1(x / alpha); });
}

Results selu(const CallArguments& call, OpBudget&) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;  // of the paper, and of PyTorch
  constexpr double kScale = 1.0507009873554804934193349852946;
  return reals(call, "self",
               [](double x) { return x > 0.0 ? kScale * x : kScale * kAlpha * std::expm1(x); });
}

Results hardtanh(const CallArguments& call, OpBudget&) {
  const double low = call.real("min_val", -1.0), high = call.real("max_val", 1.0);
  return reals(call, "self", [&](double x) { return std::min(std::max(x, low), high); });
}

Results threshold(const CallArguments& call, OpBudget&) {
  const double limit = call.real("threshold"), value = call.real("value");
  return reals(call, "self", [&](double x) { return x > limit ? x : value; });
}

Results hardshrink(const CallArguments& call, OpBudget&) {
  const double limit = call.real("lambd", 0.5);
  return reals(call, "self", [&](double x) { return std::abs(x) > limit ? x : 0.0; });
}

Results softshrink(const CallArguments& call, OpBudget&) {
  const double limit = call.real("lambd", 0.5);
  return reals(call, "self", [&](double x) {
    return x > limit ? x - limit : x < -limit ? x + limit : 0.0;
  });
}

Results not_of(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  if (call.call().op == "bitwise_not" && is_integer(self.type())) {
    Array::Integers values = self.integers();
    for (int64_t& value : values) value = ~value;
    return {Array::integer(self.shape(), std::move(values)).to(self.type())};
  }
  Array::Bools values = self.to_bools();
  for (uint8_t& value : values) value = value == 0;
  return {Array::boolean(self.shape(), std::move(values))};
}

template <bool (*kTest)(double)>
Results test(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  Array::Bools bools;
  for (const double value : self.to_reals()) bools.push_back(kTest(value) ? 1 : 0);
  return {Array::boolean(self.shape(), std::move(bools))};
}

bool is_nan(double x) { return std::isnan(x); }
bool is_infinite(double x) { return std::isinf(x); }
bool is_finite(double x) { return std::isfinite(x); }
bool is_lowest(double x) { return std::isinf(x) && x < 0; }
bool is_highest(double x) { return std::isinf(x) && x > 0; }

Results nan_to_num(const CallArguments& call, OpBudget&) {
  constexpr double kLargest = 3.4028234663852886e38;  // float32, which authors' tensors are
  const double nan = call.real("nan", 0.0);
  const double high = call.real("posinf", kLargest), low = call.real("neginf", -kLargest);
  return reals(call, "self", [&](double x) {
    return std::isnan(x) ? nan : std::isfinite(x) ? x : x > 0.0 ? high : low;
  });
}

// Conversions whose numbers change; those that do not are movements.
Results to(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  if (call.has("other")) return {self.to(call.array("other").type())};
  return {self.to(call.type("dtype").value_or(self.type()))};
}

}  // namespace

OpRules unary_rules() {
  return {{"exp", real_function<exp_of>},
          {"exp2", real_function<exp2_of>},
          {"expm1", real_function<expm1_of>},
          {"log", real_function<log_of>},
          {"log2", real_function<log2_of>},
          {"log10", real_function<log10_of>},
          {"log1p", real_function<log1p_of>},
          {"sqrt", real_function<sqrt_of>},
          {"rsqrt", real_function<rsqrt>},
          {"sin", real_function<sin_of>},
          {"cos", real_function<cos_of>},
          {"tan", real_function<tan_of>},
          {"asin", real_function<asin_of>},
          {"acos", real_function<acos_of>},
          {"atan", real_function<atan_of>},
          {"sinh", real_function<sinh_of>},
          {"cosh", real_function<cosh_of>},
          {"tanh", real_function<tanh_of>},
          {"erf", real_function<erf_of>},
          {"erfc", real_function<erfc_of>},
          {"special_erf", real_function<erf_of>},
          {"sigmoid", real_function<sigmoid>},
          {"log_sigmoid", real_function<log_sigmoid>},
          {"silu", real_function<silu>},
          {"mish", real_function<mish>},
          {"relu", same_kind_function<relu>},
          {"relu6", same_kind_function<relu6>},
          {"hardsigmoid", real_function<hardsigmoid>},
          {"hardswish", real_function<hardswish>},
          {"softsign", real_function<softsign>},
          {"tanhshrink", real_function<tanhshrink>},
          {"reciprocal", real_function<reciprocal>},
          {"square", same_kind_function<square>},
          {"abs", length},
          {"neg", same_kind_function<negative>},
          {"negative", same_kind_function<negative>},
          {"sign", same_kind_function<sign>},
          {"sgn", same_kind_function<sign>},
          {"floor", same_kind_function<floor_of>},
          {"ceil", same_kind_function<ceil_of>},
          {"trunc", same_kind_function<trunc_of>},
          {"fix", same_kind_function<trunc_of>},
          {"frac", real_function<fraction>},
          {"round", round},
          {"gelu", gelu},
          {"softplus", softplus},
          {"leaky_relu", leaky_relu},
          {"elu", elu},
          {"prelu", prelu},
          {"_prelu_kernel", prelu},
          {"glu", glu},
          {"celu", celu},
          {"selu", selu},
          {"hardtanh", hardtanh},
          {"threshold", threshold},
          {"hardshrink", hardshrink},
          {"softshrink", softshrink},
          {"logical_not", not_of},
          {"bitwise_not", not_of},
          {"isnan", test<is_nan>},
          {"isinf", test<is_infinite>},
          {"isfinite", test<is_finite>},
          {"isneginf", test<is_lowest>},
          {"isposinf", test<is_highest>},
          {"nan_to_num", nan_to_num},
          {"to", to},
          {"_to_copy", to},
          {"type_as", to}};
}

}  // namespace arenite::convert
