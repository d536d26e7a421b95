// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons and logic of two operands, stretched to one shape.
#include <algorithm>
#include <cmath>

#include "convert/exported/broadcasting.h"
#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

using Complex = std::complex<double>;

int rank_of(const Operand& operand) {
  return operand.is_number ? 0 : operand.array.rank() == 0 ? 1 : 2;
}

template <typename T>
const std::vector<T>& elements(const Array& array) {
  if constexpr (std::is_same_v<T, double>) return array.reals();
  if constexpr (std::is_same_v<T, int64_t>) return array.integers();
  if constexpr (std::is_same_v<T, Complex>) return array.complexes();
  if constexpr (std::is_same_v<T, uint8_t>) return array.bools();
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
  return zip<Result>(x.shape(), elements<T>(x), y.shape(), elements<T>(y), shape, function);
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
Array arithmetic(const CallArguments& call, const Operand& a, const Operand& b, ElementType type,
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
Results arithmetic_rule(const CallArguments& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  return {arithmetic(call, a, b, result_type(a, b), Function())};
}

// self + alpha * other
template <typename Function>
Results with_alpha(const CallArguments& call, OpBudget&) {
  Operand a = operand(call, "self"), b = operand(call, "other");
  if (call.call().op == "rsub") std::swap(a, b);
  const ElementType type = result_type(a, b);
  if (call.has("alpha")) {
    const Operand alpha = operand(call, "alpha");
    const bool is_self = call.call().op == "rsub";  // then the second operand is "self"
    b.array =
        arithmetic(call, b, alpha, is_self ? type : promote(b.array.type(), type), Multiply());
  }
  return {arithmetic(call, a, b, type, Function())};
}

Results divide(const CallArguments& call, OpBudget&) {
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

Results power(const CallArguments& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "exponent");
  return {arithmetic(call, a, b, result_type(a, b), Power())};
}

Results arctangent(const CallArguments& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  return {Array::real(shape, combined<double, double>(a, b, shape, [](double y, double x) {
                        return std::atan2(y, x);
                      }))};
}

template <typename Compare>
Results comparison(const CallArguments& call, OpBudget&) {
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
Results logic(const CallArguments& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  const auto function = [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(Function()(x, y)); };
  return {Array::boolean(shape, combined<uint8_t, uint8_t>(a, b, shape, function))};
}

template <typename Function>
Results bitwise(const CallArguments& call, OpBudget& budget) {
  const Operand a = operand(call, "self"), b = operand(call, "other");
  const ElementType type = result_type(a, b);
  if (type == ElementType::kBool) return logic<Function>(call, budget);
  if (!is_integer(type)) call.refuse("it takes whole numbers and bools alone");
  const Shape shape = broadcast(a.array.shape(), b.array.shape());
  return {Array::integer(shape, combined<int64_t, int64_t>(a, b, shape, Function())).to(type)};
}

// self + weight * (end - self)
Results lerp(const CallArguments& call, OpBudget&) {
  const Operand a = operand(call, "self"), b = operand(call, "end"), w = operand(call, "weight");
  const ElementType type = result_type(a, b);
  const Operand difference = {arithmetic(call, b, a, type, Subtract())};
  const Operand part = {arithmetic(call, difference, w, type, Multiply())};
  return {arithmetic(call, a, part, type, Add())};
}

// self + value * tensor1 * tensor2, or / tensor2
Results add_product(const CallArguments& call, OpBudget&) {
  const Operand self = operand(call, "self");
  const Operand a = operand(call, "tensor1"), b = operand(call, "tensor2");
  const ElementType type = promote(result_type(self, a), result_type(self, b));
  const Operand value =
      call.has("value") ? operand(call, "value") : Operand{Array::integer({}, {1}), true};
  Operand part;
  if (call.call().op == "addcmul") {
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

Operand operand(const CallArguments& call, std::string_view name) {
  const Argument* argument = call.call().find(name);
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

}  // namespace arenite::convert
