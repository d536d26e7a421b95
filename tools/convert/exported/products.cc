// SPDX-License-Identifier: Apache-2.0
// Products of matrices and vectors.
#include "convert/exported/products.h"

#include <algorithm>

#include "convert/exported/op_rules.h"
#include "convert/graph/row_products.h"

namespace arenite::convert {
namespace {

// The matrix `index` of `b` [..., inputs, outputs].
void add_matrix(const Array& b, size_t index, const double* rows, size_t count, double* results) {
  const auto inputs = static_cast<size_t>(b.shape()[b.rank() - 2]);
  const auto outputs = static_cast<size_t>(b.shape().back());
  const size_t first = index * inputs * outputs;
  if (const Array::Floats* floats = b.floats()) {
    add_row_products(rows, count, by_inputs(floats->data() + first, outputs, inputs), results);
  } else {
    add_row_products(rows, count, by_inputs(b.reals().data() + first, outputs, inputs), results);
  }
}

Array with_outer_shape(const Array& array, const Shape& outer) {
  Shape shape = outer;
  shape.insert(shape.end(), array.shape().end() - 2, array.shape().end());
  return shape == array.shape() ? array : stretched(array, shape);
}

ElementType product_type(const CallArguments& call, const Array& a, const Array& b) {
  if (is_complex(a.type()) || is_complex(b.type())) {
    call.refuse("complex matrices are not understood");
  }
  return promote(a.type(), b.type());
}

Array as_product(const CallArguments& call, const Array& a, const Array& b, OpBudget& budget) {
  const ElementType type = product_type(call, a, b);
  const Array product =
      matrix_product(call, a.to(ElementType::kF64), b.to(ElementType::kF64), budget);
  return product.to(type);
}

void require_rank(const CallArguments& call, const Array& array, size_t rank) {
  if (array.rank() != rank) {
    call.refuse("a tensor {}: expected {} dimensions", shape_text(array.shape()), rank);
  }
}

Array sum_of(const CallArguments& call, const Array& a, const Array& b, double a_factor,
             double b_factor) {
  if (is_complex(a.type()) || is_complex(b.type())) call.refuse("complex numbers");
  const ElementType type = promote(a.type(), b.type());
  const Shape shape = broadcast(a.shape(), b.shape());
  Array::Reals values = stretched(a, shape).to_reals();
  const Array::Reals others = stretched(b, shape).to_reals();
  // A factor of 0 drops its term, whatever is in it.
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (a_factor == 0.0 ? 0.0 : a_factor * values[i]) + b_factor * others[i];
  }
  return Array::real(shape, std::move(values), ElementType::kF64).to(type);
}

Results matmul(const CallArguments& call, OpBudget& budget) {
  const char* second = call.has("other")  ? "other"
                       : call.has("mat2") ? "mat2"
                       : call.has("vec2") ? "vec2"
                       : call.has("vec")  ? "vec"
                                          : "tensor";
  const Array& a = call.array("self");
  const Array& b = call.array(second);
  const std::string& op = call.call().op;
  const size_t rank = op == "mm" ? 2 : op == "bmm" ? 3 : 0;
  if (rank != 0) {
    require_rank(call, a, rank);
    require_rank(call, b, rank);
  }
  return {as_product(call, a, b, budget)};
}

Results linear(const CallArguments& call, OpBudget& budget) {
  const Array& input = call.array("input");
  const Array& weight = call.array("weight");
  if (weight.rank() > 2 || weight.rank() == 0 || input.rank() == 0) call.refuse("no matrix");
  const ElementType type = product_type(call, input, weight);
  const Array matrix = weight.to(ElementType::kF64);
  const Array rows = matrix.rank() == 1 ? matrix.with_shape({1, matrix.shape()[0]}) : matrix;
  if (input.shape().back() != rows.shape()[1]) {
    call.refuse("an input {} for a weight {}", shape_text(input.shape()),
                shape_text(weight.shape()));
  }
  const auto inputs = static_cast<size_t>(rows.shape()[1]);
  const auto outputs = static_cast<size_t>(rows.shape()[0]);
  const size_t count = elements_of(Shape(input.shape().begin(), input.shape().end() - 1));
  Shape shape = input.shape();
  shape.back() = rows.shape()[0];
  if (weight.rank() == 1) shape.pop_back();
  budget.take_multiplications(uint64_t{count} * inputs * outputs);
  Array::Reals results(elements_of(shape));
  const Array reals = input.to(ElementType::kF64);
  if (const Array::Floats* floats = rows.floats()) {
    add_row_products(reals.reals().data(), count, by_outputs(floats->data(), outputs, inputs),
                     results.data());
  } else {
    add_row_products(reals.reals().data(), count, by_outputs(rows.reals().data(), outputs, inputs),
                     results.data());
  }
  const Array product = Array::real(shape, std::move(results), ElementType::kF64).to(type);
  const Array* bias = call.optional_array("bias");
  return {bias == nullptr ? product : sum_of(call, *bias, product, 1.0, 1.0)};
}

// beta * self + alpha * (the product of the two others)
Results add_matrix_product(const CallArguments& call, OpBudget& budget) {
  const std::string& op = call.call().op;
  const char* first = op == "addmm"   ? "mat1"
                      : op == "addmv" ? "mat"
                      : op == "addr"  ? "vec1"
                                      : "batch1";
  const char* second = op == "addmm"   ? "mat2"
                       : op == "addmv" ? "vec"
                       : op == "addr"  ? "vec2"
                                       : "batch2";
  Array a = call.array(first), b = call.array(second);
  require_rank(call, a, op == "addr" ? 1 : op == "baddbmm" ? 3 : 2);
  require_rank(call, b, op == "addr" || op == "addmv" ? 1 : op == "baddbmm" ? 3 : 2);
  if (op == "addr") {
    a = a.with_shape({a.shape()[0], 1});
    b = b.with_shape({1, b.shape()[0]});
  }
  const Array product = as_product(call, a, b, budget);
  return {
      sum_of(call, call.array("self"), product, call.real("beta", 1.0), call.real("alpha", 1.0))};
}

Results outer(const CallArguments& call, OpBudget& budget) {
  const Array& a = call.array("self");
  const Array& b = call.array(call.has("vec2") ? "vec2" : "other");
  require_rank(call, a, 1);
  require_rank(call, b, 1);
  return {
      as_product(call, a.with_shape({a.shape()[0], 1}), b.with_shape({1, b.shape()[0]}), budget)};
}

}  // namespace

