// SPDX-License-Identifier: Apache-2.0
// Arrays that are made of numbers, and arithmetic on symbolic numbers.

#include <algorithm>
#include <cmath>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
// Arrays made of numbers alone.

namespace {

constexpr int64_t kSideOfTriangles = int64_t{1} << 40;  // more than any has

// `value` in all of `shape`.
Array filled(const Shape& shape, const Array& value, ElementType type, OpBudget& budget) {
  budget.take_elements(elements_of(shape));
  const Array result = stretched(value.with_shape({}).to(type), shape);
  budget.give_back(elements_of(shape));  // apply_op takes results off
  return result;
}

Array number(const Call& call, const char* name) {
  const Array value = operand(call, name).array;
  if (value.elements() != 1) call.refuse("its argument '{}' is no number", name);
  return value;
}

int64_t constant_of(std::string_view op) {
  return op.find("ones") != std::string_view::npos ? 1 : 0;
}

// zeros, ones, empty and full, with a size of their own or that of a tensor.
Results fill(const Call& call, OpBudget& budget) {
  const std::string& op = call.op;
  const bool is_full = op.find("full") != std::string::npos;
  const bool is_like = op.ends_with("_like"), is_new = op.starts_with("new_");
  const Array value = is_full ? number(call, "fill_value") : Array::integer({}, {constant_of(op)});
  ElementType type = is_full && !is_integer(value.type()) ? value.type() : ElementType::kF32;
  if (is_full && is_integer(value.type())) type = ElementType::kI64;
  if (is_like || is_new) type = call.array("self").type();
  const Shape shape = is_like ? call.array("self").shape() : Shape(call.integers("size"));
  return {filled(shape, value, call.type("dtype").value_or(type), budget)};
}

Results scalar_tensor(const Call& call, OpBudget& budget) {
  return {filled({}, number(call, "s"), call.type("dtype").value_or(ElementType::kF32), budget)};
}

Results arange(const Call& call, OpBudget& budget) {
  const auto given = [&](const char* name, int64_t default_value) {
    return call.has(name) ? number(call, name) : Array::integer({}, {default_value});
  };
  const Array start = given("start", 0), end = given("end", 0), step = given("step", 1);
  const bool is_whole = !is_real(start.type()) && !is_real(end.type()) && !is_real(step.type());
  const ElementType type =
      call.type("dtype").value_or(is_whole ? ElementType::kI64 : ElementType::kF32);
  const double first = start.to_reals()[0], by = step.to_reals()[0];
  const double count = std::ceil((end.to_reals()[0] - first) / by);
  if (!(count >= 0.0) || count > static_cast<double>(kExportedElementsMax)) {
    call.refuse("it counts from {} to {} by {}", first, end.to_reals()[0], by);
  }
  const auto elements = static_cast<int64_t>(count);
  budget.take_elements(static_cast<uint64_t>(elements));
  Array::Reals values(static_cast<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + by * static_cast<double>(i);
  budget.give_back(static_cast<uint64_t>(elements));
  return {Array::real({elements}, std::move(values), ElementType::kF64).to(type)};
}

Results linspace(const Call& call, OpBudget& budget) {
  const double start = number(call, "start").to_reals()[0];
  const double end = number(call, "end").to_reals()[0];
  const int64_t steps = call.integer("steps");
  const size_t count = elements_of({steps});
  budget.take_elements(count);
  Array::Reals values(count);
  for (size_t i = 0; i < count; ++i) {
    const double part = count < 2 ? 0.0 : static_cast<double>(i) / static_cast<double>(count - 1);
    values[i] = start + (end - start) * part;
  }
  budget.give_back(count);
  const ElementType type = call.type("dtype").value_or(ElementType::kF32);
  return {Array::real({steps}, std::move(values), ElementType::kF64).to(type)};
}

Results eye(const Call& call, OpBudget& budget) {
  const int64_t rows = call.integer("n"), columns = call.integer("m", rows);
  const size_t count = elements_of({rows, columns});
  budget.take_elements(count);
  Array::Reals values(count, 0.0);
  for (int64_t i = 0; i < std::min(rows, columns); ++i) {
    values[static_cast<size_t>(i * columns + i)] = 1.0;
  }
  budget.give_back(count);
  const ElementType type = call.type("dtype").value_or(ElementType::kF32);
  return {Array::real({rows, columns}, std::move(values), ElementType::kF64).to(type)};
}

// tril_indices and triu_indices: rows, and columns, of the elements of a triangle.
Results triangle_indices(const Call& call, OpBudget& budget) {
  const int64_t rows = call.integer("row"), columns = call.integer("col");
  const int64_t offset = std::clamp(call.integer("offset", 0), -kSideOfTriangles, kSideOfTriangles);
  budget.take_elements(2 * elements_of({rows, columns}));
  budget.give_back(2 * elements_of({rows, columns}));
  const bool is_lower = call.op == "tril_indices";
  Array::Integers row_numbers, column_numbers;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (is_lower ? c - r > offset : c - r < offset) continue;
      row_numbers.push_back(r);
      column_numbers.push_back(c);
    }
  }
  const auto count = static_cast<int64_t>(row_numbers.size());
  row_numbers.insert(row_numbers.end(), column_numbers.begin(), column_numbers.end());
  return {Array::integer({2, count}, std::move(row_numbers))};
}

