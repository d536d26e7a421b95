// SPDX-License-Identifier: Apache-2.0
// Functions of single numbers, and arithmetic of operands that are stretched to one shape.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/read/array.h"

namespace arenite::convert {
// Functions of one number each.

namespace {

ElementType float_of(ElementType type) { return is_real(type) ? type : ElementType::kF32; }

template <typename Function>
Results reals(const Call& call, const Function& function) {
  const Array& self = call.array("self");
  if (is_complex(self.type())) call.refuse("complex numbers are not understood here");
  Array::Reals values = self.to_reals();
  for (double& value : values) value = function(value);
  return {Array::real(self.shape(), std::move(values), float_of(self.type()))};
}

template <auto kFunction>
Results real_function(const Call& call, OpBudget&) {
  return reals(call, kFunction);
}

// Functions that give whole numbers for whole numbers.
template <auto kFunction>
Results same_kind_function(const Call& call, OpBudget& budget) {
  const Array& self = call.array("self");
  if (is_real(self.type())) return real_function<kFunction>(call, budget);
  if (!is_integer(self.type())) call.refuse("it takes no {}", name(self.type()));
  Array::Reals values = self.to_reals();
  for (double& value : values) value = kFunction(value);
  return {Array::real(self.shape(), std::move(values)).to(self.type())};
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }
double relu6(double x) { return std::min(std::max(x, 0.0), 6.0); }

// The absolute value, of complex numbers too.
Results length(const Call& call, OpBudget& budget) {
  const Array& self = call.array("self");
  if (!is_complex(self.type()))
    return same_kind_function<[](double x) { return std::abs(x); }>(call, budget);
  Array::Reals values;
  values.reserve(self.elements());
  for (const std::complex<double>& value : self.complexes()) values.push_back(std::abs(value));
  return {Array::real(self.shape(), std::move(values))};
}

Results round(const Call& call, OpBudget& budget) {
  if (call.integer("decimals", 0) != 0) call.refuse("rounding to decimals is not understood");
  return same_kind_function<[](double x) { return x - std::remainder(x, 1.0); }>(call, budget);
}

Results gelu(const Call& call, OpBudget&) {
  const std::string kind = call.text("approximate", "none");
  if (kind == "none") {
    return reals(call,
                 [](double x) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); });
  }
  if (kind != "tanh") call.refuse("approximate='{}' is not understood", printable(kind));
  return reals(call, [](double x) {
    const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + std::tanh(inner));
  });
}

Results softplus(const Call& call, OpBudget&) {
  const double beta = call.real("beta", 1.0), threshold = call.real("threshold", 20.0);
  return reals(call, [&](double x) {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  });
}

Results leaky_relu(const Call& call, OpBudget&) {
  const double slope = call.real("negative_slope", 0.01);
  return reals(call, [&](double x) { return x > 0.0 ? x : slope * x; });
}

// Slopes of all numbers, or of channels, which are dimension 1.
Results prelu(const Call& call, OpBudget&) {
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

Results elu(const Call& call, OpBudget&) {
  const double alpha = call.real("alpha", 1.0), scale = call.real("scale", 1.0);
  const double input_scale = call.real("input_scale", 1.0);
  return reals(call, [&](double x) {
    return x > 0.0 ? scale * x : scale * alpha * std::expm1(input_scale * x);
  });
}

Results celu(const Call& call, OpBudget&) {
  const double alpha = call.real("alpha", 1.0);
  return reals(call, [&](double x) { return x > 0.0 ? x : alpha * std::expm1(x / alpha); });
}

Results selu(const Call& call, OpBudget&) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;  // of the paper, and of PyTorch
  constexpr double kScale = 1.0507009873554804934193349852946;
  return reals(call,
               [](double x) { return x > 0.0 ? kScale * x : kScale * kAlpha * std::expm1(x); });
}

Results hardtanh(const Call& call, OpBudget&) {
  const double low = call.real("min_val", -1.0), high = call.real("max_val", 1.0);
  return reals(call, [&](double x) { return std::min(std::max(x, low), high); });
}

