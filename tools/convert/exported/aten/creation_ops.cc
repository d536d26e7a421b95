// SPDX-License-Identifier: Apache-2.0
// Ops that create tensors from scalars, arithmetic on symbolic sizes, and traces of torch.vmap.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

// ---- tensors created from scalars ----

constexpr int64_t kSideOfTriangles = int64_t{1} << 40;  // larger than any extent

// Makes value(i) for each element i of `shape`, in the call's dtype, or else in `type`.
template <typename Value>
Results made(const Call& call, Shape shape, ElementType type, OpBudget& budget,
             const Value& value) {
  budget.take_elements(elements_of(shape));  // before memory is allocated
  Array::Reals values(elements_of(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(i);
  return {Array::real(std::move(shape), std::move(values), ElementType::kF64)
              .to(call.type("dtype").value_or(type))};
}

Array number(const Call& call, const char* name) {
  const Array value = operand(call, name).array;
  if (value.elements() != 1) call.refuse("argument '{}': expected a number", name);
  return value.with_shape({});
}

// Handles zeros, ones, empty and full, with a given size or that of a tensor.
Results fill(const Call& call, OpBudget& budget) {
  const std::string& op = call.op;
  const bool is_like = op.ends_with("_like");
  Array value = Array::integer({}, {op.find("ones") != std::string::npos ? 1 : 0});
  ElementType type = ElementType::kF32;
  if (op.find("full") != std::string::npos) {
    value = number(call, "fill_value");
    type = is_integer(value.type()) ? ElementType::kI64 : value.type();
  }
  if (is_like || op.starts_with("new_")) type = call.array("self").type();
  const Shape shape = is_like ? call.array("self").shape() : Shape(call.integers("size"));
  budget.take_elements(elements_of(shape));
  return {stretched(value.to(call.type("dtype").value_or(type)), shape)};
}

Results scalar_tensor(const Call& call, OpBudget&) {
  return {number(call, "s").to(call.type("dtype").value_or(ElementType::kF32))};
}

Results arange(const Call& call, OpBudget& budget) {
  const auto given = [&](const char* name, int64_t default_value) {
    return call.has(name) ? number(call, name) : Array::integer({}, {default_value});
  };
  const Array start = given("start", 0), end = given("end", 0), step = given("step", 1);
  const bool is_whole = !is_real(start.type()) && !is_real(end.type()) && !is_real(step.type());
  const double first = start.to_reals()[0], last = end.to_reals()[0], by = step.to_reals()[0];
  const double count = std::ceil((last - first) / by);
  if (!(count >= 0.0) || count > static_cast<double>(kExportedElementsMax)) {
    call.refuse("a range from {} to {} by {} is infinite or too large: expected fewer elements",
                first, last, by);
  }
  return made(call, {static_cast<int64_t>(count)}, is_whole ? ElementType::kI64 : ElementType::kF32,
              budget, [&](size_t i) { return first + by * static_cast<double>(i); });
}

Results linspace(const Call& call, OpBudget& budget) {
  const double start = number(call, "start").to_reals()[0];
  const double end = number(call, "end").to_reals()[0];
  const int64_t steps = call.integer("steps");
  return made(call, {steps}, ElementType::kF32, budget, [&](size_t i) {
    const double part = steps < 2 ? 0.0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    const double number = start + (end - start) * part;
    return call.op == "logspace" ? std::pow(call.real("base", 10.0), number) : number;
  });
}

// Makes alpha - beta cos(2 pi i / length): the windows of Hann and Hamming, periodic or symmetric.
Results window(const Call& call, OpBudget& budget) {
  const bool is_hann = call.op == "hann_window";
  const double alpha = is_hann ? 0.5 : call.real("alpha", 0.54);
  const double beta = is_hann ? 0.5 : call.real("beta", 0.46);
  const int64_t size = call.integer("window_length");
  const int64_t length = call.flag("periodic", true) ? size : size - 1;
  return made(call, {size}, ElementType::kF32, budget, [&](size_t i) {
    const double turn = 2.0 * std::numbers::pi * static_cast<double>(i);
    return size == 1 ? 1.0 : alpha - beta * std::cos(turn / static_cast<double>(length));
  });
}

Results eye(const Call& call, OpBudget& budget) {
  const int64_t rows = call.integer("n"), columns = call.integer("m", rows);
  return made(call, {rows, columns}, ElementType::kF32, budget, [&](size_t i) {
    const auto width = static_cast<size_t>(columns);
    return i / width == i % width ? 1.0 : 0.0;
  });
}

// Handles tril_indices and triu_indices: [2, count], rows and columns of a triangle's elements.
Results triangle_indices(const Call& call, OpBudget& budget) {
  const int64_t rows = call.integer("row"), columns = call.integer("col");
  const int64_t offset = std::clamp(call.integer("offset", 0), -kSideOfTriangles, kSideOfTriangles);
  budget.take_elements(elements_of({2, rows, columns}));
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
  if (!is_integer(self.type())) call.refuse("expected a tensor of integers");
  const int64_t classes = call.integer("num_classes", -1);
  for (const int64_t value : self.integers()) {
    if (classes < 0) call.refuse("the number of classes depends on data: pass num_classes");
    if (value < 0 || value >= classes)
      call.refuse("class {} is out of range: expected one of {} classes", value, classes);
  }
  Shape shape = self.shape();
  shape.push_back(classes);
  return made(call, std::move(shape), ElementType::kI64, budget, [&](size_t i) {
    const auto width = static_cast<size_t>(classes);
    return self.integers()[i / width] == static_cast<int64_t>(i % width) ? 1.0 : 0.0;
  });
}

// ---- torch.vmap: scalars that stand for rows ----

// Between _add_batch_dim and _remove_batch_dim, the dimension of level n is the n-th from the end,
// so that scalars of different levels broadcast. Arguments are looked up by position.

constexpr int64_t kLevelsMax = 8;

const Argument& at(const Call& call, size_t place) {
  if (call.arguments.size() <= place) call.refuse("found too few arguments: the file is damaged");
  return call.arguments[place].value;
}

int64_t integer(const Call& call, size_t place) {
  const auto* number = at(call, place).as<int64_t>();
  if (number == nullptr) call.refuse("argument {}: expected an integer", place + 1);
  return *number;
}

// Returns argument 0, a tensor, and its level. Argument `dim` must be 0.
std::pair<Array, size_t> leveled(const Call& call, size_t level_place, size_t dim) {
  const auto* self = at(call, 0).as<Array>();
  if (self == nullptr) call.refuse("argument 1: expected a tensor");
  const int64_t level = integer(call, level_place);
  if (level < 1 || level > kLevelsMax || integer(call, dim) != 0) {
    call.refuse(
        "torch.vmap is supported over scalars only: write the batch dimension in the model");
  }
  return {*self, static_cast<size_t>(level)};
}

// Handles _add_batch_dim(tensor, dim, level).
Results add_batch_dim(const Call& call, OpBudget&) {
  const auto [self, level] = leveled(call, 2, 1);
  if (self.rank() != 1)
    call.refuse(
        "torch.vmap is supported over scalars only: write the batch dimension in the model");
  Shape shape(level, 1);
  shape[0] = self.shape()[0];
  return {self.with_shape(shape)};
}

// Handles _remove_batch_dim(tensor, level, size, out_dim). Removing level 1 restores the order of
// the levels.
Results remove_batch_dim(const Call& call, OpBudget& budget) {
  const auto [self, level] = leveled(call, 1, 3);
  Shape shape = self.shape();
  while (shape.size() < level) shape.insert(shape.begin(), 1);
  int64_t& extent = shape[shape.size() - level];
  if (extent == 1) extent = integer(call, 2);  // any other extent is this length already
  const Array all = stretched(self, shape);
  if (level > 1) return {all};
  Argument::List dims;
  for (size_t d = shape.size(); d-- > 0;) dims.emplace_back(static_cast<int64_t>(d));
  return {apply_for_array(
      {.op = "permute", .arguments = {{"self", all}, {"dims", std::move(dims)}}}, budget)};
}

// ---- Python's arithmetic on symbolic sizes, and ops that only assert ----

Results size(const Call& call, OpBudget&) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  if (shape.empty()) call.refuse("found a scalar: expected a tensor with dimensions");
  return {shape[dim]};
}

Results count(const Call& call, OpBudget&) {
  return {static_cast<int64_t>(call.array("self").elements())};
}

// Returns the only element of a tensor.
Argument number_of(const Call& call, const Array& array) {
  if (array.elements() != 1) call.refuse("expected a tensor with one element");
  if (is_real(array.type())) return array.reals()[0];
  if (is_integer(array.type())) return array.integers()[0];
  if (is_complex(array.type())) return array.complexes()[0];
  return array.bools()[0] != 0;
}

Results item(const Call& call, OpBudget&) { return {number_of(call, call.array("self"))}; }

// A scalar op with one or two operands, and its tensor op. Operands have different names in
// different ops, so arguments are looked up by position.
struct NumberOp {
  std::string_view op, as;
  std::optional<ElementType> type{};  // of the result, if not that of `as`
};
constexpr NumberOp kNumberOps[] = {{"_operator.add", "add"},
                                   {"_operator.sub", "sub"},
                                   {"_operator.mul", "mul"},
                                   {"_operator.floordiv", "floor_divide"},
                                   {"_operator.mod", "remainder"},
                                   {"_operator.pow", "pow"},
                                   {"_operator.truediv", "div"},
                                   {"_operator.neg", "neg"},
                                   {"_operator.pos", "trunc", ElementType::kI64},
                                   {"_operator.eq", "eq"},
                                   {"_operator.ne", "ne"},
                                   {"_operator.lt", "lt"},
                                   {"_operator.le", "le"},
                                   {"_operator.gt", "gt"},
                                   {"_operator.ge", "ge"},
                                   {"_operator.and_", "logical_and"},
                                   {"_operator.or_", "logical_or"},
                                   {"torch.sym_max", "maximum"},
                                   {"torch.sym_min", "minimum"},
                                   {"torch.sym_int", "trunc", ElementType::kI64},
                                   {"torch.sym_float", "to", ElementType::kF64},
                                   {"torch.sym_not", "logical_not"},
                                   {"torch.sym_sqrt", "sqrt"},
                                   {"torch._sym_sqrt", "sqrt"},
                                   {"math.trunc", "trunc", ElementType::kI64},
                                   {"math.ceil", "ceil", ElementType::kI64},
                                   {"math.floor", "floor", ElementType::kI64}};

Array on_arrays(const NumberOp& row, const Call& call, OpBudget& budget) {
  return *op_rules().at(row.as)(call, budget)[0].as<Array>();
}

Results on_numbers(const Call& call, const NumberOp& row, OpBudget& budget) {
  Call same = call, real = call;
  same.arguments.resize(std::min<size_t>(call.arguments.size(), 2));
  if (same.arguments.empty()) call.refuse("found too few arguments: the file is damaged");
  for (size_t i = 0; i < same.arguments.size(); ++i)
    same.arguments[i].name = i == 0 ? "self" : "other";
  real.arguments = same.arguments;
  for (size_t i = 0; i < same.arguments.size(); ++i) {
    const Array given = number(same, i == 0 ? "self" : "other");
    const bool is_bool = given.type() == ElementType::kBool;
    same.arguments[i].value = is_bool ? given.to(ElementType::kI64) : given;
    real.arguments[i].value = given.to(ElementType::kF64);
  }
  const Array result = on_arrays(row, same, budget);
  if (is_integer(result.type())) {
    const double exact = on_arrays(row, real, budget).to_reals()[0];
    if (!(std::abs(exact) < 0x1p62))
      call.refuse("the integer result is too large: expected less than 2^62");
    if (exact != std::floor(exact)) return {exact};  // a negative power
  }
  return {number_of(call, result.to(row.type.value_or(result.type())))};
}

Results if_else(const Call& call, OpBudget&) {
  Call condition = call;
  condition.arguments.resize(1);
  condition.arguments[0] = {"self", at(call, 0)};
  return {number(condition, "self").to_bools()[0] != 0 ? at(call, 1) : at(call, 2)};
}

Results nothing(const Call&, OpBudget&) { return {}; }

}  // namespace

OpRules creation_rules() {
  OpRules rules = {{"arange", arange},
                   {"linspace", linspace},
                   {"logspace", linspace},
                   {"eye", eye},
                   {"hann_window", window},
                   {"hamming_window", window},
                   {"scalar_tensor", scalar_tensor},
                   {"tril_indices", triangle_indices},
                   {"triu_indices", triangle_indices},
                   {"one_hot", one_hot},
                   {"torch._functorch.predispatch._add_batch_dim", add_batch_dim},
                   {"torch._functorch.predispatch._remove_batch_dim", remove_batch_dim},
                   {"sym_size", size},
                   {"numel", count},
                   {"item", item},
                   {"torch.sym_ite", if_else}};
  for (const char* op : {"zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like",
                         "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}) {
    rules[op] = fill;
  }
  for (const char* op :
       {"_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range",
        "sym_constrain_range_for_size", "_functional_assert_async"}) {
    rules[op] = nothing;
  }
  for (const NumberOp& row : kNumberOps) {
    rules[row.op] = [&row](const Call& call, OpBudget& budget) {
      return on_numbers(call, row, budget);
    };
  }
  return rules;
}

}  // namespace arenite::convert