Results one_hot(const Call& call, OpBudget& budget) {
  const Array& self = call.array("self");
  if (!is_integer(self.type())) call.refuse("it takes whole numbers");
  int64_t classes = call.integer("num_classes", -1);
  for (const int64_t value : self.integers()) {
    if (classes < 0) call.refuse("the number of its classes depends on data: give num_classes");
    if (value < 0 || value >= classes) call.refuse("class {} of {}", value, classes);
  }
  Shape shape = self.shape();
  shape.push_back(classes);
  const size_t count = elements_of(shape);
  budget.take_elements(count);
  Array::Integers values(count, 0);
  for (size_t i = 0; i < self.integers().size(); ++i) {
    values[i * static_cast<size_t>(classes) + static_cast<size_t>(self.integers()[i])] = 1;
  }
  budget.give_back(count);
  return {Array::integer(std::move(shape), std::move(values))};
}

}  // namespace

OpRules creation_rules() {
  OpRules rules = {{"arange", arange},
                   {"linspace", linspace},
                   {"eye", eye},
                   {"scalar_tensor", scalar_tensor},
                   {"tril_indices", triangle_indices},
                   {"triu_indices", triangle_indices},
                   {"one_hot", one_hot}};
  for (const char* op : {"zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like",
                         "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}) {
    rules[op] = fill;
  }
  return rules;
}

// What torch.vmap leaves in a program: single numbers that stand for whole rows of them. Between
// its first and its last op the dimension of level n is the n-th from the back, so that numbers of
// several levels are stretched to each other as arrays are.

namespace {

constexpr int64_t kLevelsMax = 8;

const Argument* argument(const Call& call, size_t place) {
  const auto& arguments = call.arguments;
  return place < arguments.size() ? &arguments[place].value : nullptr;
}

int64_t level_argument(const Call& call, size_t place) {
  const Argument* given = argument(call, place);
  if (given == nullptr || given->as<int64_t>() == nullptr) call.refuse("its numbers are missing");
  return *given->as<int64_t>();
}

const Array& tensor(const Call& call) {
  const Argument* given = argument(call, 0);
  if (given == nullptr || given->as<Array>() == nullptr) call.refuse("its tensor is missing");
  return *given->as<Array>();
}

// _add_batch_dim(tensor, dim, level)
Results add_batch_dim(const Call& call, OpBudget&) {
  const Array& self = tensor(call);
  const int64_t level = level_argument(call, 2);
  if (self.rank() != 1 || level_argument(call, 1) != 0 || level < 1 || level > kLevelsMax) {
    call.refuse("torch.vmap of more than single numbers is not understood");
  }
  Shape shape(static_cast<size_t>(level), 1);
  shape[0] = self.shape()[0];
  return {self.with_shape(shape)};
}

// _remove_batch_dim(tensor, level, size, out_dim): the last of them puts levels in their order.
Results remove_batch_dim(const Call& call, OpBudget& budget) {
  const Array& self = tensor(call);
  const int64_t level = level_argument(call, 1), size = level_argument(call, 2);
  if (level < 1 || level > kLevelsMax || level_argument(call, 3) != 0) {
    call.refuse("torch.vmap of more than single numbers is not understood");
  }
  Shape shape = self.shape();
  while (shape.size() < static_cast<size_t>(level)) shape.insert(shape.begin(), 1);
  int64_t& extent = shape[shape.size() - static_cast<size_t>(level)];
  if (extent == 1) extent = size;  // another one is that of this length
  const Array all = stretched(self, shape);
  if (level > 1) return {all};
  Argument::List dims;
  for (size_t d = shape.size(); d-- > 0;) dims.emplace_back(static_cast<int64_t>(d));
  const Call turn = {"permute", "default", {}, {{"self", all}, {"dims", std::move(dims)}}, {}};
  return {apply_for_array(turn, budget)};
}

}  // namespace

OpRules batched_rules() {
  return {{"torch._functorch.predispatch._add_batch_dim", add_batch_dim},
          {"torch._functorch.predispatch._remove_batch_dim", remove_batch_dim}};
}

// Arithmetic on symbolic sizes, as Python does it, and ops that only assert.

namespace {

Results nothing(const Call&, OpBudget&) { return {}; }

Results size(const Call& call, OpBudget&) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("a scalar has no dimensions");
  return {shape[dim]};
}

Results elements(const Call& call, OpBudget&) {
  return {static_cast<int64_t>(call.array("self").elements())};
}

// The one number of a tensor.
Results item(const Call& call, OpBudget&) {
  const Array& self = call.array("self");
  if (self.elements() != 1) call.refuse("it takes a tensor of one number");
  if (is_real(self.type())) return {self.reals()[0]};
  if (is_integer(self.type())) return {self.integers()[0]};
  if (is_complex(self.type())) return {self.complexes()[0]};
  return {self.bools()[0] != 0};
}

// Operands have names of their own in each function, so they go by place.
const Argument& at(const Call& call, size_t place) {
  if (call.arguments.size() <= place) call.refuse("it has too few arguments");
  return call.arguments[place].value;
}

bool is_real_number(const Argument& argument) { return argument.as<double>() != nullptr; }

double real(const Call& call, size_t place) {
  const Argument& argument = at(call, place);
  if (const auto* number = argument.as<double>()) return *number;
  if (const auto* number = argument.as<int64_t>()) return static_cast<double>(*number);
  if (const auto* flag = argument.as<bool>()) return *flag ? 1.0 : 0.0;
  call.refuse("its argument {} is no number", place + 1);
}

int64_t integer(const Call& call, size_t place) {
  const Argument& argument = at(call, place);
  if (const auto* number = argument.as<int64_t>()) return *number;
  if (const auto* flag = argument.as<bool>()) return *flag ? 1 : 0;
  call.refuse("its argument {} is no whole number", place + 1);
}

bool has_real(const Call& call) {
  return is_real_number(at(call, 0)) || is_real_number(at(call, 1));
}

// whole(a, b, &result) says whether the result of whole numbers is too large.
template <auto kWhole, auto kReal>
Results number_arithmetic(const Call& call, OpBudget&) {
  if (has_real(call)) return {kReal(real(call, 0), real(call, 1))};
  int64_t result = 0;
  if (kWhole(integer(call, 0), integer(call, 1), &result)) call.refuse("its result is too large");
  return {result};
}

constexpr auto kSum = [](int64_t a, int64_t b, int64_t* r) {
  return __builtin_add_overflow(a, b, r);
};
constexpr auto kDifference = [](int64_t a, int64_t b, int64_t* r) {
  return __builtin_sub_overflow(a, b, r);
};
constexpr auto kProduct = [](int64_t a, int64_t b, int64_t* r) {
  return __builtin_mul_overflow(a, b, r);
};
constexpr auto kFloored = [](int64_t a, int64_t b, int64_t* r) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return true;
  *r = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return false;
};
constexpr auto kRest = [](int64_t a, int64_t b, int64_t* r) {
  int64_t quotient = 0;
  if (kFloored(a, b, &quotient)) return true;
  *r = a - quotient * b;
  return false;
};

