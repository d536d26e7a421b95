// SPDX-License-Identifier: Apache-2.0
// Products of matrices: linear layers by constants; scores and attention between values.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/read/call.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// Of each head as many copies as it has query heads.
ElementSumRef repeated_heads(const ElementSumRef& value, int64_t heads) {
  Shape shape = value->shape;
  const size_t place = shape.size() - 3;
  const int64_t own = shape[place];
  if (own == heads || own == 0 || heads % own != 0) return value;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(place) + 1, 1);
  const ElementSumRef separate = with_shape(value, shape);
  shape[place + 1] = heads / own;
  const ElementSumRef copies = stretched(separate, shape);
  Shape joined = value->shape;
  joined[place] = heads;
  return with_shape(copies, joined);
}

// A constant with leading dimensions of 1 as a matrix.
ConstantRef as_matrix(const ConstantRef& constant) {
  Shape shape = constant->shape();
  while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() != 2) {
    throw NotRecognised("it multiplies by a constant of " + shape_text(constant->shape()) +
                        ": expected a matrix of weights");
  }
  if (shape == constant->shape()) return constant;
  return with_shape_of(constant, shape);
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

}  // namespace

TracedValue Tracer::linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                           const TracedValue* bias) {
  std::vector<double> added;
  if (bias != nullptr) {
    const Array array = array_of(*bias);
    if (array.elements() != static_cast<size_t>(weight->shape()[transposed ? 1 : 0])) {
      throw NotRecognised("its bias has another width than its results");
    }
    added = array.to_reals();
  }
  WeightRef matrix = weight_of(program_, weight, transposed);
  if (weight->value() == kNoValue) {
    matrix.name = fmt::format("{}.{}", builder_.name(), ++made_weights_);
  }
  return builder_.linear(as_sum(value), matrix, std::move(added));
}

