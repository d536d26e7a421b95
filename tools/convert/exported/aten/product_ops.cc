// SPDX-License-Identifier: Apache-2.0
// Products of matrices and vectors.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/aten/op_rules.h"
#include "convert/exported/read/array.h"
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

ElementType product_type(const Call& call, const Array& a, const Array& b) {
  if (is_complex(a.type()) || is_complex(b.type())) {
    call.refuse("complex matrices are not understood");
  }
  return promote(a.type(), b.type());
}

// As torch.matmul: vectors count as matrices, and outer dimensions are stretched to each other.
// REQUIRES: both are of real types.
Array matrix_product(const Call& call, const Array& left, const Array& right, OpBudget& budget) {
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

Array as_product(const Call& call, const Array& a, const Array& b, OpBudget& budget) {
  const ElementType type = product_type(call, a, b);
  const Array product =
      matrix_product(call, a.to(ElementType::kF64), b.to(ElementType::kF64), budget);
  return product.to(type);
}

void require_rank(const Call& call, const Array& array, size_t rank) {
  if (array.rank() != rank) {
    call.refuse("a tensor {}: expected {} dimensions", shape_text(array.shape()), rank);
  }
}

Array with_bias(const Call& call, const Array& bias, const Array& product) {
  if (is_complex(bias.type())) call.refuse("complex numbers");
  Array::Reals values = product.to_reals();
  const Array::Reals added = stretched(bias, product.shape()).to_reals();
  for (size_t i = 0; i < values.size(); ++i) values[i] += added[i];
  return Array::real(product.shape(), std::move(values), ElementType::kF64)
      .to(promote(bias.type(), product.type()));
}

Results matmul(const Call& call, OpBudget& budget) {
  const char* second = call.has("other")  ? "other"
                       : call.has("mat2") ? "mat2"
                       : call.has("vec2") ? "vec2"
                       : call.has("vec")  ? "vec"
                                          : "tensor";
  const Array& a = call.array("self");
  const Array& b = call.array(second);
  const std::string& op = call.op;
  const size_t rank = op == "mm" ? 2 : op == "bmm" ? 3 : 0;
  if (rank != 0) {
    require_rank(call, a, rank);
    require_rank(call, b, rank);
  }
  return {as_product(call, a, b, budget)};
}

Results linear(const Call& call, OpBudget& budget) {
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
  return {bias == nullptr ? product : with_bias(call, *bias, product)};
}

Results outer(const Call& call, OpBudget& budget) {
  const Array& a = call.array("self");
  const Array& b = call.array(call.has("vec2") ? "vec2" : "other");
  require_rank(call, a, 1);
  require_rank(call, b, 1);
  return {
      as_product(call, a.with_shape({a.shape()[0], 1}), b.with_shape({1, b.shape()[0]}), budget)};
}

}  // namespace

OpRules product_rules() {
  return {{"matmul", matmul}, {"mm", matmul},     {"bmm", matmul},  {"mv", matmul}, {"dot", matmul},
          {"vdot", matmul},   {"linear", linear}, {"outer", outer}, {"ger", outer}};
}

// Convolutions, of which models of attention have those that cut an image into patches.

namespace {

Shape spread(const Call& call, const char* name, int64_t default_value, size_t count) {
  Shape numbers = call.has(name) ? Shape(call.integers(name)) : Shape{default_value};
  if (numbers.size() == 1) numbers.resize(count, numbers[0]);
  if (numbers.size() != count) call.refuse("its {} has {} numbers", name, numbers.size());
  for (const int64_t number : numbers) {
    if (number < 0 || number > int64_t{1} << 24) call.refuse("its {} is {}", name, number);
  }
  return numbers;
}

constexpr uint64_t kStepsPerProduct = 6;  // whose number is moved into its window first

// The input with zeros around it.
Array padded(const Array& input, const Convolution& convolution, OpBudget& budget) {
  Argument::List pad;  // of the last dimension first
  for (size_t d = convolution.stride.size(); d-- > 0;) {
    pad.emplace_back(convolution.padding_before[d]);
    pad.emplace_back(convolution.padding_after[d]);
  }
  return apply_for_array(
      {.op = "constant_pad_nd", .arguments = {{"self", input}, {"pad", std::move(pad)}}}, budget);
}

// Rows of the input, one for each place, times the kernels of each group.
Array convolved(const Call& call, const Array& input, const Array& weight, OpBudget& budget) {
  const Convolution convolution = convolution_of(call, weight);
  const Shape shape = convolved_shape(call, input, weight, convolution);
  const uint64_t multiplications =
      uint64_t{elements_of(shape)} *
      (weight.elements() / std::max<size_t>(1, static_cast<size_t>(shape[1])));
  budget.take_multiplications(multiplications);
  WorkBudget::take(multiplications * kStepsPerProduct);
  const uint64_t live = budget.live_elements;
  const Array inside = padded(input, convolution, budget);
  const Movement rows = windows(inside.shape(), shape, weight.shape(), convolution);
  const auto places = static_cast<size_t>(rows.shape[2]);
  const auto width = static_cast<size_t>(rows.shape[3]);
  const auto groups = static_cast<size_t>(convolution.groups);
  const auto outputs = static_cast<size_t>(shape[1]);
  budget.take_elements(elements_of(rows.shape));
  const Array* bias = call.optional_array("bias");
  const Array::Reals biases = bias == nullptr ? Array::Reals() : bias->to_reals();
  if (bias != nullptr && biases.size() != outputs) call.refuse("its bias has another size");
  const Array::Reals pixels = rows.apply<double>(inside.to_reals()), weights = weight.to_reals();
  Array::Reals results(elements_of(shape)), made(places * outputs / groups);
  for (size_t n = 0; !results.empty() && n < static_cast<size_t>(shape[0]) * groups; ++n) {
    const double* kernels = weights.data() + n % groups * (outputs / groups) * width;
    std::ranges::fill(made, 0.0);
    add_row_products(pixels.data() + n * places * width, places,
                     by_outputs(kernels, outputs / groups, width), made.data());
    for (size_t i = 0; i < made.size(); ++i) {
      const size_t output = n % groups * (outputs / groups) + i % (outputs / groups);
      results[(n / groups * outputs + output) * places + i / (outputs / groups)] =
          made[i] + (biases.empty() ? 0.0 : biases[output]);
    }
  }
  budget.live_elements = live;
  return Array::real(shape, std::move(results), input.type());
}

Results convolution(const Call& call, OpBudget& budget) {
  Array input = call.array("input");
  const Array& weight = call.array("weight");
  if (is_complex(input.type()) || is_complex(weight.type()) || weight.rank() < 3) {
    call.refuse("a kernel {} is not understood", shape_text(weight.shape()));
  }
  const bool has_batch = input.rank() == weight.rank();
  if (!has_batch && input.rank() + 1 != weight.rank()) {
    call.refuse("an input {} for a kernel {}", shape_text(input.shape()),
                shape_text(weight.shape()));
  }
  Shape shape = input.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  const Array result = convolved(call, input.with_shape(shape), weight, budget);
  if (has_batch) return {result};
  return {result.with_shape(Shape(result.shape().begin() + 1, result.shape().end()))};
}

}  // namespace