Results threshold(const Call& call, OpBudget&) {
  const double limit = call.real("threshold"), value = call.real("value");
  return reals(call, [&](double x) { return x > limit ? x : value; });
}

Results hardshrink(const Call& call, OpBudget&) {
  const double limit = call.real("lambd", 0.5);
  return reals(call, [&](double x) { return std::abs(x) > limit ? x : 0.0; });
}

Results softshrink(const Call& call, OpBudget&) {
  const double limit = call.real("lambd", 0.5);
  return reals(call, [&](double x) {
    return x > limit ? x - limit : x < -limit ? x + limit : 0.0;
  });
}

Results not_of(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (call.op == "bitwise_not" && is_integer(self.type())) {
    Array::Integers values = self.integers();
    for (int64_t& value : values) value = ~value;
    return {Array::integer(self.shape(), std::move(values)).to(self.type())};
  }
  Array::Bools values = self.to_bools();
  for (uint8_t& value : values) value = value == 0;
  return {Array::boolean(self.shape(), std::move(values))};
}

template <auto kTest>
Results test(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  Array::Bools bools;
  for (const double value : self.to_reals()) bools.push_back(kTest(value) ? 1 : 0);
  return {Array::boolean(self.shape(), std::move(bools))};
}

Results nan_to_num(const Call& call, OpBudget&) {
  constexpr double kLargest = 3.4028234663852886e38;  // float32, which authors' tensors are
  const double nan = call.real("nan", 0.0);
  const double high = call.real("posinf", kLargest), low = call.real("neginf", -kLargest);
  return reals(call, [&](double x) {
    return std::isnan(x) ? nan : std::isfinite(x) ? x : x > 0.0 ? high : low;
  });
}

// Conversions whose numbers change; those that do not are movements.
Results to(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (call.has("other")) return {self.to(call.array("other").type())};
  return {self.to(call.type("dtype").value_or(self.type()))};
}

}  // namespace

