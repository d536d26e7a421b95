// SPDX-License-Identifier: Apache-2.0
// Products by several matrices of weights, as of heads that have one each, and convolutions of
// single places, which are linear layers.
#include <algorithm>
#include <numeric>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/constant_arguments.h"
#include "convert/exported/reducer.h"

namespace arenite::convert {
namespace {

constexpr int64_t kMatricesMax = 256;  // of one product

// The elements of a stack [.., matrices.., inputs, outputs] from `begin` on, turned as asked.
ConstantRef part_of(const ConstantRef& stack, int64_t begin, const Shape& shape) {
  return std::make_shared<const Constant>(
      kNoValue, shape, stack->type(), [stack, begin, shape]() -> Array {
        const Array::Reals all = stack->array().to_reals();
        const auto first = all.begin() + static_cast<ptrdiff_t>(begin);
        return Array::real(shape,
                           Array::Reals(first, first + static_cast<ptrdiff_t>(elements_of(shape))));
      });
}

// [matrices, inputs, outputs] as one matrix [inputs, matrices * outputs].
ConstantRef side_by_side(const ConstantRef& stack, int64_t matrices, int64_t inputs,
                         int64_t outputs) {
  const Shape shape = {inputs, matrices * outputs};
  return std::make_shared<const Constant>(kNoValue, shape, stack->type(), [=]() -> Array {
    const Array::Reals all = stack->array().to_reals();
    Array::Reals values;
    values.reserve(all.size());
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t m = 0; m < matrices; ++m) {
        const auto row = all.begin() + static_cast<ptrdiff_t>((m * inputs + i) * outputs);
        values.insert(values.end(), row, row + static_cast<ptrdiff_t>(outputs));
      }
    }
    return Array::real(shape, std::move(values));
  });
}

// [outputs, inputs of a group] as a matrix of all inputs, with zeros for those of other groups.
ConstantRef of_groups(const ConstantRef& weight, int64_t groups) {
  const Shape shape = {weight->shape()[0], groups * weight->shape()[1]};
  elements_of(shape);  // refuses what is too large
  return std::make_shared<const Constant>(kNoValue, shape, weight->type(), [=]() -> Array {
    const Array::Reals own = weight->array().to_reals();
    const auto width = static_cast<size_t>(weight->shape()[1]);
    const auto rows = static_cast<size_t>(shape[0] / groups);  // of a group
    Array::Reals values(elements_of(shape), 0.0);
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t row = i / width;
      values[(row * static_cast<size_t>(groups) + row / rows) * width + i % width] = own[i];
    }
    return Array::real(shape, std::move(values));
  });
}

int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t d = begin; d < end; ++d) product *= shape[d];
  return product;
}

}  // namespace

ConstantRef with_shape_of(const ConstantRef& constant, const Shape& shape) {
  return std::make_shared<const Constant>(
      constant->value(), shape, constant->type(),
      [constant, shape] { return constant->array().with_shape(shape); });
}

// The value's dimensions are [shared.., rows.., inputs], those of weights [shared.., inputs,
// outputs].
Reduced Reducer::product_by_weights(const AffineRef& value, const ConstantRef& weights,
                                    size_t shared) {
  const Shape& shape = weights->shape();
  const int64_t matrices = product_of(shape, 0, shared);
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  if (matrices < 1 || matrices > kMatricesMax || value->shape.size() < shared + 2 ||
      product_of(value->shape, 0, shared) != matrices) {
    throw NotRecognised("it multiplies by a constant of " + shape_text(shape) +
                        ": expected a matrix of weights, or one for each head");
  }
  const Shape rest(value->shape.begin() + static_cast<ptrdiff_t>(shared), value->shape.end());
  const auto block = static_cast<int64_t>(elements_of(rest));
  std::vector<AffineRef> parts;
  for (int64_t m = 0; m < matrices; ++m) {
    const Movement cut = {.shape = rest, .walk = {block}, .strides = {1}, .offset = m * block};
    const AffineRef part = moved(cut, std::span(&value, 1));
    const ConstantRef matrix = part_of(weights, m * inputs * outputs, {inputs, outputs});
    parts.push_back(as_affine(linear(part, matrix, true, nullptr)));
  }
  Movement stack;
  stack.shape.assign(value->shape.begin(), value->shape.end() - 1);
  stack.shape.push_back(outputs);
  stack.walk = {product_of(stack.shape, 0, stack.shape.size())};
  stack.strides = {1};
  return moved(stack, parts);
}