Array matrix_product(const CallArguments& call, const Array& left, const Array& right,
                     OpBudget& budget) {
  if (left.rank() == 0 || right.rank() == 0) call.refuse("it multiplies scalars");
  Array a = left, b = right;
  if (a.rank() == 1) a = a.with_shape({1, a.shape()[0]});
  if (b.rank() == 1) b = b.with_shape({b.shape()[0], 1});
  if (a.shape().back() != b.shape()[b.rank() - 2]) {
    call.refuse("matrices {} and {} cannot be multiplied", shape_text(left.shape()),
                shape_text(right.shape()));
  }
  const Shape outer = broadcast(Shape(a.shape().begin(), a.shape().end() - 2),
                                Shape(b.shape().begin(), b.shape().end() - 2));
  const auto rows = static_cast<size_t>(a.shape()[a.rank() - 2]);
  const auto inputs = static_cast<size_t>(a.shape().back());
  const auto outputs = static_cast<size_t>(b.shape().back());
  Shape shape = outer;
  shape.insert(shape.end(), {a.shape()[a.rank() - 2], b.shape().back()});
  const size_t elements = elements_of(shape);
  budget.take_multiplications(uint64_t{elements} * inputs);
  a = with_outer_shape(a, outer);
  b = with_outer_shape(b, outer);
  Array::Reals values(elements);
  const size_t matrices = elements == 0 ? 0 : elements / (rows * outputs);
  for (size_t m = 0; m < matrices; ++m) {
    add_matrix(b, m, a.reals().data() + m * rows * inputs, rows,
               values.data() + m * rows * outputs);
  }
  if (right.rank() == 1) shape.pop_back();
  if (left.rank() == 1) shape.erase(shape.end() - (right.rank() == 1 ? 1 : 2));
  return Array::real(std::move(shape), std::move(values), ElementType::kF64);
}

OpRules product_rules() {
  return {{"matmul", matmul},
          {"mm", matmul},
          {"bmm", matmul},
          {"mv", matmul},
          {"dot", matmul},
          {"vdot", matmul},
          {"linear", linear},
          {"addmm", add_matrix_product},
          {"addmv", add_matrix_product},
          {"baddbmm", add_matrix_product},
          {"addr", add_matrix_product},
          {"outer", outer},
          {"ger", outer}};
}

}  // namespace arenite::convert
