// SPDX-License-Identifier: Apache-2.0
// Elementwise functions, arithmetic with broadcasting, selection by masks, and complex numbers.

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

using Complex = std::complex<double>;

// ---- functions of one number ----

enum class ResultKind { kReals, kSame, kBools };  // kSame: integers for integers

struct NumberFunction {
  std::string_view op;
  double (*of)(double x);
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double relu6(double x) { return std::min(std::max(x, 0.0), 6.0); }
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }
double sign(double x) { return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : 0.0); }
double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2)); }
double tanh_gelu(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}
double selu(double x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;  // of the paper, as in PyTorch
  constexpr double kScale = 1.0507009873554804934193349852946;
  return x > 0.0 ? kScale * x : kScale * kAlpha * std::expm1(x);
}

constexpr NumberFunction kRealFunctions[] = {
    {"exp", std::exp},     {"exp2", std::exp2},  {"expm1", std::expm1},
    {"log", std::log},     {"log2", std::log2},  {"log10", std::log10},
    {"log1p", std::log1p}, {"sqrt", std::sqrt},  {"sin", std::sin},
    {"cos", std::cos},     {"tan", std::tan},    {"asin", std::asin},
    {"acos", std::acos},   {"atan", std::atan},  {"sinh", std::sinh},
    {"cosh", std::cosh},   {"tanh", std::tanh},  {"erf", std::erf},
    {"erfc", std::erfc},   {"sigmoid", sigmoid}, {"log_sigmoid", log_sigmoid},
    {"selu", selu}};

