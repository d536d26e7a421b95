// SPDX-License-Identifier: Apache-2.0
// Products of matrices: linear layers by constants; scores and attention between values.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "convert/exported/aten/decompose.h"
#include "convert/exported/aten/op_rules.h"
#include "convert/exported/read/call.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// A constant with leading dimensions of 1 as a matrix.
ConstantRef as_matrix(const ConstantRef& constant) {
  Shape shape = constant->shape();
  while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() != 2) {
    throw NotRecognised("it multiplies by a constant of " + shape_text(constant->shape()) +
                        ": expected a matrix of weights");
  }
  if (shape == constant->shape()) return constant;
  return with_shape(constant, shape);
}

// Whether rows of this constant are weights of attention that only a mask gives: even ones of what
// each row sees.
std::optional<Array> added_of_weights(const ConstantRef& constant, int64_t tokens) {
  const Shape& shape = constant->shape();
  if (shape.size() < 2 || shape.back() != tokens || shape[shape.size() - 2] != tokens ||
      constant->is_large()) {
    return std::nullopt;
  }
  const Array::Reals weights = constant->array().to_reals();
  Array::Reals added;
  const auto width = static_cast<size_t>(tokens);
  for (size_t start = 0; start < weights.size(); start += width) {
    const double largest =
        *std::max_element(weights.begin() + static_cast<ptrdiff_t>(start),
                          weights.begin() + static_cast<ptrdiff_t>(start + width));
    double sum = 0.0;
    for (size_t i = start; i < start + width; ++i) {
      if (weights[i] != 0.0 && std::fabs(weights[i] - largest) > 1e-6) return std::nullopt;
      sum += weights[i];
      added.push_back(weights[i] == 0.0 ? -std::numeric_limits<double>::infinity() : 0.0);
    }
    if (std::fabs(sum - 1.0) > 1e-5) return std::nullopt;
  }
  return Array::real(shape, std::move(added));
}

// ---- products by several matrices of weights, as of heads that have one each ----

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

int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t d = begin; d < end; ++d) product *= shape[d];
  return product;
}

// The value's dimensions are [shared.., rows.., inputs], those of weights [shared.., inputs,
// outputs].
ElementSumRef product_by_weights(Tracer& tracer, const ElementSumRef& value,
                                 const ConstantRef& weights, size_t shared) {
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
  std::vector<ElementSumRef> parts;
  for (int64_t m = 0; m < matrices; ++m) {
    const Movement cut = {.shape = rest, .walk = {block}, .strides = {1}, .offset = m * block};
    const ElementSumRef part = moved(cut, std::span(&value, 1));
    const ConstantRef matrix = part_of(weights, m * inputs * outputs, {inputs, outputs});
    parts.push_back((tracer.linear(part, matrix, true, nullptr)));
  }
  Movement stack;
  stack.shape.assign(value->shape.begin(), value->shape.end() - 1);
  stack.shape.push_back(outputs);
  stack.walk = {product_of(stack.shape, 0, stack.shape.size())};
  stack.strides = {1};
  return moved(stack, parts);
}