TracedValue Tracer::product(const TracedValue& a, const TracedValue& b) {
  if (const auto* scores = std::get_if<ScoresRef>(&a)) {
    return attend(builder_, **scores, as_sum(b));
  }
  if (std::holds_alternative<ScoresRef>(b)) {
    throw NotRecognised(
        "it multiplies a product of two values from the left, as linear attention does by q @ "
        "(k^T @ v): not supported, attention has a softmax over keys");
  }
  if (const auto* weight = std::get_if<ConstantRef>(&b)) {
    if ((*weight)->shape().size() == 1) {
      const int64_t width = (*weight)->shape()[0];
      const auto column = std::make_shared<const Constant>(
          (*weight)->value(), Shape{1, width}, (*weight)->type(), [weight = *weight, width] {
            return weight->array().with_shape({1, width});
          });
      const ElementSumRef made = as_sum(linear(a, column, false, nullptr));
      Shape shape = made->shape;
      shape.pop_back();
      return with_shape(made, shape);
    }
    Shape shape = (*weight)->shape();
    while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
    if (shape.size() > 2) return product_of_stacks(as_sum(a), with_shape_of(*weight, shape));
    return linear(a, as_matrix(*weight), true, nullptr);
  }
  if (const auto* weight = std::get_if<ConstantRef>(&a)) {
    if (const auto added = added_of_weights(*weight, builder_.sizes().tokens)) {
      Scores scores;
      const ElementSumRef values = as_sum(b);
      if (values->shape.size() < 2) throw NotRecognised("it weighs a value that has no rows");
      Shape lead(values->shape.begin(), values->shape.end() - 2);
      scores.shape = lead;
      scores.shape.push_back(builder_.sizes().tokens);
      scores.shape.push_back(builder_.sizes().tokens);
      scores.added = *added;
      scores.positions_max = (*weight)->positions_max;
      scores.has_softmax = true;
      return attend(builder_, scores, values);
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
    const ElementSumRef columns = as_sum(b);
    const ElementSumRef rows = permuted(columns, swapped_last_two(columns->shape.size()));
    const ElementSumRef made = as_sum(linear(rows, as_matrix(*weight), false, nullptr));
    return permuted(made, swapped_last_two(made->shape.size()));
  }
  return product_scores(as_sum(a), as_sum(b));
}

TracedValue Tracer::attention(const Operation& operation) {
  const CallArguments arguments(operation.call);
  const auto* given_query = operation.value("query");
  const auto* given_key = operation.value("key");
  const auto* given_value = operation.value("value");
  if (given_query == nullptr || given_key == nullptr || given_value == nullptr) {
    throw NotRecognised("its arguments are not known");
  }
  if (arguments.real("dropout_p", 0.0) != 0.0) {
    throw NotRecognised(
        "its dropout is active: call model.eval() before torch.export.export, and give dropout_p "
        "as self.p if self.training else 0.0");
  }
  const ElementSumRef query = as_sum(*given_query);
  ElementSumRef key = as_sum(*given_key);
  ElementSumRef value = as_sum(*given_value);
  if (query->shape.size() >= 3 && arguments.flag("enable_gqa", false)) {
    const int64_t heads = query->shape[query->shape.size() - 3];
    key = repeated_heads(key, heads);
    value = repeated_heads(value, heads);
  }
  ScoresRef scores = product_scores(query, permuted(key, swapped_last_two(key->shape.size())));
  const double usual = 1.0 / std::sqrt(static_cast<double>(query->shape.back()));
  scores = with_scale(*scores, arguments.real("scale", usual));
  if (const TracedValue* mask = operation.value("attn_mask")) {
    const Array array = array_of(*mask);
    const int64_t positions = std::get<ConstantRef>(*mask)->positions_max;
    if (array.type() == ElementType::kBool) {
      Array::Bools hidden = array.to_bools();
      for (uint8_t& each : hidden) each = each == 0;
      scores = with_filled(*scores, Array::boolean(array.shape(), std::move(hidden)),
                           -std::numeric_limits<double>::infinity(), positions);
    } else {
      scores = with_added(*scores, array, positions);
    }
  }
  if (arguments.flag("is_causal", false)) {
    const size_t rank = scores->shape.size();
    const int64_t queries = scores->shape[rank - 2];
    const int64_t keys = scores->shape[rank - 1];
    Array::Bools hidden;
    for (int64_t q = 0; q < queries; ++q) {
      for (int64_t k = 0; k < keys; ++k) hidden.push_back(k > q);
    }
    scores = with_filled(*scores, Array::boolean({queries, keys}, std::move(hidden)),
                         -std::numeric_limits<double>::infinity(), 0);
  }
  return attend(builder_, *with_softmax(*scores), value);
}

std::optional<TracedValue> Tracer::matrix_op(const Operation& operation) {
  const OpCall& call = operation.call;
  if (call.op == "linear") {
    const auto* weight = operation.value("weight");
    const auto* constant = weight != nullptr ? std::get_if<ConstantRef>(weight) : nullptr;
    if (constant == nullptr) throw NotRecognised("its weights depend on the model's input");
    const auto* input = operation.value("input");
    if (input == nullptr) throw NotRecognised("it has no input");
    return linear(*input, *constant, false, operation.value("bias"));
  }
  if (is_one_of(call.op, {"addmm", "baddbmm", "addmv"})) {
    const CallArguments arguments(call);
    const double alpha = arguments.real("alpha", 1.0), beta = arguments.real("beta", 1.0);
    const bool is_batch = call.op == "baddbmm";
    const TracedValue* a = operation.value(is_batch ? "batch1" : "mat1");
    const TracedValue* b = operation.value(is_batch ? "batch2" : "mat2");
    if (a == nullptr || b == nullptr) throw NotRecognised("its arguments are not known");
    const TracedValue* added = operation.value("self");
    const auto* weight = std::get_if<ConstantRef>(b);
    const bool is_layer = alpha == 1.0 && beta == 1.0 && weight != nullptr &&
                          (*weight)->shape().size() == 2 && added != nullptr &&
                          !is_dependent(*added) && shape_of(*added) == Shape{(*weight)->shape()[1]};
    if (is_layer && !std::holds_alternative<ScoresRef>(*a)) return linear(*a, *weight, true, added);
    const auto scaled_by = [&](const TracedValue& value, double factor) {
      if (factor == 1.0) return value;
      const OpCall times = {
          "mul", "Scalar", {}, {{"self", ValueRef{0}}, {"other", Argument(factor)}}, {}};
      return dependent({times, {value}, {ElementType::kF32}}).at(0);
    };
    const TracedValue made = scaled_by(product(*a, *b), alpha);
    if (beta == 0.0 || added == nullptr) return made;
    const OpCall sum = {"add",
                        "Tensor",
                        {},
                        {{"self", ValueRef{0}}, {"other", ValueRef{1}}, {"alpha", Argument(beta)}},
                        {}};
    return dependent({sum, {made, *added}, {ElementType::kF32, ElementType::kF32}}).at(0);
  }
  if (is_one_of(call.op, {"matmul", "bmm", "mm", "mv"}) && operation.inputs.size() == 2) {
    return product(operation.inputs[0], operation.inputs[1]);
  }
  if (call.op == "scaled_dot_product_attention") return attention(operation);
  if (call.op == "einsum") return einsum(operation);
  const bool is_index = call.op == "index" && !is_dependent(operation.inputs[0]);
  if (call.op == "embedding" || is_index) {
    const auto* table = std::get_if<ConstantRef>(&operation.inputs[0]);
    const Argument* indices = is_index ? call.find("indices") : nullptr;
    const auto* list = indices != nullptr ? indices->as<Argument::List>() : nullptr;
    if (table == nullptr || operation.inputs.size() != 2 || (*table)->shape().size() != 2 ||
        (list != nullptr && list->size() != 1)) {
      throw NotRecognised("it looks rows up in something else than a table of weights");
    }
    return looked_up(*table, operation.inputs[1]);
  }
  if (auto result = pointwise_convolution(operation)) return result;
  return std::nullopt;
}

// Products by several matrices of weights, as of heads that have one each, and convolutions of
// single places, which are linear layers.

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
TracedValue Tracer::product_by_weights(const ElementSumRef& value, const ConstantRef& weights,
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
  std::vector<ElementSumRef> parts;
  for (int64_t m = 0; m < matrices; ++m) {
    const Movement cut = {.shape = rest, .walk = {block}, .strides = {1}, .offset = m * block};
    const ElementSumRef part = moved(cut, std::span(&value, 1));
    const ConstantRef matrix = part_of(weights, m * inputs * outputs, {inputs, outputs});
    parts.push_back(as_sum(linear(part, matrix, true, nullptr)));
  }
  Movement stack;
  stack.shape.assign(value->shape.begin(), value->shape.end() - 1);
  stack.shape.push_back(outputs);
  stack.walk = {product_of(stack.shape, 0, stack.shape.size())};
  stack.strides = {1};
  return moved(stack, parts);
}

// As matmul: the leading dimensions of both go together.
TracedValue Tracer::product_of_stacks(const ElementSumRef& given, const ConstantRef& stack) {
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
        as_sum(linear(value, side_by_side(stack, matrices, inputs, outputs), true, nullptr));
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
  const ElementSumRef made = as_sum(product_by_weights(permuted(value, order), stack, shared));
  return permuted(made, inverse_order(order));
}

// A convolution of single places is a linear layer of channels, dimension 1.
std::optional<TracedValue> Tracer::pointwise_convolution(const Operation& operation) {
  if (operation.call.op != "conv1d") return std::nullopt;
  const TracedValue* weight = operation.value("weight");
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
  const ElementSumRef channels = as_sum(operation.inputs.at(0));
  const int64_t groups = arguments.integer("groups", 1);
  const Shape matrix = {(*constant)->shape()[0], (*constant)->shape()[1]};
  if (groups < 1 || matrix[0] % groups != 0) throw NotRecognised("its groups do not divide it");
  ConstantRef flat = with_shape_of(*constant, matrix);
  if (groups > 1) flat = of_groups(flat, groups);
  const std::vector<size_t> order = swapped_last_two(channels->shape.size());
  const ElementSumRef made =
      as_sum(linear(permuted(channels, order), flat, false, operation.value("bias")));
  return permuted(made, order);
}

// Convolutions as linear layers, where each of their places is made of one row: of a patch of an
// image, or of one token.

namespace {

// [sequences, places, channels * kernel]: what is multiplied with the weights for each place.
Movement windows(const Shape& input, const Shape& result, const Shape& weight,
                 const Convolution& convolution) {
  const Shape strides = strides_of(input);
  const size_t count = convolution.stride.size();
  Movement movement;
  int64_t places = 1;
  movement.walk.push_back(input[0]);
  movement.strides.push_back(strides[0]);
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(result[d + 2]);
    movement.strides.push_back(convolution.stride[d] * strides[d + 2]);
    places *= result[d + 2];
  }
  movement.walk.push_back(input[1]);
  movement.strides.push_back(strides[1]);
  int64_t width = input[1];
  for (size_t d = 0; d < count; ++d) {
    movement.walk.push_back(weight[d + 2]);
    movement.strides.push_back(convolution.dilation[d] * strides[d + 2]);
    width *= weight[d + 2];
  }
  movement.shape = {input[0], places, width};
  elements_of(movement.shape);  // refuses what is too large
  return movement;
}

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

std::optional<TracedValue> Tracer::convolution_op(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (op != "conv1d" && op != "conv2d" && op != "convolution") return std::nullopt;
  const TracedValue* input = operation.value("input");
  const TracedValue* given = operation.value("weight");
  const auto* weight = given != nullptr ? std::get_if<ConstantRef>(given) : nullptr;
  if (input == nullptr || weight == nullptr) {
    throw NotRecognised("its weights depend on the model's input");
  }
  const OpCall call = with_arrays(operation);
  const CallArguments arguments(call);
  Array from = arguments.array("input");
  const Array& kernel = arguments.array("weight");
  const bool has_batch = from.rank() == kernel.rank();
  if (kernel.rank() < 3 || (!has_batch && from.rank() + 1 != kernel.rank())) {
    throw NotRecognised(kNoPatchConvolution);
  }
  Shape shape = from.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  from = from.with_shape(shape);
  const Convolution convolution = convolution_of(arguments, kernel);
  if (!cuts_patches(kernel, convolution)) {
    throw NotRecognised(kernel_text(kernel, convolution) + ": " + kNoPatchConvolution);
  }
  const Shape result = convolved_shape(arguments, from, kernel, convolution);
  ElementSumRef value = with_shape(as_sum(*input), shape);
  if (!value->is_plain() && is_of_model(*value)) value = builder_.materialised(value);
  const Movement movement = windows(shape, result, kernel.shape(), convolution);
  const ElementSumRef rows = moved(movement, std::span(&value, 1));
  const Shape matrix_shape = {kernel.shape()[0], movement.shape[2]};
  const auto matrix = std::make_shared<Constant>(
      (*weight)->value(), matrix_shape, (*weight)->type(),
      [weight = *weight, matrix_shape] { return weight->array().with_shape(matrix_shape); });
  matrix->stored = (*weight)->stored;
  const ElementSumRef made = as_sum(linear(rows, matrix, false, operation.value("bias")));
  Shape made_shape = result;
  if (!has_batch) made_shape.erase(made_shape.begin());
  return with_shape(permuted(made, {0, 2, 1}), made_shape);
}

// Products of tensors whose dimensions have letters, as products of matrices.

namespace {

bool has(const std::string& text, char c) { return text.find(c) != std::string::npos; }

// The letters of each operand, and those of the result last. Dots stand for leading dimensions.
std::vector<std::string> letters_of(std::string equation, const std::vector<Shape>& shapes) {
  std::erase(equation, ' ');
  std::vector<std::string> parts(1);
  const size_t arrow = equation.find("->");
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != shapes.size()) throw NotRecognised("einsum " + equation + " of other inputs");
  std::string dots;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t place = parts[i].find("...");
    if (place == std::string::npos) continue;
    const size_t named = parts[i].size() - 3;
    if (shapes[i].size() < named || shapes[i].size() > named + 8) {
      throw NotRecognised("einsum " + equation + " of other dimensions");
    }
    // The last of the dimensions that dots stand for are the same for all.
    const std::string all = "01234567";
    const std::string own = all.substr(8 - (shapes[i].size() - named));
    parts[i].replace(place, 3, own);
    if (own.size() > dots.size()) dots = own;
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
    if (const size_t place = result.find("..."); place != std::string::npos) {
      result.replace(place, 3, dots);
    }
  } else {
    std::string once;
    for (const std::string& part : parts) once += part;
    std::ranges::sort(once);
    for (const char c : once) {
      if (std::ranges::count(once, c) == 1 && !has(dots, c)) result += c;
    }
    result = dots + result;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string sorted = parts[i];
    std::ranges::sort(sorted);
    const bool is_once = std::ranges::adjacent_find(sorted) == sorted.end();
    if (!is_once || parts[i].size() != shapes[i].size() || has(parts[i], '.')) {
      throw NotRecognised("einsum " + equation + ": expected a letter for each dimension");
    }
  }
  parts.push_back(result);
  return parts;
}