constexpr NumberFunction kRealFormulas[] = {
    {"rsqrt", [](double x) { return 1.0 / std::sqrt(x); }},
    {"silu", [](double x) { return x * sigmoid(x); }},
    {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {"hardsigmoid", [](double x) { return relu6(x + 3.0) / 6.0; }},
    {"hardswish", [](double x) { return x * relu6(x + 3.0) / 6.0; }},
    {"softsign", [](double x) { return x / (1.0 + std::abs(x)); }},
    {"tanhshrink", [](double x) { return x - std::tanh(x); }},
    {"reciprocal", [](double x) { return 1.0 / x; }},
    {"frac", [](double x) { return x - std::trunc(x); }}};

constexpr NumberFunction kSameFunctions[] = {
    {"relu", [](double x) { return x > 0.0 || std::isnan(x) ? x : 0.0; }},
    {"square", [](double x) { return x * x; }},
    {"neg", [](double x) { return -x; }},
    {"floor", std::floor},
    {"ceil", std::ceil},
    {"trunc", std::trunc},
    {"round", [](double x) { return x - std::remainder(x, 1.0); }},
    {"relu6", relu6},
    {"sign", sign}};

// Predicates give 1 where they hold, else 0.
constexpr NumberFunction kTests[] = {
    {"isnan", [](double x) -> double { return std::isnan(x); }},
    {"isinf", [](double x) -> double { return std::isinf(x); }},
    {"isfinite", [](double x) -> double { return std::isfinite(x); }},
    {"isneginf", [](double x) -> double { return std::isinf(x) && x < 0.0; }},
    {"isposinf", [](double x) -> double { return std::isinf(x) && x > 0.0; }}};

using Parameters = std::array<double, 3>;

double softplus(double x, const Parameters& p) {
  return x * p[0] > p[1] ? x : std::log1p(std::exp(x * p[0])) / p[0];
}
double elu(double x, const Parameters& p) {
  return x > 0.0 ? p[1] * x : p[1] * p[0] * std::expm1(p[2] * x);
}
double celu(double x, const Parameters& p) { return x > 0.0 ? x : p[0] * std::expm1(x / p[0]); }
double leaky_relu(double x, const Parameters& p) { return x > 0.0 ? x : p[0] * x; }
double hardtanh(double x, const Parameters& p) { return std::min(std::max(x, p[0]), p[1]); }
double threshold(double x, const Parameters& p) { return x > p[0] ? x : p[1]; }
double hardshrink(double x, const Parameters& p) { return std::abs(x) > p[0] ? x : 0.0; }
double softshrink(double x, const Parameters& p) {
  return x > p[0] ? x - p[0] : (x < -p[0] ? x + p[0] : 0.0);
}
double nan_to_num(double x, const Parameters& p) {
  return std::isnan(x) ? p[0] : (std::isfinite(x) ? x : (x > 0.0 ? p[1] : p[2]));
}

struct ParameterFunction {
  std::string_view op;
  double (*of)(double x, const Parameters& p);
  std::array<Parameter, 3> parameters;
};
constexpr double kLargest = 3.4028234663852886e38;  // maximum of float32, the usual type
constexpr ParameterFunction kParameterFunctions[] = {
    {"softplus", softplus, {{{"beta", 1.0}, {"threshold", 20.0}}}},
    {"leaky_relu", leaky_relu, {{{"negative_slope", 0.01}}}},
    {"elu", elu, {{{"alpha", 1.0}, {"scale", 1.0}, {"input_scale", 1.0}}}},
    {"celu", celu, {{{"alpha", 1.0}}}},
    {"hardtanh", hardtanh, {{{"min_val", -1.0}, {"max_val", 1.0}}}},
    {"threshold", threshold, {{{"threshold"}, {"value"}}}},
    {"hardshrink", hardshrink, {{{"lambd", 0.5}}}},
    {"softshrink", softshrink, {{{"lambd", 0.5}}}},
    {"nan_to_num", nan_to_num, {{{"nan", 0.0}, {"posinf", kLargest}, {"neginf", -kLargest}}}}};

template <typename Function>
Results each_number(const Call& call, ResultKind gives, const Function& function) {
  const Array& self = gives == ResultKind::kBools ? call.array("self") : real_array(call, "self");
  ElementType type = gives == ResultKind::kBools ? ElementType::kBool : self.type();
  if (gives == ResultKind::kReals) type = real_type(type);
  if (gives == ResultKind::kSame && type == ElementType::kBool)
    call.refuse("found a tensor of {}: expected numbers", name(type));
  Array::Reals values = self.to_reals();
  for (double& value : values) value = function(value);
  return {Array::real(self.shape(), std::move(values), ElementType::kF64).to(type)};
}

Results with_parameters(const Call& call, const ParameterFunction& row) {
  Parameters p{};
  for (size_t i = 0; i < p.size(); ++i) p[i] = value_of(call, row.parameters[i]);
  return each_number(call, ResultKind::kReals, [&](double x) { return row.of(x, p); });
}

template <ResultKind kGives>
Results each_by(const Call& call, const NumberFunction& row) {
  if (call.integer("decimals", 0) != 0)
    call.refuse("round with decimals is not supported: scale, round and scale back");
  return each_number(call, kGives, row.of);
}

Results gelu_of(const Call& call, OpBudget&) {
  const std::string kind = call.text("approximate", "none");
  if (kind != "none" && kind != "tanh") {
    call.refuse("approximate='{}' is not supported: expected 'none' or 'tanh'", printable(kind));
  }
  return each_number(call, ResultKind::kReals, kind == "none" ? gelu : tanh_gelu);
}

// Applies one slope, or one slope for each channel (dimension 1).
Results prelu(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  const Array& slopes = call.array("weight");
  const int64_t channels = self.rank() < 2 ? 1 : self.shape()[1];
  const auto given = static_cast<int64_t>(slopes.elements());
  if (given != 1 && given != channels) {
    call.refuse("found {} slopes: expected 1 or {}", given, channels);
  }
  Shape shape(self.rank(), 1);
  if (self.rank() > 1) shape[1] = given;
  const Array::Reals each = stretched(slopes.with_shape(shape), self.shape()).to_reals();
  Array::Reals values = self.to_reals();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > 0.0)) values[i] *= each[i];
  }
  return {Array::real(self.shape(), std::move(values), self.type())};
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

Results converted(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (call.has("other")) return {self.to(call.array("other").type())};
  return {self.to(call.type("dtype").value_or(self.type()))};
}

// ---- arithmetic, comparisons and logic of two operands ----

int rank_of(const Operand& operand) {
  return operand.is_number ? 0 : operand.array.rank() == 0 ? 1 : 2;
}

// Returns the result type by PyTorch's promotion: tensors with dimensions take precedence over
// scalar tensors, and these over numbers.
ElementType result_type(const Operand& a, const Operand& b) {
  const Operand& first = rank_of(a) >= rank_of(b) ? a : b;
  const Operand& second = rank_of(a) >= rank_of(b) ? b : a;
  const ElementType type = first.array.type(), other = second.array.type();
  if (rank_of(first) == rank_of(second)) return promote(type, other);
  return kind_of(other) > kind_of(type) ? promote(type, other) : type;
}