Results number_power(const Call& call, OpBudget&) {
  const double result = std::pow(real(call, 0), real(call, 1));
  if (has_real(call) || integer(call, 1) < 0) return {result};
  if (std::abs(result) > 0x1p53) call.refuse("its result is too large");
  return {static_cast<int64_t>(result)};
}

template <typename Compare>
Results number_comparison(const Call& call, OpBudget&) {
  if (has_real(call)) return {bool{Compare()(real(call, 0), real(call, 1))}};
  return {bool{Compare()(integer(call, 0), integer(call, 1))}};
}

template <bool kIsLargest>
Results extreme(const Call& call, OpBudget&) {
  const auto choose = [](auto a, auto b) { return kIsLargest ? std::max(a, b) : std::min(a, b); };
  if (has_real(call)) return {choose(real(call, 0), real(call, 1))};
  return {choose(integer(call, 0), integer(call, 1))};
}

Results negate(const Call& call, OpBudget&) {
  if (is_real_number(at(call, 0))) return {-real(call, 0)};
  int64_t result = 0;
  if (kDifference(0, integer(call, 0), &result)) call.refuse("too large");
  return {result};
}

template <auto kRound>
Results rounded(const Call& call, OpBudget&) {
  if (!is_real_number(at(call, 0))) return {integer(call, 0)};
  return {Array::real({}, {kRound(real(call, 0))}).to_integers()[0]};
}

