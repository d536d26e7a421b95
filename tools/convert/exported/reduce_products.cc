// SPDX-License-Identifier: Apache-2.0
// Products of matrices: linear layers by constants; scores and attention between values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/constant_arguments.h"
#include "convert/exported/reducer.h"

namespace arenite::convert {
namespace {

// Of each head as many copies as it has query heads.
AffineRef repeated_heads(const AffineRef& value, int64_t heads) {
  Shape shape = value->shape;
  const size_t place = shape.size() - 3;
  const int64_t own = shape[place];
  if (own == heads || own == 0 || heads % own != 0) return value;
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(place) + 1, 1);
  const AffineRef separate = with_shape(value, shape);
  shape[place + 1] = heads / own;
  const AffineRef copies = stretched(separate, shape);
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

Reduced Reducer::linear(const Reduced& value, const ConstantRef& weight, bool transposed,
                        const Reduced* bias) {
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
  return builder_.linear(as_affine(value), matrix, std::move(added));
}

Reduced Reducer::product(const Reduced& a, const Reduced& b) {
  if (const auto* scores = std::get_if<ScoresRef>(&a)) {
    return attend(builder_, **scores, as_affine(b));
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
      const AffineRef made = as_affine(linear(a, column, false, nullptr));
      Shape shape = made->shape;
      shape.pop_back();
      return with_shape(made, shape);
    }
    Shape shape = (*weight)->shape();
    while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
    if (shape.size() > 2) return product_of_stacks(as_affine(a), with_shape_of(*weight, shape));
    return linear(a, as_matrix(*weight), true, nullptr);
  }
  if (const auto* weight = std::get_if<ConstantRef>(&a)) {
    if (const auto added = added_of_weights(*weight, builder_.sizes().tokens)) {
      Scores scores;
      const AffineRef values = as_affine(b);
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
    const AffineRef columns = as_affine(b);
    const AffineRef rows = permuted(columns, swapped_last_two(columns->shape.size()));
    const AffineRef made = as_affine(linear(rows, as_matrix(*weight), false, nullptr));
    return permuted(made, swapped_last_two(made->shape.size()));
  }
  return product_scores(as_affine(a), as_affine(b));
}

Reduced Reducer::attention(const Operation& operation) {
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
  const AffineRef query = as_affine(*given_query);
  AffineRef key = as_affine(*given_key);
  AffineRef value = as_affine(*given_value);
  if (query->shape.size() >= 3 && arguments.flag("enable_gqa", false)) {
    const int64_t heads = query->shape[query->shape.size() - 3];
    key = repeated_heads(key, heads);
    value = repeated_heads(value, heads);
  }
  ScoresRef scores = product_scores(query, permuted(key, swapped_last_two(key->shape.size())));
  const double usual = 1.0 / std::sqrt(static_cast<double>(query->shape.back()));
  scores = with_scale(*scores, arguments.real("scale", usual));
  if (const Reduced* mask = operation.value("attn_mask")) {
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

std::optional<Reduced> Reducer::matrix_op(const Operation& operation) {
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
    const Reduced* a = operation.value(is_batch ? "batch1" : "mat1");
    const Reduced* b = operation.value(is_batch ? "batch2" : "mat2");
    if (a == nullptr || b == nullptr) throw NotRecognised("its arguments are not known");
    const Reduced* added = operation.value("self");
    const auto* weight = std::get_if<ConstantRef>(b);
    const bool is_layer = alpha == 1.0 && beta == 1.0 && weight != nullptr &&
                          (*weight)->shape().size() == 2 && added != nullptr &&
                          !is_dependent(*added) && shape_of(*added) == Shape{(*weight)->shape()[1]};
    if (is_layer && !std::holds_alternative<ScoresRef>(*a)) return linear(*a, *weight, true, added);
    const auto scaled_by = [&](const Reduced& value, double factor) {
      if (factor == 1.0) return value;
      const OpCall times = {
          "mul", "Scalar", {}, {{"self", ValueRef{0}}, {"other", Argument(factor)}}, {}};
      return dependent({times, {value}, {ElementType::kF32}}).at(0);
    };
    const Reduced made = scaled_by(product(*a, *b), alpha);
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

}  // namespace arenite::convert