std::string only_those(const std::string& letters, auto&& is_wanted) {
  std::string wanted;
  for (const char c : letters) {
    if (is_wanted(c)) wanted += c;
  }
  return wanted;
}

}  // namespace

// The value with its dimensions in the order of `groups`, each joined to one.
TracedValue Tracer::arranged(const TracedValue& value, const std::string& letters,
                             const std::vector<std::string>& groups) {
  const Shape from = shape_of(value);
  std::vector<size_t> order;
  Shape shape;
  for (const std::string& group : groups) {
    int64_t extent = 1;
    for (const char c : group) {
      if (!has(letters, c)) continue;
      order.push_back(letters.find(c));
      extent *= from.at(letters.find(c));
    }
    shape.push_back(extent);
  }
  if (const auto* constant = std::get_if<ConstantRef>(&value)) {
    return std::make_shared<const Constant>(
        (*constant)->value(), shape, (*constant)->type(), [constant = *constant, order, shape] {
          OpBudget budget;
          Argument::List dims;
          for (const size_t d : order) dims.emplace_back(static_cast<int64_t>(d));
          const OpCall turn = {"permute",
                               "default",
                               {},
                               {{"self", constant->array()}, {"dims", std::move(dims)}},
                               {}};
          return apply_for_array(turn, budget).with_shape(shape);
        });
  }
  return with_shape(permuted(as_sum(value), order), shape);
}

