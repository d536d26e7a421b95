// SPDX-License-Identifier: Apache-2.0
// Functions that are kept as the author's ops until somebody needs their values.
#include <algorithm>
#include <cmath>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/reducer.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

// Of rows that are divided by their length: what torch.nn.functional.normalize adds, squared.
constexpr double kEpsilonMin = 1e-24;

// What no attention model of the runtime does, and why, or what to do instead; empty: not known.
std::string why_no_op(std::string_view op) {
  const auto begins = [&](std::initializer_list<std::string_view> beginnings) {
    return std::ranges::any_of(beginnings,
                               [&](std::string_view part) { return op.starts_with(part); });
  };
  if (begins({"rand", "bernoulli", "multinomial", "normal", "uniform"})) {
    return "it makes random numbers, so that every call of the model gives something else: leave "
           "it "
           "out when the model is in eval mode";
  }
  if (begins({"lstm", "gru", "rnn", "quantized_lstm"})) {
    return "recurrent layers are not supported: the runtime has linear layers, norms and attention";
  }
  if (begins({"sort", "topk", "argsort", "argmax", "argmin", "kthvalue", "msort"})) {
    return "it orders numbers by their size, which is for the program that runs the model: let the "
           "model give out the numbers themselves";
  }
  if (begins({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"})) {
    return "it goes through elements one after the other, which the runtime has no op for: tokens "
           "meet in attention and pooling alone";
  }
  if (begins({"fft", "stft", "istft"})) {
    return "the runtime has no Fourier transform: write it as a product with a constant matrix if "
           "it "
           "is one of a row, and not of several tokens";
  }
  return "";
}

}  // namespace

bool is_reduction(std::string_view op) {
  return is_one_of(op, {"mean", "sum", "var", "std", "amax", "amin", "max", "min", "norm",
                        "linalg_vector_norm", "logsumexp", "prod"});
}

AffineRef Reducer::as_affine(const Reduced& value) {
  if (const auto* affine = std::get_if<AffineRef>(&value)) return *affine;
  if (const auto* function = std::get_if<FunctionRef>(&value)) return materialise(*function);
  if (const auto* constant = std::get_if<ConstantRef>(&value)) {
    return builder_.of_constant(*constant);
  }
  if (std::holds_alternative<ScoresRef>(value)) {
    throw NotRecognised(
        "it uses scores of attention otherwise than for the softmax and the product with values");
  }
  if (std::holds_alternative<ComplexPair>(value)) {
    throw NotRecognised("it uses complex numbers otherwise than for a rotation");
  }
  throw NotRecognised("it uses a value that nothing is known of");
}

FunctionRef Reducer::as_function(const Reduced& value) {
  if (const auto* function = std::get_if<FunctionRef>(&value)) return *function;
  AffineRef affine = as_affine(value);
  auto base_expression = std::make_shared<Expression>();
  base_expression->shape = affine->shape;
  ExpressionRef expression = base_expression;
  if (affine->terms.size() == 1 && !affine->is_plain() && !affine->terms[0].factors.each) {
    const double factor = affine->terms[0].factors.uniform;
    affine =
        std::make_shared<const Affine>(Affine{affine->shape, {Term{affine->terms[0].places, {}}}});
    expression = std::make_shared<const Expression>(
        Expression{{"mul", "Tensor", {}, {{"self", ValueRef{0}}, {"other", Argument(factor)}}, {}},
                   {base_expression},
                   affine->shape});
  } else {
    affine = builder_.materialised(affine);
  }
  return std::make_shared<const Function>(Function{affine, expression});
}

// Any op that works on each number or each row by itself, for later.
Reduced Reducer::function_op(const Operation& operation) {
  const OpCall& call = operation.call;
  if (is_one_of(call.op, {"dropout", "native_dropout", "alpha_dropout", "feature_dropout"})) {
    throw NotRecognised("dropout is active: export model.eval()");
  }
  if (const std::string why = why_no_op(call.op); !why.empty()) throw NotRecognised(why);
  if (!has_rule(call.op)) throw NotRecognised("the runtime has no such op");
  auto expression = std::make_shared<Expression>();
  AffineRef base;
  Shape shape;
  expression->call = bind(call, [&](uint32_t index) -> Argument {
    const Reduced& input = operation.inputs[index];
    if (!is_dependent(input)) {
      shape = broadcast(shape, shape_of(input));
      return array_of(input);
    }
    const FunctionRef function = as_function(input);
    shape = broadcast(shape, function->expression->shape);
    if (base == nullptr) base = function->base;
    if (base != function->base && !are_same(*base, *function->base)) {
      throw NotRecognised("it puts two values together otherwise than by a sum or a product");
    }
    expression->inputs.push_back(function->expression);
    return ValueRef{static_cast<uint32_t>(expression->inputs.size() - 1)};
  });
  if (is_reduction(call.op)) {
    if (CallArguments(call).flag("keepdim", false)) {
      shape.back() = 1;
    } else {
      shape.pop_back();
    }
  }
  expression->shape = std::move(shape);
  for (const ExpressionRef& input : expression->inputs) {
    expression->depth = std::max(expression->depth, input->depth + 1);
  }
  if (expression->depth > kExpressionDepthMax) {
    throw NotRecognised("a function of so many ops, one within the other, is not supported");
  }
  return std::make_shared<const Function>(Function{base, expression});
}

AffineRef Reducer::materialise(const FunctionRef& function) {
  const Expression& expression = *function->expression;
  if (expression.is_base()) return function->base;
  const std::string before = builder_.name();
  if (!function->name.empty()) builder_.set_name(function->name);
  const AffineRef made = materialise_named(function);
  builder_.set_name(before);
  return made;
}

// A norm without an epsilon has one that no row notices; rows of length 1 have an op of their own.
AffineRef Reducer::normalised(const AffineRef& base, NormSpec norm) {
  const auto width = static_cast<uint32_t>(norm.gain.size());
  if (norm.epsilon > 0.0) return builder_.norm(base, std::move(norm));
  const double length_one = 1.0 / std::sqrt(static_cast<double>(width));
  const bool is_length = norm.kind == NormKind::kRms && norm.bias.empty() &&
                         std::ranges::all_of(norm.gain, [&](double gain) {
                           return std::fabs(gain - length_one) < 1e-9;
                         });
  if (is_length && builder_.source(base->terms[0].places.at(0)).width == width) {
    return builder_.normalize(base);
  }
  norm.epsilon = kEpsilonMin;
  return builder_.norm(base, std::move(norm));
}

AffineRef Reducer::materialise_named(const FunctionRef& function) {
  const Expression& expression = *function->expression;
  const auto found = find_function(expression, function->base->shape, budget_);
  if (found) {
    if (const auto* norm = std::get_if<NormSpec>(&*found)) return normalised(function->base, *norm);
    const auto& activation = std::get<FoundActivation>(*found);
    AffineRef value = scaled(function->base, activation.scale_in);
    value = builder_.activation(value, activation.activation);
    return scaled(value, activation.scale_out);
  }
  const auto refuse = [&]() -> AffineRef {
    throw InputError(
        "{}: {}: the runtime has no op for this function: it has relu, gelu, silu, tanh, sigmoid, "
        "products, layer norm and RMS norm, and finds them however they are written",
        quote(program_->source), expression.call.describe());
  };
  // The op on values that are nodes of their own.
  const bool is_of_base = std::ranges::all_of(
      expression.inputs, [](const ExpressionRef& input) { return input->is_base(); });
  if (expression.call.op == "pow" || expression.call.op == "square") {
    const Argument* exponent = expression.call.find("exponent");
    const bool is_square = exponent == nullptr ||
                           (exponent->as<int64_t>() && *exponent->as<int64_t>() == 2) ||
                           (exponent->as<double>() && *exponent->as<double>() == 2.0);
    if (!is_square) return refuse();
    const AffineRef value =
        as_affine(std::make_shared<const Function>(Function{function->base, expression.inputs[0]}));
    return builder_.product(value, value);
  }
  if (expression.call.op == "mul" && expression.inputs.size() == 2) {
    AffineRef parts[2];
    for (size_t i = 0; i < 2; ++i) {
      if (expression.inputs[i]->shape != function->base->shape) return refuse();
      parts[i] = as_affine(
          std::make_shared<const Function>(Function{function->base, expression.inputs[i]}));
    }
    return builder_.product(parts[0], parts[1]);
  }
  if (is_of_base) return refuse();
  Operation operation{expression.call, {}, {}};
  for (const ExpressionRef& input : expression.inputs) {
    if (input->shape != function->base->shape) return refuse();
    operation.inputs.emplace_back(
        as_affine(std::make_shared<const Function>(Function{function->base, input})));
    operation.types.push_back(ElementType::kF32);
  }
  const Reduced made = dependent(operation).at(0);
  return as_affine(made);
}

std::optional<Reduced> Reducer::pooling_op(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (!is_reduction(op)) return std::nullopt;
  const CallArguments arguments(operation.call);
  const Reduced& input = operation.inputs.at(0);
  const Shape shape = shape_of(input);
  if (!arguments.has("dim")) throw NotRecognised("it makes one number of all tokens");
  const std::vector<int64_t> dims = arguments.integers("dim");
  if (dims.size() != 1) throw NotRecognised("it reduces several dimensions");
  const size_t axis = arguments.dimension(dims[0], shape.size());
  const auto* affine = std::get_if<AffineRef>(&input);
  const bool is_last = axis + 1 == shape.size();
  if (is_last && (affine == nullptr || !builder_.is_along_tokens(*affine, axis))) {
    return std::nullopt;
  }
  const bool keeps = arguments.flag("keepdim", false);
  AffineRef pooled;
  if (op == "mean" || op == "sum") {
    pooled = builder_.pooled(as_affine(input), axis, SelectKind::kMean);
    if (op == "sum") pooled = scaled(pooled, static_cast<double>(builder_.sizes().tokens));
  } else if (op == "amax" || op == "max") {
    pooled = builder_.pooled(as_affine(input), axis, SelectKind::kMax);
  } else {
    throw NotRecognised(
        "the runtime pools tokens by their mean, their maximum, the first or the "
        "last one");
  }
  if (!keeps) return pooled;
  Shape kept = shape;
  kept[axis] = 1;
  return with_shape(pooled, kept);
}

}  // namespace arenite::convert