// As matmul: the leading dimensions of both go together.
Reduced Reducer::product_of_stacks(const AffineRef& given, const ConstantRef& stack) {
  const Shape& shape = stack->shape();
  const size_t shared = shape.size() - 2;
  Shape padded = given->shape;
  while (padded.size() < shared + 2) padded.insert(padded.begin(), 1);
  const AffineRef value = with_shape(given, padded);
  const size_t rank = padded.size();
  const size_t own = rank - 2 - shared;  // leading dimensions of the value alone
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  const int64_t matrices = product_of(shape, 0, shared);
  const bool is_one = product_of(padded, own, own + shared) == 1;
  std::vector<size_t> order;
  if (is_one) {
    const AffineRef made =
        as_affine(linear(value, side_by_side(stack, matrices, inputs, outputs), true, nullptr));
    Shape separate(padded.begin(), padded.begin() + static_cast<ptrdiff_t>(own));
    separate.push_back(padded[rank - 2]);
    separate.insert(separate.end(), shape.begin(), shape.end() - 2);
    separate.push_back(outputs);
    for (size_t d = 0; d < own; ++d) order.push_back(d);
    for (size_t d = 0; d < shared; ++d) order.push_back(own + 1 + d);
    order.push_back(own);
    order.push_back(rank - 1);
    return permuted(with_shape(made, separate), order);
  }
  for (size_t d = 0; d < shared; ++d) order.push_back(own + d);
  for (size_t d = 0; d < own; ++d) order.push_back(d);
  order.push_back(rank - 2);
  order.push_back(rank - 1);
  const AffineRef made = as_affine(product_by_weights(permuted(value, order), stack, shared));
  return permuted(made, inverse_order(order));
}

// A convolution of single places is a linear layer of channels, dimension 1.
std::optional<Reduced> Reducer::pointwise_convolution(const Operation& operation) {
  if (operation.call.op != "conv1d") return std::nullopt;
  const Reduced* weight = operation.value("weight");
  const auto* constant = weight != nullptr ? std::get_if<ConstantRef>(weight) : nullptr;
  const CallArguments arguments(operation.call);
  const auto are_all = [&](const char* name, int64_t wanted) {
    if (!arguments.has(name)) return true;
    return std::ranges::all_of(arguments.integers(name), [&](int64_t n) { return n == wanted; });
  };
  const bool is_pointwise = constant != nullptr && (*constant)->shape().size() == 3 &&
                            (*constant)->shape()[2] == 1 && are_all("stride", 1) &&
                            are_all("padding", 0);
  if (!is_pointwise) return std::nullopt;
  const AffineRef channels = as_affine(operation.inputs.at(0));
  const int64_t groups = arguments.integer("groups", 1);
  const Shape matrix = {(*constant)->shape()[0], (*constant)->shape()[1]};
  if (groups < 1 || matrix[0] % groups != 0) throw NotRecognised("its groups do not divide it");
  ConstantRef flat = with_shape_of(*constant, matrix);
  if (groups > 1) flat = of_groups(flat, groups);
  const std::vector<size_t> order = swapped_last_two(channels->shape.size());
  const AffineRef made =
      as_affine(linear(permuted(channels, order), flat, false, operation.value("bias")));
  return permuted(made, order);
}

}  // namespace arenite::convert