// Of one number, or of two, as real numbers.
template <auto kFunction>
Results of_real(const Call& call, OpBudget&) {
  return {kFunction(real(call, 0))};
}
template <auto kFunction>
Results of_reals(const Call& call, OpBudget&) {
  return {kFunction(real(call, 0), real(call, 1))};
}

Results if_else(const Call& call, OpBudget&) {
  return {real(call, 0) != 0.0 ? at(call, 1) : at(call, 2)};
}

}  // namespace

OpRules symbol_rules() {
  OpRules rules = {
      {"sym_size", size},
      {"sym_numel", elements},
      {"numel", elements},
      {"item", item},
      {"_local_scalar_dense", item},
      {"_operator.add", number_arithmetic<kSum, [](double a, double b) { return a + b; }>},
      {"_operator.sub", number_arithmetic<kDifference, [](double a, double b) { return a - b; }>},
      {"_operator.mul", number_arithmetic<kProduct, [](double a, double b) { return a * b; }>},
      {"_operator.floordiv",
       number_arithmetic<kFloored, [](double a, double b) { return std::floor(a / b); }>},
      {"_operator.mod",
       number_arithmetic<kRest, [](double a, double b) { return a - std::floor(a / b) * b; }>},
      {"_operator.pow", number_power},
      {"_operator.truediv", of_reals<[](double a, double b) { return a / b; }>},
      {"_operator.neg", negate},
      {"_operator.pos", rounded<[](double a) { return std::trunc(a); }>},
      {"_operator.eq", number_comparison<std::equal_to<>>},
      {"_operator.ne", number_comparison<std::not_equal_to<>>},
      {"_operator.lt", number_comparison<std::less<>>},
      {"_operator.le", number_comparison<std::less_equal<>>},
      {"_operator.gt", number_comparison<std::greater<>>},
      {"_operator.ge", number_comparison<std::greater_equal<>>},
      {"_operator.and_", of_reals<[](double a, double b) { return a != 0.0 && b != 0.0; }>},
      {"_operator.or_", of_reals<[](double a, double b) { return a != 0.0 || b != 0.0; }>},
      {"torch.sym_max", extreme<true>},
      {"torch.sym_min", extreme<false>},
      {"torch.sym_int", rounded<[](double a) { return std::trunc(a); }>},
      {"torch.sym_float", of_real<[](double a) { return a; }>},
      {"torch.sym_not", of_real<[](double a) { return a == 0.0; }>},
      {"torch.sym_ite", if_else},
      {"torch.sym_sqrt", of_real<[](double a) { return std::sqrt(a); }>},
      {"torch._sym_sqrt", of_real<[](double a) { return std::sqrt(a); }>},
      {"math.trunc", rounded<[](double a) { return std::trunc(a); }>},
      {"math.ceil", rounded<[](double a) { return std::ceil(a); }>},
      {"math.floor", rounded<[](double a) { return std::floor(a); }>}};
  for (const char* op :
       {"_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range",
        "sym_constrain_range_for_size", "_functional_assert_async"}) {
    rules[op] = nothing;
  }
  return rules;
}

}  // namespace arenite::convert