// Returns a row-major array that gives `array` broadcast to `shape` when repeated. Masks and
// biases, whose dimensions are the trailing ones, are thus not copied for each row.
Array repeated(const Array& array, const Shape& shape) {
  const Shape& own = array.shape();
  const auto first = std::ranges::find_if(own, [](int64_t extent) { return extent != 1; });
  const bool is_end = own.end() - first <= std::ssize(shape) &&
                      std::equal(first, own.end(), shape.end() - (own.end() - first));
  return is_end ? array : stretched(array, shape);
}

// Returns function(a, b) of all broadcast pairs, converted to `as`, whose C++ type is T.
template <typename Result, typename T, typename Function>
std::vector<Result> pairs(const Operand& a, const Operand& b, const Shape& shape, ElementType as,
                          const Function& function) {
  const Array x = repeated(a.array.to(as), shape), y = repeated(b.array.to(as), shape);
  std::vector<Result> results(elements_of(shape));
  const std::vector<T>&first = x.values<T>(), &second = y.values<T>();
  size_t i = 0, j = 0;
  for (Result& result : results) {
    result = function(first[i], second[j]);
    if (++i == first.size()) i = 0;
    if (++j == second.size()) j = 0;
  }
  return results;
}

// Integers wrap around instead of overflowing.
int64_t as_signed(uint64_t bits) { return static_cast<int64_t>(bits); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

// Integer division. A divisor of 0, which PyTorch refuses, gives 0.
int64_t truncated(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? as_signed(0 - bits(a)) : a / b;
}
int64_t floored(int64_t a, int64_t b) {
  const int64_t quotient = truncated(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double remainder_of(double a, double b) {  // with the sign of the divisor
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

int64_t power_of(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  uint64_t power = 1;
  for (uint64_t base = bits(a), left = bits(b); left != 0; left >>= 1, base *= base) {
    if (left % 2 != 0) power *= base;
  }
  return as_signed(power);
}

struct Arithmetic {
  std::string_view op;
  double (*reals)(double, double);
  int64_t (*wholes)(int64_t, int64_t) = nullptr;     // null: integers give reals
  Complex (*complexes)(Complex, Complex) = nullptr;  // null: refused
};

constexpr Arithmetic kAdd = {"add", [](double a, double b) { return a + b; },
                             [](int64_t a, int64_t b) { return as_signed(bits(a) + bits(b)); },
                             [](Complex a, Complex b) { return a + b; }};
constexpr Arithmetic kSubtract = {"sub", [](double a, double b) { return a - b; },
                                  [](int64_t a, int64_t b) { return as_signed(bits(a) - bits(b)); },
                                  [](Complex a, Complex b) { return a - b; }};
constexpr Arithmetic kMultiply = {"mul", [](double a, double b) { return a * b; },
                                  [](int64_t a, int64_t b) { return as_signed(bits(a) * bits(b)); },
                                  [](Complex a, Complex b) {
                                    return Complex(a.real() * b.real() - a.imag() * b.imag(),
                                                   a.real() * b.imag() + a.imag() * b.real());
                                  }};
constexpr Arithmetic kDivide = {"div", [](double a, double b) { return a / b; }, truncated,
                                [](Complex a, Complex b) { return a / b; }};
constexpr Arithmetic kTruncate = {"div", [](double a, double b) { return std::trunc(a / b); },
                                  truncated};
constexpr Arithmetic kFloorDivide = {"floor_divide",
                                     [](double a, double b) { return std::floor(a / b); }, floored};
constexpr Arithmetic kMaximum = {"maximum",
                                 [](double a, double b) { return std::isnan(a) || a > b ? a : b; },
                                 [](int64_t a, int64_t b) { return std::max(a, b); }};
constexpr Arithmetic kMinimum = {"minimum",
                                 [](double a, double b) { return std::isnan(a) || a < b ? a : b; },
                                 [](int64_t a, int64_t b) { return std::min(a, b); }};
constexpr Arithmetic kArithmetic[] = {
    kAdd,
    kSubtract,
    {"rsub", kSubtract.reals, kSubtract.wholes, kSubtract.complexes},
    kMultiply,
    kFloorDivide,
    {"remainder", remainder_of,
     [](int64_t a, int64_t b) { return as_signed(bits(a) - bits(floored(a, b)) * bits(b)); }},
    {"fmod", [](double a, double b) { return std::fmod(a, b); },
     [](int64_t a, int64_t b) { return as_signed(bits(a) - bits(truncated(a, b)) * bits(b)); }},
    kMaximum,
    kMinimum,
    {"pow", [](double a, double b) { return std::pow(a, b); }, power_of},
    {"atan2", [](double y, double x) { return std::atan2(y, x); }}};

// Computes one op. Bools count as integers; the result type follows PyTorch's promotion.
Array computed(const Call& call, const Arithmetic& row, const Operand& a, const Operand& b,
               ElementType type) {
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  if (row.wholes == nullptr) type = real_type(type);
  if (is_complex(type)) {
    if (row.complexes == nullptr)
      call.refuse("complex numbers are not supported by this op: use real and imaginary parts");
    const auto values =
        pairs<Complex, Complex>(a, b, shape, ElementType::kComplex128, row.complexes);
    return Array::complex(shape, values, type);
  }
  if (is_real(type)) {
    return Array::real(shape, pairs<double, double>(a, b, shape, ElementType::kF64, row.reals),
                       type);
  }
  const auto values = pairs<int64_t, int64_t>(a, b, shape, ElementType::kI64, row.wholes);
  return Array::integer(shape, values).to(type);
}

// Computes self OP alpha * other; rsub is other - alpha * self.
Results arithmetic(const Call& call, const Arithmetic& row) {
  Operand a = operand(call, "self");
  Operand b = operand(call, call.find("exponent") != nullptr ? "exponent" : "other");
  if (row.op == "rsub") std::swap(a, b);
  const ElementType type = result_type(a, b);
  if (call.has("alpha")) b.array = computed(call, kMultiply, b, operand(call, "alpha"), type);
  return {computed(call, row, a, b, type)};
}

Results divide(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = result_type(a, b);
  const std::string rounding = call.text("rounding_mode", "");
  if (rounding.empty()) return {computed(call, kDivide, a, b, real_type(type))};
  if (rounding == "floor") return {computed(call, kFloorDivide, a, b, type)};
  if (rounding == "trunc") return {computed(call, kTruncate, a, b, type)};
  call.refuse("rounding_mode='{}' is not supported: expected None, 'floor' or 'trunc'",
              printable(rounding));
}

struct Comparison {
  std::string_view op;
  bool less, equal, greater, unordered;  // result for each order of operands
};

constexpr Comparison kComparisons[] = {
    {"eq", false, true, false, false}, {"ne", true, false, true, true},
    {"lt", true, false, false, false}, {"le", true, true, false, false},
    {"gt", false, false, true, false}, {"ge", false, true, true, false}};

Results comparison(const Call& call, const Comparison& row) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = result_type(a, b);
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  const auto compare = [&](auto x, auto y) {
    return uint8_t{x < y ? row.less : x == y ? row.equal : x > y ? row.greater : row.unordered};
  };
  if (is_complex(type))
    call.refuse("complex numbers are not supported by this op: use real and imaginary parts");
  if (is_real(type)) {
    const auto bools = pairs<uint8_t, double>(a, b, shape, ElementType::kF64, compare);
    return {Array::boolean(shape, bools)};
  }
  const auto bools = pairs<uint8_t, int64_t>(a, b, shape, ElementType::kI64, compare);
  return {Array::boolean(shape, bools)};
}

// PyTorch shifts all bits out if the shift is outside [0, 63].
int64_t shifted_left(int64_t a, int64_t by) {
  return by < 0 || by > 63 ? 0 : as_signed(bits(a) << by);
}
int64_t shifted_right(int64_t a, int64_t by) { return a >> (by < 0 || by > 63 ? 63 : by); }

struct Logic {
  std::string_view op;
  int64_t (*of)(int64_t, int64_t);
};

constexpr Logic kLogic[] = {{"logical_and", [](int64_t a, int64_t b) { return a & b; }},
                            {"logical_or", [](int64_t a, int64_t b) { return a | b; }},
                            {"logical_xor", [](int64_t a, int64_t b) { return a ^ b; }},
                            {"bitwise_and", [](int64_t a, int64_t b) { return a & b; }},
                            {"bitwise_or", [](int64_t a, int64_t b) { return a | b; }},
                            {"bitwise_xor", [](int64_t a, int64_t b) { return a ^ b; }},
                            {"bitwise_left_shift", shifted_left},
                            {"bitwise_right_shift", shifted_right}};

Results logic(const Call& call, const Logic& row) {
  Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = row.op.starts_with("logical") ? ElementType::kBool : result_type(a, b);
  if (kind_of(type) > kind_of(ElementType::kI64)) {
    call.refuse("expected integers or bools");
  }
  for (Operand* each : {&a, &b}) each->array = each->array.to(type);
  return {computed(call, {row.op, nullptr, row.of}, a, b, type)};
}

// Computes self + weight * (end - self).
Results interpolate(const Call& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "end"), w = operand(call, "weight");
  const ElementType type = result_type(a, b);
  const Operand difference = {computed(call, kSubtract, b, a, type)};
  const Operand part = {computed(call, kMultiply, difference, w, type)};
  return {computed(call, kAdd, a, part, type)};
}

// Computes self + value * tensor1 * tensor2, or / tensor2.
Results add_quotient_or_product(const Call& call, OpBudget&) {
  const Operand self = operand(call, "self");
  const Operand a = operand(call, "tensor1"), b = operand(call, "tensor2");
  const ElementType type = promote(result_type(self, a), result_type(self, b));
  Operand part = {computed(call, call.op == "addcmul" ? kMultiply : kDivide, a, b, type)};
  if (call.has("value")) {
    part.array = computed(call, kMultiply, part, operand(call, "value"), type);
  }
  return {computed(call, kAdd, self, part, type)};
}

// ---- selection by a condition, a mask or a limit ----

// Returns self where the condition holds, other elsewhere, both as `type`.
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
  for (const bool is_least : {true, false}) {
    const char* const limit_name = is_least ? "min" : "max";
    if (!call.has(limit_name)) continue;
    const Operand limit = operand(call, limit_name);
    self.array =
        computed(call, is_least ? kMaximum : kMinimum, self, limit, result_type(self, limit));
  }
  return {self.array};
}

// Counts the sorted boundaries below each element; with `right`, also those equal to it. Refuses
// elements so close to a boundary that rounding to float32 decides.
Results bucketize(const Call& call, OpBudget&) {
  constexpr double kRounding = 1e-6;
  const Array::Reals boundaries = real_array(call, "boundaries").to_reals();
  const Array self = operand(call, "self").array;
  const bool are_exact = std::ranges::all_of(boundaries, [](double each) {
    return static_cast<double>(static_cast<float>(each)) == each;
  });
  Array::Integers places;
  for (const double number : self.to_reals()) {
    const auto from = boundaries.begin(), end = boundaries.end();
    const double error = kRounding * std::fabs(number);
    const auto after = std::upper_bound(from, end, number + error);
    for (auto near = std::lower_bound(from, end, number - error); near != after; ++near) {
      if (*near != number || !are_exact)
        call.refuse(
            "rounding to float32 decides on which side of boundary {} the value {} is: move the "
            "boundary",
            *near, number);
    }
    const auto place = call.flag("right", false) ? std::upper_bound(from, end, number)
                                                 : std::lower_bound(from, end, number);
    places.push_back(place - boundaries.begin());
  }
  return {Array::integer(self.shape(), std::move(places))};
}

Results fill_with(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  const Array value = call.has("value") ? operand(call, "value").array : Array::integer({}, {0});
  if (value.elements() != 1) call.refuse("expected a fill value with one element");
  return {stretched(value.with_shape({}).to(self.type()), self.shape())};
}

// Copies src over self, broadcast to self's shape and converted to its type.
Results copy(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  return {stretched(call.array("src").to(self.type()), self.shape())};
}

// ---- complex numbers, which rotary embeddings use ----

Results view_as_complex(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_real(self.type()) || self.rank() == 0 || self.shape().back() != 2) {
    call.refuse("expected real numbers with a last dimension of 2");
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
  if (!is_complex(self.type())) call.refuse("expected complex numbers");
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

struct ComplexOf {
  std::string_view op;
  const char *first, *second;
  Complex (*of)(double, double);
};
constexpr ComplexOf kComplexOf[] = {
    {"polar", "abs", "angle",
     [](double r, double t) { return Complex(r * std::cos(t), r * std::sin(t)); }},
    {"complex", "real", "imag", [](double re, double im) { return Complex(re, im); }}};

Results complex_of(const Call& call, const ComplexOf& row) {
  const Operand a = {call.array(row.first)}, b = {call.array(row.second)};
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  return {Array::complex(shape, pairs<Complex, double>(a, b, shape, ElementType::kF64, row.of))};
}

struct ComplexPart {
  std::string_view op;
  double (*of)(const Complex&);
};
constexpr ComplexPart kComplexParts[] = {{"real", [](const Complex& z) { return z.real(); }},
                                         {"imag", [](const Complex& z) { return z.imag(); }},
                                         {"angle", [](const Complex& z) { return std::arg(z); }}};

Results complex_part(const Call& call, const ComplexPart& row) {
  const Array& self = call.array("self");
  const Array::Complexes values = self.to_complexes();
  Array::Reals parts(values.size());
  std::ranges::transform(values, parts.begin(), row.of);
  return {Array::real(self.shape(), std::move(parts))};
}

Results absolute(const Call& call, OpBudget&) {
  if (is_complex(call.array("self").type())) {
    return complex_part(call, {"abs", [](const Complex& z) { return std::abs(z); }});
  }
  return each_number(call, ResultKind::kSame, [](double x) { return std::abs(x); });
}

Results conjugate(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (!is_complex(self.type())) return {self};
  Array::Complexes values = self.complexes();
  for (Complex& value : values) value = std::conj(value);
  return {Array::complex(self.shape(), std::move(values), self.type())};
}

}  // namespace

const Array& real_array(const Call& call, std::string_view name) {
  const Array& array = call.array(name);
  if (is_complex(array.type()))
    call.refuse("complex numbers are not supported by this op: use real and imaginary parts");
  return array;
}

Operand operand(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  if (argument == nullptr) call.refuse("argument '{}' is missing", name);
  if (const auto* array = argument->as<Array>()) return {*array};
  if (const auto* real = argument->as<double>()) return {Array::real({}, {*real}), true};
  if (const auto* whole = argument->as<int64_t>()) return {Array::integer({}, {*whole}), true};
  if (const auto* complex = argument->as<Complex>()) return {Array::complex({}, {*complex}), true};
  if (const auto* flag = argument->as<bool>()) {
    return {Array::boolean({}, {static_cast<uint8_t>(*flag)}), true};
  }
  call.refuse("argument '{}': expected a number or a tensor", name);
}

OpRules elementwise_rules() {
  OpRules rules;
  add_rows(rules, kRealFunctions, each_by<ResultKind::kReals>);
  add_rows(rules, kRealFormulas, each_by<ResultKind::kReals>);
  add_rows(rules, kSameFunctions, each_by<ResultKind::kSame>);
  add_rows(rules, kTests, each_by<ResultKind::kBools>);
  add_rows(rules, kParameterFunctions, with_parameters);
  add_rows(rules, kArithmetic, arithmetic);
  add_rows(rules, kComparisons, comparison);
  add_rows(rules, kLogic, logic);
  add_rows(rules, kComplexOf, complex_of);
  add_rows(rules, kComplexParts, complex_part);
  for (const auto& [op, rule] : OpRules{{"gelu", gelu_of},
                                        {"abs", absolute},
                                        {"prelu", prelu},
                                        {"logical_not", not_of},
                                        {"bitwise_not", not_of},
                                        {"to", converted},
                                        {"div", divide},
                                        {"lerp", interpolate},
                                        {"addcmul", add_quotient_or_product},
                                        {"addcdiv", add_quotient_or_product},
                                        {"where", where},
                                        {"masked_fill", masked_fill},
                                        {"clamp", clamp},
                                        {"fill", fill_with},
                                        {"bucketize", bucketize},
                                        {"zero", fill_with},
                                        {"copy", copy},
                                        {"view_as_complex", view_as_complex},
                                        {"view_as_real", view_as_real},
                                        {"conj", conjugate}}) {
    rules[op] = rule;
  }
  return rules;
}

}  // namespace arenite::convert