// A product by weights: the letters that both have and the result has not are summed over.
TracedValue Tracer::einsum_of_weights(const TracedValue& value, const std::string& own,
                                      const ConstantRef& weight, const std::string& others,
                                      const std::string& result) {
  const auto in = [](const std::string& text) { return [&](char c) { return has(text, c); }; };
  const std::string rows = only_those(own, in(result));
  const std::string both = only_those(own, [&](char c) { return !has(result, c); });
  const std::string columns = only_those(others, [&](char c) { return !has(own, c); });
  const std::string shared = only_those(rows, in(others));
  if (!std::ranges::all_of(both, in(others))) {
    throw NotRecognised("einsum sums over a dimension of one input alone");
  }
  const Shape from = shape_of(value);
  Shape made_shape;
  TracedValue made;
  if (shared.empty()) {
    std::vector<std::string> groups;
    for (const char c : rows) groups.emplace_back(1, c);
    groups.push_back(both);
    made = product(arranged(value, own, groups), arranged(weight, others, {both, columns}));
  } else {
    const std::string rest = only_those(rows, [&](char c) { return !has(shared, c); });
    std::vector<std::string> groups, weight_groups;
    for (const char c : shared) groups.emplace_back(1, c);
    weight_groups = groups;
    for (const char c : rest) groups.emplace_back(1, c);
    groups.push_back(both);
    weight_groups.push_back(both);
    weight_groups.push_back(columns);
    made = product_by_weights(as_sum(arranged(value, own, groups)),
                              std::get<ConstantRef>(arranged(weight, others, weight_groups)),
                              shared.size());
    const std::string order_made = shared + rest;
    for (const char c : order_made) made_shape.push_back(from.at(own.find(c)));
    for (const char c : columns) made_shape.push_back(weight->shape().at(others.find(c)));
    return arranged(with_shape(as_sum(made), made_shape), order_made + columns, single(result));
  }
  for (const char c : rows) made_shape.push_back(from.at(own.find(c)));
  for (const char c : columns) made_shape.push_back(weight->shape().at(others.find(c)));
  return arranged(with_shape(as_sum(made), made_shape), rows + columns, single(result));
}

