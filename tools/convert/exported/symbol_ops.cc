// SPDX-License-Identifier: Apache-2.0
// Arithmetic on symbolic sizes, as Python does it, and ops that only assert.
#include <algorithm>
#include <cmath>

#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

Results nothing(const CallArguments&, OpBudget&) { return {}; }

Results size(const CallArguments& call, OpBudget&) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar has no dimensions");
  return {shape[dim]};
}

Results elements(const CallArguments& call, OpBudget&) {
  return {static_cast<int64_t>(call.array("self").elements())};
}

// The one number of a tensor.
Results item(const CallArguments& call, OpBudget&) {
  const Array& self = call.array("self");
  if (self.elements() != 1) call.refuse("it takes a tensor of one number");
  if (is_real(self.type())) return {self.reals()[0]};
  if (is_integer(self.type())) return {self.integers()[0]};
  if (is_complex(self.type())) return {self.complexes()[0]};
  return {self.bools()[0] != 0};
}

// Operands have names of their own in each function, so they go by place.
const Argument& at(const CallArguments& call, size_t place) {
  if (call.call().arguments.size() <= place) call.refuse("it has too few arguments");
  return call.call().arguments[place].value;
}

bool is_real_number(const Argument& argument) { return argument.as<double>() != nullptr; }

double real(const CallArguments& call, size_t place) {
  const Argument& argument = at(call, place);
  if (const auto* number = argument.as<double>()) return *number;
  if (const auto* number = argument.as<int64_t>()) return static_cast<double>(*number);
  if (const auto* flag = argument.as<bool>()) return *flag ? 1.0 : 0.0;
  call.refuse("its argument {} is no number", place + 1);
}

int64_t integer(const CallArguments& call, size_t place) {
  const Argument& argument = at(call, place);
  if (const auto* number = argument.as<int64_t>()) return *number;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  call.refuse("its argument {} is no whole number", place + 1);
}

bool has_real(const CallArguments& call) {
  return is_real_number(at(call, 0)) || is_real_number(at(call, 1));
}

template <typename Whole, typename Real>
Results number_arithmetic(const CallArguments& call, const Whole& whole, const Real& of_reals) {
  if (has_real(call)) return {of_reals(real(call, 0), real(call, 1))};
  int64_t result = 0;
  if (whole(integer(call, 0), integer(call, 1), &result)) call.refuse("its result is too large");
  return {result};
}

Results add(const CallArguments& call, OpBudget&) {
  return number_arithmetic(
      call, [](int64_t a, int64_t b, int64_t* r) { return __builtin_add_overflow(a, b, r); },
      std::plus<>());
}

Results subtract(const CallArguments& call, OpBudget&) {
  return number_arithmetic(
      call, [](int64_t a, int64_t b, int64_t* r) { return __builtin_sub_overflow(a, b, r); },
      std::minus<>());
}

Results multiply(const CallArguments& call, OpBudget&) {
  return number_arithmetic(
      call, [](int64_t a, int64_t b, int64_t* r) { return __builtin_mul_overflow(a, b, r); },
      std::multiplies<>());
}

bool floored(int64_t a, int64_t b, int64_t* result) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return true;
  *result = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return false;
}

Results number_floor_divide(const CallArguments& call, OpBudget&) {
  return number_arithmetic(call, floored, [](double a, double b) { return std::floor(a / b); });
}

Results modulo(const CallArguments& call, OpBudget&) {
  return number_arithmetic(
      call,
      [](int64_t a, int64_t b, int64_t* r) {
        int64_t quotient = 0;
        if (floored(a, b, &quotient)) return true;
        *r = a - quotient * b;
        return false;
      },
      [](double a, double b) { return a - std::floor(a / b) * b; });
}

Results number_power(const CallArguments& call, OpBudget&) {
  const double result = std::pow(real(call, 0), real(call, 1));
  if (has_real(call) || integer(call, 1) < 0) return {result};
  if (std::abs(result) > 0x1p53) call.refuse("its result is too large");
  return {static_cast<int64_t>(result)};
}