OpRules unary_rules() {
  return {
      {"exp", real_function<[](double x) { return std::exp(x); }>},
      {"exp2", real_function<[](double x) { return std::exp2(x); }>},
      {"expm1", real_function<[](double x) { return std::expm1(x); }>},
      {"log", real_function<[](double x) { return std::log(x); }>},
      {"log2", real_function<[](double x) { return std::log2(x); }>},
      {"log10", real_function<[](double x) { return std::log10(x); }>},
      {"log1p", real_function<[](double x) { return std::log1p(x); }>},
      {"sqrt", real_function<[](double x) { return std::sqrt(x); }>},
      {"rsqrt", real_function<[](double x) { return 1.0 / std::sqrt(x); }>},
      {"sin", real_function<[](double x) { return std::sin(x); }>},
      {"cos", real_function<[](double x) { return std::cos(x); }>},
      {"tan", real_function<[](double x) { return std::tan(x); }>},
      {"asin", real_function<[](double x) { return std::asin(x); }>},
      {"acos", real_function<[](double x) { return std::acos(x); }>},
      {"atan", real_function<[](double x) { return std::atan(x); }>},
      {"sinh", real_function<[](double x) { return std::sinh(x); }>},
      {"cosh", real_function<[](double x) { return std::cosh(x); }>},
      {"tanh", real_function<[](double x) { return std::tanh(x); }>},
      {"erf", real_function<[](double x) { return std::erf(x); }>},
      {"erfc", real_function<[](double x) { return std::erfc(x); }>},
      {"special_erf", real_function<[](double x) { return std::erf(x); }>},
      {"sigmoid", real_function<sigmoid>},
      {"log_sigmoid", real_function<[](double x) {
         return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
       }>},
      {"silu", real_function<[](double x) { return x * sigmoid(x); }>},
      {"mish", real_function<[](double x) { return x * std::tanh(std::log1p(std::exp(x))); }>},
      {"relu", same_kind_function<[](double x) { return (x > 0.0 || std::isnan(x) ? x : 0.0); }>},
      {"relu6", same_kind_function<relu6>},
      {"hardsigmoid", real_function<[](double x) { return relu6(x + 3.0) / 6.0; }>},
      {"hardswish", real_function<[](double x) { return x * relu6(x + 3.0) / 6.0; }>},
      {"softsign", real_function<[](double x) { return x / (1.0 + std::abs(x)); }>},
      {"tanhshrink", real_function<[](double x) { return x - std::tanh(x); }>},
      {"reciprocal", real_function<[](double x) { return 1.0 / x; }>},
      {"square", same_kind_function<[](double x) { return x * x; }>},
      {"abs", length},
      {"neg", same_kind_function<[](double x) { return -x; }>},
      {"negative", same_kind_function<[](double x) { return -x; }>},
      {"sign", same_kind_function<sign>},
      {"sgn", same_kind_function<sign>},
      {"floor", same_kind_function<[](double x) { return std::floor(x); }>},
      {"ceil", same_kind_function<[](double x) { return std::ceil(x); }>},
      {"trunc", same_kind_function<[](double x) { return std::trunc(x); }>},
      {"fix", same_kind_function<[](double x) { return std::trunc(x); }>},
      {"frac", real_function<[](double x) { return x - std::trunc(x); }>},
      {"round", round},
      {"gelu", gelu},
      {"softplus", softplus},
      {"leaky_relu", leaky_relu},
      {"elu", elu},
      {"prelu", prelu},
      {"_prelu_kernel", prelu},
      {"celu", celu},
      {"selu", selu},
      {"hardtanh", hardtanh},
      {"threshold", threshold},
      {"hardshrink", hardshrink},
      {"softshrink", softshrink},
      {"logical_not", not_of},
      {"bitwise_not", not_of},
      {"isnan", test<[](double x) { return std::isnan(x); }>},
      {"isinf", test<[](double x) { return std::isinf(x); }>},
      {"isfinite", test<[](double x) { return std::isfinite(x); }>},
      {"isneginf", test<[](double x) { return std::isinf(x) && x < 0; }>},
      {"isposinf", test<[](double x) { return (std::isinf(x) && x > 0); }>},
      {"nan_to_num", nan_to_num},
      {"to", to},
      {"_to_copy", to},
      {"type_as", to}};
}

// Arithmetic, comparisons and logic of two operands, stretched to one shape.