std::vector<std::string> Tracer::single(const std::string& letters) {
  std::vector<std::string> groups;
  for (const char c : letters) groups.emplace_back(1, c);
  return groups;
}

// Queries times keys: the last two letters of the result are theirs.
TracedValue Tracer::einsum_of_queries(const TracedValue& a, const std::string& letters_a,
                                      const TracedValue& b, const std::string& letters_b,
                                      const std::string& result) {
  if (result.size() < 2) throw NotRecognised("einsum makes no scores of queries and keys");
  const std::string lead = result.substr(0, result.size() - 2);
  const char query = result[result.size() - 2], key = result.back();
  const bool is_turned = !has(letters_a, query);
  const std::string& of_query = is_turned ? letters_b : letters_a;
  const std::string& of_key = is_turned ? letters_a : letters_b;
  const std::string both =
      only_those(of_query, [&](char c) { return has(of_key, c) && !has(result, c); });
  const bool fits = has(of_query, query) && !has(of_query, key) && has(of_key, key) &&
                    !has(of_key, query) && !both.empty();
  if (!fits) throw NotRecognised("einsum makes no scores of queries and keys");
  std::vector<std::string> groups = single(lead);
  groups.emplace_back(1, query);
  groups.push_back(both);
  std::vector<std::string> key_groups = single(lead);
  key_groups.push_back(both);
  key_groups.emplace_back(1, key);
  return product(arranged(is_turned ? b : a, of_query, groups),
                 arranged(is_turned ? a : b, of_key, key_groups));
}