// As matmul: the leading dimensions of both go together.
ElementSumRef product_of_stacks(Tracer& tracer, const ElementSumRef& given,
                                const ConstantRef& stack) {
  const Shape& shape = stack->shape();
  const size_t shared = shape.size() - 2;
  Shape padded = given->shape;
  while (padded.size() < shared + 2) padded.insert(padded.begin(), 1);
  const ElementSumRef value = with_shape(given, padded);
  const size_t rank = padded.size();
  const size_t own = rank - 2 - shared;  // leading dimensions of the value alone
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  const int64_t matrices = product_of(shape, 0, shared);
  const bool is_one = product_of(padded, own, own + shared) == 1;
  std::vector<size_t> order;
  if (is_one) {
    const ElementSumRef made =
        (tracer.linear(value, side_by_side(stack, matrices, inputs, outputs), true, nullptr));
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
  const ElementSumRef made = product_by_weights(tracer, permuted(value, order), stack, shared);
  return permuted(made, inverse_order(order));
}

TracedValue product(Tracer& tracer, const TracedValue& a, const TracedValue& b) {
  if (const auto* scores = a.as<ScoresRef>()) {
    return attend(tracer.builder(), **scores, tracer.as_sum(b));
  }
  if ((b.as<ScoresRef>() != nullptr)) {
    throw NotRecognised(
        "it multiplies a product of two values from the left, as linear attention does by q @ "
        "(k^T @ v): not supported, attention has a softmax over keys");
  }
  if (const auto* weight = b.as<ConstantRef>()) {
    if ((*weight)->shape().size() == 1) {
      const int64_t width = (*weight)->shape()[0];
      const auto column = std::make_shared<const Constant>(
          (*weight)->value(), Shape{1, width}, (*weight)->type(), [weight = *weight, width] {
            return weight->array().with_shape({1, width});
          });
      const ElementSumRef made = (tracer.linear(a, column, false, nullptr));
      Shape shape = made->shape;
      shape.pop_back();
      return with_shape(made, shape);
    }
    Shape shape = (*weight)->shape();
    while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
    if (shape.size() > 2)
      return product_of_stacks(tracer, tracer.as_sum(a), with_shape(*weight, shape));
    return tracer.linear(a, as_matrix(*weight), true, nullptr);
  }
  if (const auto* weight = a.as<ConstantRef>()) {
    if (const auto added = added_of_weights(*weight, tracer.builder().sizes().tokens)) {
      Scores scores;
      const ElementSumRef values = tracer.as_sum(b);
      if (values->shape.size() < 2) throw NotRecognised("it weighs a value that has no rows");
      Shape lead(values->shape.begin(), values->shape.end() - 2);
      scores.shape = lead;
      scores.shape.push_back(tracer.builder().sizes().tokens);
      scores.shape.push_back(tracer.builder().sizes().tokens);
      scores.added = *added;
      scores.positions_max = (*weight)->positions_max;
      scores.has_softmax = true;
      return attend(tracer.builder(), scores, values);
    }
    const Shape& shape = (*weight)->shape();
    const bool has_stack =
        shape.size() > 2 && elements_of(Shape(shape.begin(), shape.end() - 2)) > 1;
    if (has_stack) {
      throw NotRecognised(
          "its queries are a constant of " + shape_text(shape) +
          ": learned queries, as of latents or of attention pooling, are not supported. Export the "
          "part of the model before it");
    }
    // W x for columns x is x W^T for rows.
    const ElementSumRef columns = tracer.as_sum(b);
    const ElementSumRef rows = permuted(columns, swapped_last_two(columns->shape.size()));
    const ElementSumRef made = (tracer.linear(rows, as_matrix(*weight), false, nullptr));
    return permuted(made, swapped_last_two(made->shape.size()));
  }
  return product_scores(tracer.as_sum(a), tracer.as_sum(b));
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

// ---- convolutions as linear layers: each place is made of a patch of an image, or of one token
// ----

bool has_padding(const Convolution& convolution) {
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    if (convolution.padding_before[d] != 0 || convolution.padding_after[d] != 0) return true;
  }
  return false;
}

// Whether each place has a kernel of its own, as of patches.
bool cuts_patches(const Array& kernel, const Convolution& convolution) {
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    if (convolution.stride[d] < kernel.shape()[d + 2] || convolution.dilation[d] != 1) return false;
  }
  return !has_padding(convolution) && convolution.groups == 1;
}

// What the kernel of such a convolution is, for people.
std::string kernel_text(const Array& kernel, const Convolution& convolution) {
  const Shape sides(kernel.shape().begin() + 2, kernel.shape().end());
  return fmt::format("its kernel is {} with stride {}, padding {}, dilation {} and {} group{}",
                     shape_text(sides), shape_text(convolution.stride),
                     shape_text(convolution.padding_before), shape_text(convolution.dilation),
                     convolution.groups, convolution.groups == 1 ? "" : "s");
}

constexpr const char* kNoPatchConvolution =
    "convolutions over several tokens or pixels at a time are not supported: those are linear "
    "layers whose stride is the kernel, without padding and groups, or whose kernel is 1. Run this "
    "one in your program, and export the part of the model that takes its result";

}  // namespace