Convolution convolution_of(const Call& call, const Array& weight) {
  const size_t count = weight.rank() - 2;
  Convolution convolution{.stride = spread(call, "stride", 1, count),
                          .padding_before = Shape(count, 0),
                          .padding_after = Shape(count, 0),
                          .dilation = spread(call, "dilation", 1, count),
                          .groups = call.integer("groups", 1)};
  if (std::ranges::count(convolution.stride, 0) > 0 ||
      std::ranges::count(convolution.dilation, 0) > 0 || call.flag("transposed", false)) {
    call.refuse("transposed convolutions and steps of 0 are not understood");
  }
  const Argument* padding = call.find("padding");
  if (padding == nullptr || !padding->as<std::string>()) {
    convolution.padding_before = convolution.padding_after = spread(call, "padding", 0, count);
  } else if (*padding->as<std::string>() == "same") {
    for (size_t d = 0; d < count; ++d) {
      const int64_t all = convolution.dilation[d] * (weight.shape()[d + 2] - 1);
      convolution.padding_before[d] = all / 2;
      convolution.padding_after[d] = all - all / 2;
    }
  } else if (*padding->as<std::string>() != "valid") {
    call.refuse("padding {} is not understood", quote(*padding->as<std::string>()));
  }
  return convolution;
}

Shape convolved_shape(const Call& call, const Array& input, const Array& weight,
                      const Convolution& convolution) {
  const int64_t groups = convolution.groups;
  if (groups < 1 || input.shape()[1] != weight.shape()[1] * groups ||
      weight.shape()[0] % groups != 0) {
    call.refuse("an input {} for a kernel {} in {} groups", shape_text(input.shape()),
                shape_text(weight.shape()), groups);
  }
  Shape shape = {input.shape()[0], weight.shape()[0]};
  for (size_t d = 0; d + 2 < weight.rank(); ++d) {
    const int64_t reach = convolution.dilation[d] * (weight.shape()[d + 2] - 1) + 1;
    const int64_t padded =
        input.shape()[d + 2] + convolution.padding_before[d] + convolution.padding_after[d];
    if (weight.shape()[d + 2] < 1 || padded < reach) {
      call.refuse("a kernel {} does not fit into {}", shape_text(weight.shape()),
                  shape_text(input.shape()));
    }
    shape.push_back((padded - reach) / convolution.stride[d] + 1);
  }
  return shape;
}

Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution) {
  const Shape strides = strides_of(input);
  const size_t count = convolution.stride.size();
  Movement movement{.shape = {},
                    .walk = {input[0], convolution.groups},
                    .strides = {strides[0], weight[1] * strides[1]}};
  int64_t places = 1, width = weight[1];
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(result[d + 2]);
    movement.strides.push_back(convolution.stride[d] * strides[d + 2]);
    places *= result[d + 2];
  }
  movement.walk.push_back(weight[1]);
  movement.strides.push_back(strides[1]);
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(weight[d + 2]);
    movement.strides.push_back(convolution.dilation[d] * strides[d + 2]);
    width *= weight[d + 2];
  }
  movement.shape = {input[0], convolution.groups, places, width};
  elements_of(movement.shape);  // refuses what is too large
  return movement;
}

OpRules convolution_rules() {
  return {{"conv1d", convolution},
          {"conv2d", convolution},
          {"conv3d", convolution},
          {"convolution", convolution}};
}

}  // namespace arenite::convert