namespace {

using Complex = std::complex<double>;

int rank_of(const Operand& operand) {
  return operand.is_number ? 0 : operand.array.rank() == 0 ? 1 : 2;
}

template <typename T>
ElementType widest() {
  if constexpr (std::is_same_v<T, double>) return ElementType::kF64;
  if constexpr (std::is_same_v<T, int64_t>) return ElementType::kI64;
  if constexpr (std::is_same_v<T, Complex>) return ElementType::kComplex128;
  return ElementType::kBool;
}

// function(a, b) of all pairs, both converted to T.
template <typename T, typename Result, typename Function>
std::vector<Result> combined(const Operand& a, const Operand& b, const Shape& shape,
                             const Function& function) {
  const Array x = a.array.to(widest<T>()), y = b.array.to(widest<T>());
  return zip<Result>(x.shape(), x.values<T>(), y.shape(), y.values<T>(), shape, function);
}

// Whole numbers wrap around instead of overflowing.
int64_t wrapping(uint64_t bits) { return static_cast<int64_t>(bits); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

struct Add {
  double operator()(double a, double b) const { return a + b; }
  Complex operator()(Complex a, Complex b) const { return a + b; }
  int64_t operator()(int64_t a, int64_t b) const { return wrapping(bits(a) + bits(b)); }
};
struct Subtract {
  double operator()(double a, double b) const { return a - b; }
  Complex operator()(Complex a, Complex b) const { return a - b; }
  int64_t operator()(int64_t a, int64_t b) const { return wrapping(bits(a) - bits(b)); }
};
struct Multiply {
  double operator()(double a, double b) const { return a * b; }
  Complex operator()(Complex a, Complex b) const {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
  int64_t operator()(int64_t a, int64_t b) const { return wrapping(bits(a) * bits(b)); }
};
struct Maximum {
  double operator()(double a, double b) const { return std::isnan(a) || a > b ? a : b; }
  int64_t operator()(int64_t a, int64_t b) const { return std::max(a, b); }
};
struct Minimum {
  double operator()(double a, double b) const { return std::isnan(a) || a < b ? a : b; }
  int64_t operator()(int64_t a, int64_t b) const { return std::min(a, b); }
};

// Quotients of whole numbers; a divisor of 0, which PyTorch refuses, gives 0.
int64_t truncated(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? wrapping(0 - bits(a)) : a / b;
}
int64_t floored(int64_t a, int64_t b) {
  const int64_t quotient = truncated(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
struct FloorDivide {
  double operator()(double a, double b) const { return std::floor(a / b); }
  int64_t operator()(int64_t a, int64_t b) const { return floored(a, b); }
};
struct TruncatedDivide {
  double operator()(double a, double b) const { return std::trunc(a / b); }
  int64_t operator()(int64_t a, int64_t b) const { return truncated(a, b); }
};
struct Remainder {  // with the sign of the divisor
  double operator()(double a, double b) const {
    const double rest = std::fmod(a, b);
    return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
  }
  int64_t operator()(int64_t a, int64_t b) const {
    return wrapping(bits(a) - bits(floored(a, b)) * bits(b));
  }
};
struct FloatRemainder {  // with the sign of the dividend
  double operator()(double a, double b) const { return std::fmod(a, b); }
  int64_t operator()(int64_t a, int64_t b) const {
    return wrapping(bits(a) - bits(truncated(a, b)) * bits(b));
  }
};
struct Power {
  double operator()(double a, double b) const { return std::pow(a, b); }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    uint64_t power = 1;
    for (uint64_t base = bits(a), left = bits(b); left != 0; left >>= 1, base *= base) {
      if (left % 2 != 0) power *= base;
    }
    return wrapping(power);
  }
};

// Bools count as whole numbers; the result is what PyTorch gives for the operands' types.
template <typename Function>
Array arithmetic(const Call& call, const Operand& a, const Operand& b, ElementType type,
                 const Function& function) {
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  if (is_complex(type)) {
    if constexpr (std::is_invocable_v<Function, Complex, Complex>) {
      return Array::complex(shape, combined<Complex, Complex>(a, b, shape, function), type);
    } else {
      call.refuse("complex numbers are not understood here");
    }
  }
  if (is_real(type)) {
    return Array::real(shape, combined<double, double>(a, b, shape, function), type);
  }
  return Array::integer(shape, combined<int64_t, int64_t>(a, b, shape, function)).to(type);
}

template <typename Function>
Results arithmetic_rule(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  return {arithmetic(call, a, b, result_type(a, b), Function())};
}

// self + alpha * other
template <typename Function>
Results with_alpha(const Call& call, OpBudget&) {
  Operand a = operand(call, "self"), b = operand(call, "other");
  if (call.op == "rsub") std::swap(a, b);
  const ElementType type = result_type(a, b);
  if (call.has("alpha")) {
    const Operand alpha = operand(call, "alpha");
    const bool is_self = call.op == "rsub";  // then the second operand is "self"
    b.array =
        arithmetic(call, b, alpha, is_self ? type : promote(b.array.type(), type), Multiply());
  }
  return {arithmetic(call, a, b, type, Function())};
}

Results divide(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = result_type(a, b);
  const std::string rounding = call.text("rounding_mode", "");
  if (rounding == "floor") return {arithmetic(call, a, b, type, FloorDivide())};
  if (rounding == "trunc") return {arithmetic(call, a, b, type, TruncatedDivide())};
  if (!rounding.empty()) call.refuse("rounding_mode='{}' is not understood", printable(rounding));
  struct Divide {
    double operator()(double x, double y) const { return x / y; }
    Complex operator()(Complex x, Complex y) const { return x / y; }
    int64_t operator()(int64_t, int64_t) const { return 0; }
  };
  return {arithmetic(call, a, b, real_type(type), Divide())};
}

Results power(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "exponent");
  return {arithmetic(call, a, b, result_type(a, b), Power())};
}

Results arctangent(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  return {Array::real(shape, combined<double, double>(a, b, shape, [](double y, double x) {
                        return std::atan2(y, x);
                      }))};
}

template <typename Compare>
Results comparison(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = result_type(a, b);
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  const auto compare = [](auto x, auto y) { return static_cast<uint8_t>(Compare()(x, y)); };
  if (is_complex(type)) call.refuse("complex numbers are not understood here");
  if (is_real(type)) {
    return {Array::boolean(shape, combined<double, uint8_t>(a, b, shape, compare))};
  }
  return {Array::boolean(shape, combined<int64_t, uint8_t>(a, b, shape, compare))};
}

struct And {
  int64_t operator()(int64_t a, int64_t b) const { return a & b; }
};
struct Or {
  int64_t operator()(int64_t a, int64_t b) const { return a | b; }
};
struct Xor {
  int64_t operator()(int64_t a, int64_t b) const { return a ^ b; }
};

template <typename Function>
Results logic(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  const auto function = [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(Function()(x, y)); };
  return {Array::boolean(shape, combined<uint8_t, uint8_t>(a, b, shape, function))};
}

template <typename Function>
Results bitwise(const Call& call, OpBudget& budget) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = result_type(a, b);
  if (type == ElementType::kBool) return logic<Function>(call, budget);
  if (!is_integer(type)) call.refuse("it takes whole numbers and bools alone");
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  return {Array::integer(shape, combined<int64_t, int64_t>(a, b, shape, Function())).to(type)};
}

// self + weight * (end - self)
Results lerp(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "end"), w = operand(call, "weight");
  const ElementType type = result_type(a, b);
  const Operand difference = {arithmetic(call, b, a, type, Subtract())};
  const Operand part = {arithmetic(call, difference, w, type, Multiply())};
  return {arithmetic(call, a, part, type, Add())};
}

// self + value * tensor1 * tensor2, or / tensor2
Results add_product(const Call& call, OpBudget&) {
  const Operand self = operand(call, "self");
  const Operand a = operand(call, "tensor1"), b = operand(call, "tensor2");
  const ElementType type = promote(result_type(self, a), result_type(self, b));
  const Operand value =
      call.has("value") ? operand(call, "value") : Operand{Array::integer({}, {1}), true};
  Operand part;
  if (call.op == "addcmul") {
    part.array = arithmetic(call, a, b, type, Multiply());
  } else {
    struct Divide {
      double operator()(double x, double y) const { return x / y; }
      int64_t operator()(int64_t x, int64_t y) const { return truncated(x, y); }
    };
    part.array = arithmetic(call, a, b, type, Divide());
  }
  part.array = arithmetic(call, part, value, type, Multiply());
  return {arithmetic(call, self, part, type, Add())};
}

}  // namespace