std::optional<TracedValue> matrix_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  if (call.op == "linear") {
    const auto* weight = value_of(call, "weight");
    const auto* constant = weight != nullptr ? weight->as<ConstantRef>() : nullptr;
    if (constant == nullptr) throw NotRecognised("its weights depend on the model's input");
    const auto* input = value_of(call, "input");
    if (input == nullptr) throw NotRecognised("it has no input");
    return tracer.linear(*input, *constant, false, value_of(call, "bias"));
  }
  if (is_one_of(call.op, {"matmul", "bmm", "mm", "mv"}) && inputs.size() == 2) {
    return product(tracer, inputs[0], inputs[1]);
  }
  const bool is_index = call.op == "index" && inputs[0].is_constant();
  if (call.op == "embedding" || is_index) {
    const auto* table = inputs[0].as<ConstantRef>();
    const Argument* indices = is_index ? call.find("indices") : nullptr;
    const auto* list = indices != nullptr ? indices->as<Argument::List>() : nullptr;
    if (table == nullptr || inputs.size() != 2 || (*table)->shape().size() != 2 ||
        (list != nullptr && list->size() != 1)) {
      throw NotRecognised("it looks rows up in something else than a table of weights");
    }
    return looked_up(tracer, *table, inputs[1]);
  }
  return std::nullopt;
}

// A convolution of single places is a linear layer of channels, dimension 1.
std::optional<TracedValue> pointwise_convolution(Tracer& tracer, const Call& call) {
  if (call.op != "conv1d") return std::nullopt;
  const TracedValue* weight = value_of(call, "weight");
  const auto* constant = weight != nullptr ? weight->as<ConstantRef>() : nullptr;
  const auto are_all = [&](const char* name, int64_t wanted) {
    if (!call.has(name)) return true;
    return std::ranges::all_of(call.integers(name), [&](int64_t n) { return n == wanted; });
  };
  const bool is_pointwise = constant != nullptr && (*constant)->shape().size() == 3 &&
                            (*constant)->shape()[2] == 1 && are_all("stride", 1) &&
                            are_all("padding", 0);
  if (!is_pointwise) return std::nullopt;
  const ElementSumRef channels = tracer.as_sum(values_of(call).at(0));
  const int64_t groups = call.integer("groups", 1);
  const Shape matrix = {(*constant)->shape()[0], (*constant)->shape()[1]};
  if (groups < 1 || matrix[0] % groups != 0) throw NotRecognised("its groups do not divide it");
  ConstantRef flat = with_shape(*constant, matrix);
  if (groups > 1) flat = of_groups(flat, groups);
  const std::vector<size_t> order = swapped_last_two(channels->shape.size());
  const ElementSumRef made =
      (tracer.linear(permuted(channels, order), flat, false, value_of(call, "bias")));
  return permuted(made, order);
}

std::optional<TracedValue> convolution_op(Tracer& tracer, const Call& call) {
  if (!is_one_of(call.op, {"conv1d", "conv2d", "convolution"})) return std::nullopt;
  const TracedValue* input = value_of(call, "input");
  const TracedValue* given = value_of(call, "weight");
  const auto* weight = given != nullptr ? given->as<ConstantRef>() : nullptr;
  if (input == nullptr || weight == nullptr) {
    throw NotRecognised("its weights depend on the model's input");
  }
  const Call shapes = with_shapes(call);
  Array from = shapes.array("input");
  const Array& kernel = shapes.array("weight");
  const bool has_batch = from.rank() == kernel.rank();
  if (kernel.rank() < 3 || (!has_batch && from.rank() + 1 != kernel.rank())) {
    throw NotRecognised(kNoPatchConvolution);
  }
  Shape shape = from.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  from = from.with_shape(shape);
  const Convolution convolution = convolution_of(shapes, kernel);
  if (!cuts_patches(kernel, convolution)) {
    throw NotRecognised(kernel_text(kernel, convolution) + ": " + kNoPatchConvolution);
  }
  const Shape result = convolved_shape(shapes, from, kernel, convolution);
  ElementSumRef value = with_shape(tracer.as_sum(*input), shape);
  if (!value->is_plain() && tracer.is_of_model(*value))
    value = tracer.builder().materialised(value);
  Movement movement = windows(shape, result, kernel.shape(), convolution);
  movement.shape = {shape[0], movement.shape[2], movement.shape[3]};  // of one group
  const ElementSumRef rows = moved(movement, std::span(&value, 1));
  const Shape matrix_shape = {kernel.shape()[0], movement.shape[2]};
  const auto matrix = std::make_shared<Constant>(
      (*weight)->value(), matrix_shape, (*weight)->type(),
      [weight = *weight, matrix_shape] { return weight->array().with_shape(matrix_shape); });
  matrix->stored = (*weight)->stored;
  const ElementSumRef made = (tracer.linear(rows, matrix, false, value_of(call, "bias")));
  Shape made_shape = result;
  if (!has_batch) made_shape.erase(made_shape.begin());
  return with_shape(permuted(made, {0, 2, 1}), made_shape);
}

