// SPDX-License-Identifier: Apache-2.0
// Arrays made of numbers alone.
#include <algorithm>
#include <cmath>

#include "convert/exported/op_rules.h"

namespace arenite::convert {
namespace {

constexpr int64_t kSideOfTriangles = int64_t{1} << 40;  // more than any has

// `value` in all of `shape`.
Array filled(const Shape& shape, const Array& value, ElementType type, OpBudget& budget) {
  budget.take_elements(elements_of(shape));
  const Array result = stretched(value.with_shape({}).to(type), shape);
  budget.give_back(elements_of(shape));  // apply_op takes results off
  return result;
}

Array number(const CallArguments& call, const char* name) {
  const Array value = operand(call, name).array;
  if (value.elements() != 1) call.refuse("its argument '{}' is no number", name);
  return value;
}

int64_t constant_of(std::string_view op) {
  return op.find("ones") != std::string_view::npos ? 1 : 0;
}

// zeros, ones, empty and full, with a size of their own or that of a tensor.
Results fill(const CallArguments& call, OpBudget& budget) {
  const std::string& op = call.call().op;
  const bool is_full = op.find("full") != std::string::npos;
  const bool is_like = op.ends_with("_like"), is_new = op.starts_with("new_");
  const Array value = is_full ? number(call, "fill_value") : Array::integer({}, {constant_of(op)});
  ElementType type = is_full && !is_integer(value.type()) ? value.type() : ElementType::kF32;
  if (is_full && is_integer(value.type())) type = ElementType::kI64;
  if (is_like || is_new) type = call.array("self").type();
  const Shape shape = is_like ? call.array("self").shape() : Shape(call.integers("size"));
  return {filled(shape, value, call.type("dtype").value_or(type), budget)};
}

Results scalar_tensor(const CallArguments& call, OpBudget& budget) {
  return {filled({}, number(call, "s"), call.type("dtype").value_or(ElementType::kF32), budget)};
}

Results arange(const CallArguments& call, OpBudget& budget) {
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

Results linspace(const CallArguments& call, OpBudget& budget) {
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

Results eye(const CallArguments& call, OpBudget& budget) {
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
Results triangle_indices(const CallArguments& call, OpBudget& budget) {
  const int64_t rows = call.integer("row"), columns = call.integer("col");
  const int64_t offset = std::clamp(call.integer("offset", 0), -kSideOfTriangles, kSideOfTriangles);
  budget.take_elements(2 * elements_of({rows, columns}));
  budget.give_back(2 * elements_of({rows, columns}));
  const bool is_lower = call.call().op == "tril_indices";
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

Results one_hot(const CallArguments& call, OpBudget& budget) {
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

}  // namespace arenite::convert