// Weights of attention, whose last two dimensions are queries and keys, times values.
TracedValue Tracer::einsum_of_scores(const ScoresRef& scores, const std::string& letters,
                                     const TracedValue& values, const std::string& of_values,
                                     const std::string& result) {
  const std::string lead = letters.substr(0, letters.size() - 2);
  const char query = letters[letters.size() - 2], key = letters.back();
  const std::string columns = only_those(of_values, [&](char c) { return !has(letters, c); });
  const bool fits =
      has(of_values, key) && !has(of_values, query) && has(result, query) && !has(result, key);
  if (!fits) {
    throw NotRecognised(
        "einsum mixes scores of several heads, or sums them over queries: not supported, scores "
        "are the weights of one head's values");
  }
  std::vector<std::string> groups = single(lead);
  groups.emplace_back(1, key);
  groups.push_back(columns);
  const Shape from = shape_of(values);
  const ElementSumRef made = as_sum(product(scores, arranged(values, of_values, groups)));
  Shape shape(made->shape.begin(), made->shape.end() - 1);
  for (const char c : columns) shape.push_back(from.at(of_values.find(c)));
  const std::string order_made = lead + query + columns;
  std::string summed = only_those(order_made, [&](char c) { return !has(result, c); });
  if (!summed.empty()) throw NotRecognised("einsum sums over heads");
  return arranged(with_shape(made, shape), order_made, single(result));
}

TracedValue Tracer::einsum(const Operation& operation) {
  const CallArguments arguments(operation.call);
  std::vector<Shape> shapes;
  for (const TracedValue& input : operation.inputs) shapes.push_back(shape_of(input));
  const std::vector<std::string> letters = letters_of(arguments.text("equation", ""), shapes);
  const std::string& result = letters.back();
  TracedValue made = operation.inputs.at(0);
  std::string of_made = letters[0];
  if (operation.inputs.size() == 1) return arranged(made, of_made, single(result));
  for (size_t i = 1; i < operation.inputs.size(); ++i) {
    // What neither a later input nor the result has is summed over.
    std::string wanted = result;
    if (i + 1 < operation.inputs.size()) {
      std::string later = result;
      for (size_t k = i + 1; k < operation.inputs.size(); ++k) later += letters[k];
      wanted = only_those(of_made, [&](char c) { return has(later, c); });
      wanted += only_those(letters[i], [&](char c) { return has(later, c) && !has(of_made, c); });
    }
    made = einsum_of_two(made, of_made, operation.inputs[i], letters[i], wanted);
    of_made = wanted;
  }
  return made;
}

TracedValue Tracer::einsum_of_two(const TracedValue& a, const std::string& letters_a,
                                  const TracedValue& b, const std::string& letters_b,
                                  const std::string& result) {
  if (const auto* scores = std::get_if<ScoresRef>(&a)) {
    return einsum_of_scores(*scores, letters_a, b, letters_b, result);
  }
  if (const auto* scores = std::get_if<ScoresRef>(&b)) {
    return einsum_of_scores(*scores, letters_b, a, letters_a, result);
  }
  if (const auto* weight = std::get_if<ConstantRef>(&b)) {
    return einsum_of_weights(a, letters_a, *weight, letters_b, result);
  }
  if (const auto* weight = std::get_if<ConstantRef>(&a)) {
    return einsum_of_weights(b, letters_b, *weight, letters_a, result);
  }
  return einsum_of_queries(a, letters_a, b, letters_b, result);
}

}  // namespace arenite::convert