Operand operand(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  if (argument == nullptr) call.refuse("its argument '{}' is missing", name);
  if (const auto* array = argument->as<Array>()) return {*array};
  if (const auto* real = argument->as<double>()) return {Array::real({}, {*real}), true};
  if (const auto* whole = argument->as<int64_t>()) return {Array::integer({}, {*whole}), true};
  if (const auto* complex = argument->as<Complex>()) return {Array::complex({}, {*complex}), true};
  if (const auto* flag = argument->as<bool>()) {
    return {Array::boolean({}, {static_cast<uint8_t>(*flag)}), true};
  }
  call.refuse("its argument '{}' is no number and no tensor", name);
}

ElementType result_type(const Operand& a, const Operand& b) {
  const Operand& first = rank_of(a) >= rank_of(b) ? a : b;
  const Operand& second = rank_of(a) >= rank_of(b) ? b : a;
  const ElementType type = first.array.type(), other = second.array.type();
  if (rank_of(first) == rank_of(second)) return promote(type, other);
  return kind_of(other) > kind_of(type) ? promote(type, other) : type;
}

ElementType real_type(ElementType type) {
  return is_real(type) || is_complex(type) ? type : ElementType::kF32;
}

OpRules binary_rules() {
  return {{"add", with_alpha<Add>},
          {"sub", with_alpha<Subtract>},
          {"subtract", with_alpha<Subtract>},
          {"rsub", with_alpha<Subtract>},
          {"mul", arithmetic_rule<Multiply>},
          {"multiply", arithmetic_rule<Multiply>},
          {"div", divide},
          {"divide", divide},
          {"true_divide", divide},
          {"floor_divide", arithmetic_rule<FloorDivide>},
          {"remainder", arithmetic_rule<Remainder>},
          {"fmod", arithmetic_rule<FloatRemainder>},
          {"maximum", arithmetic_rule<Maximum>},
          {"minimum", arithmetic_rule<Minimum>},
          {"pow", power},
          {"float_power", power},
          {"atan2", arctangent},
          {"arctan2", arctangent},
          {"eq", comparison<std::equal_to<>>},
          {"ne", comparison<std::not_equal_to<>>},
          {"lt", comparison<std::less<>>},
          {"le", comparison<std::less_equal<>>},
          {"gt", comparison<std::greater<>>},
          {"ge", comparison<std::greater_equal<>>},
          {"not_equal", comparison<std::not_equal_to<>>},
          {"greater", comparison<std::greater<>>},
          {"greater_equal", comparison<std::greater_equal<>>},
          {"less", comparison<std::less<>>},
          {"less_equal", comparison<std::less_equal<>>},
          {"logical_and", logic<And>},
          {"logical_or", logic<Or>},
          {"logical_xor", logic<Xor>},
          {"bitwise_and", bitwise<And>},
          {"bitwise_or", bitwise<Or>},
          {"bitwise_xor", bitwise<Xor>},
          {"__and__", bitwise<And>},
          {"__or__", bitwise<Or>},
          {"__xor__", bitwise<Xor>},
          {"lerp", lerp},
          {"addcmul", add_product},
          {"addcdiv", add_product}};
}