Results true_divide(const CallArguments& call, OpBudget&) {
  return {real(call, 0) / real(call, 1)};
}

template <typename Compare>
Results number_comparison(const CallArguments& call, OpBudget&) {
  if (has_real(call)) return {bool{Compare()(real(call, 0), real(call, 1))}};
  return {bool{Compare()(integer(call, 0), integer(call, 1))}};
}

template <bool kIsLargest>
Results extreme(const CallArguments& call, OpBudget&) {
  if (has_real(call)) {
    return {kIsLargest ? std::max(real(call, 0), real(call, 1))
                       : std::min(real(call, 0), real(call, 1))};
  }
  return {kIsLargest ? std::max(integer(call, 0), integer(call, 1))
                     : std::min(integer(call, 0), integer(call, 1))};
}

Results negate(const CallArguments& call, OpBudget&) {
  if (is_real_number(at(call, 0))) return {-real(call, 0)};
  int64_t result = 0;
  if (__builtin_sub_overflow(int64_t{0}, integer(call, 0), &result)) call.refuse("too large");
  return {result};
}

Results whole(const CallArguments& call, OpBudget&) {
  if (!is_real_number(at(call, 0))) return {integer(call, 0)};
  return {Array::real({}, {std::trunc(real(call, 0))}).to_integers()[0]};
}

Results rounded_up(const CallArguments& call, OpBudget&) {
  return {Array::real({}, {std::ceil(real(call, 0))}).to_integers()[0]};
}

Results rounded_down(const CallArguments& call, OpBudget&) {
  return {Array::real({}, {std::floor(real(call, 0))}).to_integers()[0]};
}

Results as_real(const CallArguments& call, OpBudget&) { return {real(call, 0)}; }
Results root(const CallArguments& call, OpBudget&) { return {std::sqrt(real(call, 0))}; }
Results logical_not(const CallArguments& call, OpBudget&) { return {real(call, 0) == 0.0}; }
Results both(const CallArguments& call, OpBudget&) {
  return {real(call, 0) != 0.0 && real(call, 1) != 0.0};
}
Results either(const CallArguments& call, OpBudget&) {
  return {real(call, 0) != 0.0 || real(call, 1) != 0.0};
}
Results if_else(const CallArguments& call, OpBudget&) {
  return {real(call, 0) != 0.0 ? at(call, 1) : at(call, 2)};
}

}  // namespace

OpRules symbol_rules() {
  OpRules rules = {{"sym_size", size},
                   {"sym_numel", elements},
                   {"numel", elements},
                   {"item", item},
                   {"_local_scalar_dense", item},
                   {"_operator.add", add},
                   {"_operator.sub", subtract},
                   {"_operator.mul", multiply},
                   {"_operator.floordiv", number_floor_divide},
                   {"_operator.mod", modulo},
                   {"_operator.pow", number_power},
                   {"_operator.truediv", true_divide},
                   {"_operator.neg", negate},
                   {"_operator.pos", whole},
                   {"_operator.eq", number_comparison<std::equal_to<>>},
                   {"_operator.ne", number_comparison<std::not_equal_to<>>},
                   {"_operator.lt", number_comparison<std::less<>>},
                   {"_operator.le", number_comparison<std::less_equal<>>},
                   {"_operator.gt", number_comparison<std::greater<>>},
                   {"_operator.ge", number_comparison<std::greater_equal<>>},
                   {"_operator.and_", both},
                   {"_operator.or_", either},
                   {"torch.sym_max", extreme<true>},
                   {"torch.sym_min", extreme<false>},
                   {"torch.sym_int", whole},
                   {"torch.sym_float", as_real},
                   {"torch.sym_not", logical_not},
                   {"torch.sym_ite", if_else},
                   {"torch.sym_sqrt", root},
                   {"torch._sym_sqrt", root},
                   {"math.trunc", whole},
                   {"math.ceil", rounded_up},
                   {"math.floor", rounded_down}};
  for (const char* op :
       {"_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range",
        "sym_constrain_range_for_size", "_functional_assert_async"}) {
    rules[op] = nothing;
  }
  return rules;
}

}  // namespace arenite::convert