// ---- ops that are made of others ----

namespace {

// Runs them on traced values, or on constants, which are computed.
class TracedOps : public OpRunner {
 public:
  explicit TracedOps(Tracer& tracer) : tracer_(tracer) {}

  Argument run(const Call& part) override {
    const std::vector<TracedValue> inputs = values_of(part);
    const bool are_constants = std::ranges::all_of(inputs, &TracedValue::is_constant);
    return traced(are_constants ? tracer_.constant_of(part) : tracer_.trace(part).at(0));
  }
  Array like(const Argument& tensor) const override {
    const auto* ref = tensor.as<TracedRef>();
    if (ref == nullptr) throw NotRecognised("its arguments are not known");
    return Array::of_shape(shape_of(**ref), type_of(**ref));
  }
  bool is_fixed(const Argument& tensor) const override {
    const auto* ref = tensor.as<TracedRef>();
    return ref != nullptr && (*ref)->as<ScoresRef>() != nullptr;
  }
  bool is_constant(const Argument& tensor) const override {
    const auto* ref = tensor.as<TracedRef>();
    return ref != nullptr && (*ref)->is_constant();
  }

 private:
  Tracer& tracer_;
};

}  // namespace

// What weights and a bias are added to is a layer.
std::optional<TracedValue> layer_op(Tracer& tracer, const Call& call) {
  const TracedValue* added = value_of(call, "self");
  const TracedValue* value = value_of(call, "mat1");
  const TracedValue* given = value_of(call, "mat2");
  const auto* weight = given != nullptr ? given->as<ConstantRef>() : nullptr;
  const bool is_layer = call.op == "addmm" && value != nullptr && weight != nullptr &&
                        (*weight)->shape().size() == 2 && call.real("alpha", 1.0) == 1.0 &&
                        call.real("beta", 1.0) == 1.0 && added != nullptr && added->is_constant() &&
                        shape_of(*added) == Shape{(*weight)->shape()[1]} &&
                        value->as<ScoresRef>() == nullptr;
  if (!is_layer) return std::nullopt;
  return tracer.linear(*value, *weight, true, added);
}

std::optional<TracedValue> decomposed_op(Tracer& tracer, const Call& call) {
  if (!is_decomposed(call.op)) return std::nullopt;
  const TracedValue* input = value_of(call, "input");
  if (call.op == "group_norm" && input != nullptr && shape_of(*input).size() != 2) {
    throw NotRecognised(
        "its groups are of several tokens, since dimension 1 of [sequences, channels, tokens] is "
        "normalised with those after it: expected one token in each row, as x.reshape(-1, width)");
  }
  // A mask that is no constant is refused as such, and not as a number that is added.
  if (const TracedValue* mask = value_of(call, "attn_mask")) tracer.array_of(*mask);
  // Functions become values of nodes.
  const Call settled = bind<TracedRef>(call, [&](const TracedRef& ref) -> Argument {
    if (ref->as<FunctionRef>() == nullptr) return ref;
    return traced({tracer.as_sum(*ref), ref->type});
  });
  TracedOps ops(tracer);
  const Argument made = decomposed(settled, ops);
  if (made.is_none()) return std::nullopt;
  return **made.as<TracedRef>();
}

}  // namespace arenite::convert