// Ops that take one of several numbers: by a condition, a mask, or a limit.

namespace {

// self where the condition holds, other elsewhere, both of `type`.
Array chosen(const Array& condition, const Array& self, const Array& other, ElementType type) {
  const Shape shape = broadcast(condition.shape(), broadcast(self.shape(), other.shape()));
  const Array a = stretched(self.to(type), shape), b = stretched(other.to(type), shape);
  const Array::Bools takes = stretched(condition, shape).to_bools();
  return a.remade(shape, [&](auto x) {
    const auto& y = b.values<typename decltype(x)::value_type>();
    for (size_t i = 0; i < x.size(); ++i) {
      if (takes[i] == 0) x[i] = y[i];
    }
    return x;
  });
}

Results where(const Call& call, OpBudget&) {
  const Operand self = operand(call, "self"), other = operand(call, "other");
  return {chosen(call.array("condition"), self.array, other.array, result_type(self, other))};
}

Results masked_fill(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  return {chosen(call.array("mask"), operand(call, "value").array, self, self.type())};
}

Results clamp(const Call& call, OpBudget&) {
  Operand self = operand(call, "self");
  for (const char* name : {"min", "max"}) {
    if (!call.has(name)) continue;
    const Operand limit = operand(call, name);
    const ElementType type = result_type(self, limit);
    self.array = name[1] == 'i' ? arithmetic(call, self, limit, type, Maximum())
                                : arithmetic(call, self, limit, type, Minimum());
  }
  return {self.array};
}

Results fill_with(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  const Array value = call.has("value") ? operand(call, "value").array : Array::integer({}, {0});
  if (value.elements() != 1) call.refuse("it fills with a tensor of several numbers");
  return {stretched(value.with_shape({}).to(self.type()), self.shape())};
}

// What was copied into self: stretched to it, and of its type.
Results copy(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  return {stretched(call.array("src").to(self.type()), self.shape())};
}

}  // namespace

Array stretched(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  if (broadcast(array.shape(), shape) != shape) {
    throw ShapeError("a tensor {} that does not fit into {}", shape_text(array.shape()),
                     shape_text(shape));
  }
  return array.remade(shape, [&](const auto& from) {
    std::remove_cvref_t<decltype(from)> values;
    values.reserve(elements_of(shape));
    for_each_pair(array.shape(), {}, shape, [&](size_t i, size_t) { values.push_back(from[i]); });
    return values;
  });
}

OpRules choosing_rules() {
  return {{"where", where},     {"masked_fill", masked_fill}, {"clamp", clamp},
          {"clamp_min", clamp}, {"clamp_max", clamp},         {"clip", clamp},
          {"fill", fill_with},  {"zero", fill_with},          {"copy", copy}};
}

// Complex numbers, of which rotations are often made, and their parts.

namespace {

using Complex = std::complex<double>;

Results view_as_complex(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_real(self.type()) || self.rank() == 0 || self.shape().back() != 2) {
    call.refuse("it takes pairs of real numbers");
  }
  Array::Complexes values(self.elements() / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = {self.reals()[2 * i], self.reals()[2 * i + 1]};
  }
  Shape shape = self.shape();
  shape.pop_back();
  return {Array::complex(std::move(shape), std::move(values))};
}

Results view_as_real(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_complex(self.type())) call.refuse("it takes complex numbers");
  Array::Reals values;
  values.reserve(2 * self.elements());
  for (const Complex& value : self.complexes()) {
    values.push_back(value.real());
    values.push_back(value.imag());
  }
  Shape shape = self.shape();
  shape.push_back(2);
  return {Array::real(std::move(shape), std::move(values))};
}

template <typename Function>
Results combined(const Call& call, const char* first, const char* second,
                 const Function& function) {
  const Array a = call.array(first).to(ElementType::kF64);
  const Array b = call.array(second).to(ElementType::kF64);
  const Shape shape = broadcast(a.shape(), b.shape());
  return {Array::complex(
      shape, zip<Complex>(a.shape(), a.reals(), b.shape(), b.reals(), shape, function))};
}

Results polar(const Call& call, OpBudget&) {
  return combined(call, "abs", "angle", [](double length, double angle) {
    return Complex(length * std::cos(angle), length * std::sin(angle));
  });
}

Results complex(const Call& call, OpBudget&) {
  return combined(call, "real", "imag", [](double re, double im) { return Complex(re, im); });
}

template <double (*kPart)(const Complex&)>
Results part(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  Array::Reals values;
  values.reserve(self.elements());
  for (const Complex& value : self.to_complexes()) values.push_back(kPart(value));
  return {Array::real(self.shape(), std::move(values))};
}

double real_part(const Complex& z) { return z.real(); }
double imaginary_part(const Complex& z) { return z.imag(); }
double angle_of(const Complex& z) { return std::arg(z); }

Results conjugate(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_complex(self.type())) return {self};
  Array::Complexes values = self.complexes();
  for (Complex& value : values) value = std::conj(value);
  return {Array::complex(self.shape(), std::move(values), self.type())};
}

}  // namespace

OpRules complex_rules() {
  return {{"view_as_complex", view_as_complex},
          {"view_as_real", view_as_real},
          {"polar", polar},
          {"complex", complex},
          {"real", part<real_part>},
          {"imag", part<imaginary_part>},
          {"angle", part<angle_of>},
          {"conj", conjugate},
          {"_conj", conjugate},
          {"conj_physical", conjugate}};
}

}  // namespace arenite::convert
