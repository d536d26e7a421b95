// SPDX-License-Identifier: Apache-2.0
// Functions that are kept as the author's ops until somebody needs their values.

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "convert/exported/read/call.h"
#include "convert/exported/recover/refusals.h"
#include "convert/exported/trace/tracer.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Thrown for a function that the runtime has no op for.
struct UnknownFunction {};

bool are_even(const std::vector<double>& numbers) {
  return std::ranges::all_of(numbers, [&](double number) { return number == numbers[0]; });
}

constexpr size_t kKeptMax = 64;  // functions whose nodes are remembered

constexpr int kPowerMax = 4;

// The exponent of pow or square; 0 unless it is a whole number that products make.
int whole_power(const OpCall& call) {
  if (call.op == "square") return 2;
  const Argument* exponent = call.find("exponent");
  if (exponent == nullptr) return 0;
  for (int power = 2; power <= kPowerMax; ++power) {
    const bool is_whole = exponent->as<int64_t>() && *exponent->as<int64_t>() == power;
    const bool is_real = exponent->as<double>() && *exponent->as<double>() == power;
    if (is_whole || is_real) return power;
  }
  return 0;
}

constexpr const char* kNoFunction =
    "the runtime has no op for this function: it has relu, leaky relu, elu, gelu, silu, mish, "
    "softplus, hard swish, tanh, sigmoid, clamps, products, layer norm and RMS norm, and finds "
    "them "
    "however they are written, with any factors. What comes last, leave to your program; what "
    "works on the features alone, do before";
constexpr const char* kReducesColumns =
    "it makes one number of the columns of a row, which is supported within norms alone: write a "
    "sum or a mean as x @ torch.ones(width, 1), or let the model give out the columns";

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
    return "recurrent layers are not supported: the runtime has linear layers, norms and "
           "attention. "
           "Run them in your program, and export the part of the model that takes their results";
  }
  if (begins({"sort", "topk", "argsort", "argmax", "argmin", "kthvalue", "msort"})) {
    return "it orders numbers by their size: not supported within a model, as to route tokens to "
           "experts; as its result, let the model give out the numbers, and order them in your "
           "program";
  }
  if (begins({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"})) {
    return "it goes through elements one after the other, which the runtime has no op for: tokens "
           "meet in attention and pooling alone";
  }
  if (begins({"fft", "stft", "istft"})) {
    return "the runtime has no Fourier transform: write it as a product with a constant matrix if "
           "it is one of a row, and not of several tokens";
  }
  if (op.ends_with("_loss") || begins({"kl_div", "binary_cross_entropy"})) {
    return "it computes a loss: let the model give out what it compares, and compare that in your "
           "program";
  }
  if (begins({"cosine_similarity", "cdist", "pairwise_distance", "_cdist"})) {
    return "it compares rows with each other: let the model give out the rows, as by "
           "F.normalize(x, dim=-1), and compare them in your program";
  }
  if (begins({"instance_norm", "_instance_norm"})) {
    return "it normalises over the tokens of a sequence: normalise a series before the model, or "
           "use a norm of each token, such as nn.LayerNorm";
  }
  if (begins({"upsample", "avg_pool", "max_pool", "adaptive_", "conv", "_upsample", "col2im",
              "im2col"})) {
    return "it makes each result of several tokens or pixels: not supported, tokens meet in "
           "attention and pooling alone. Run it in your program before or after the model";
  }
  return "";
}

}  // namespace

bool is_reduction(std::string_view op) {
  return is_one_of(op, {"mean", "sum", "var", "std", "amax", "amin", "max", "min", "norm",
                        "linalg_vector_norm", "logsumexp", "prod"});
}

ElementSumRef Tracer::as_sum(const TracedValue& value) {
  if (const auto* elements = std::get_if<ElementSumRef>(&value)) return *elements;
  if (const auto* function = std::get_if<FunctionRef>(&value)) return materialise(*function);
  if (const auto* constant = std::get_if<ConstantRef>(&value)) {
    return builder_.of_constant(*constant);
  }
  if (std::holds_alternative<ScoresRef>(value)) {
    throw NotRecognised(
        "it uses scores, which are products of tokens with tokens, otherwise than for the softmax "
        "and the product with values: not supported, nor as a result of the model");
  }
  if (std::holds_alternative<ComplexPair>(value)) {
    throw NotRecognised("it uses complex numbers otherwise than for a rotation");
  }
  if (std::holds_alternative<ScoreRowRef>(value)) {
    throw NotRecognised(
        "it changes the sum or the largest of scores, as for a softmax off by one: not supported, "
        "expected scores.softmax(-1)");
  }
  throw NotRecognised("it uses a number where a tensor of the model is expected");
}

FunctionRef Tracer::as_function(const TracedValue& value) {
  if (const auto* function = std::get_if<FunctionRef>(&value)) return *function;
  ElementSumRef elements = as_sum(value);
  auto base_expression = std::make_shared<Expression>();
  base_expression->shape = elements->shape;
  ExpressionRef expression = base_expression;
  if (const auto multiple = builder_.multiple_of_node(elements)) {
    elements = multiple->value;
    expression = std::make_shared<const Expression>(
        Expression{{"mul", "Tensor", {}, {{"self", ValueRef{0}}, {"other", multiple->factor}}, {}},
                   {base_expression},
                   elements->shape,
                   1});
  } else if (auto shifted = builder_.columns_of_node(elements);
             shifted && !elements->is_plain() && elements->terms.size() > 1 &&
             are_even(shifted->factors) && are_even(shifted->offsets)) {
    elements = shifted->value;
    const Array factor = Array::real({}, {shifted->factors[0]});
    const Array offset = Array::real({}, {shifted->offsets[0]});
    const auto times = std::make_shared<const Expression>(
        Expression{{"mul", "Tensor", {}, {{"self", ValueRef{0}}, {"other", factor}}, {}},
                   {base_expression},
                   elements->shape,
                   1});
    expression = std::make_shared<const Expression>(
        Expression{{"add", "Tensor", {}, {{"self", ValueRef{0}}, {"other", offset}}, {}},
                   {times},
                   elements->shape,
                   2});
  } else {
    elements = builder_.materialised(elements);
  }
  return std::make_shared<const Function>(Function{elements, expression});
}

// Any op that works on each number or each row by itself, for later.
TracedValue Tracer::function_op(const Operation& operation) {
  const OpCall& call = operation.call;
  if (is_one_of(call.op, {"dropout", "native_dropout", "alpha_dropout", "feature_dropout"})) {
    throw NotRecognised(
        "dropout is active: call model.eval() before torch.export.export, and give F.dropout "
        "training=self.training");
  }
  const auto rows_of_source = [&](const ElementSum& value) {
    return value.elements() == 0 ? 0 : builder_.source(value.terms[0].places.at(0)).rows;
  };
  const std::string why = why_no_op(call.op);
  if (!has_rule(call.op)) {
    throw NotRecognised(why.empty() ? "the runtime has no such op: leave it out of the exported "
                                      "part, or write it with linear layers, norms and activations"
                                    : why);
  }
  auto expression = std::make_shared<Expression>();
  ElementSumRef base;
  Shape shape;
  expression->call = bind(call, [&](uint32_t index) -> Argument {
    const TracedValue& input = operation.inputs[index];
    if (!is_dependent(input)) {
      if (call.op != "gather") shape = broadcast(shape, shape_of(input));
      return array_of(input);
    }
    const FunctionRef function = as_function(input);
    shape = broadcast(shape, function->expression->shape);
    if (base == nullptr) base = function->base;
    if (base != function->base && !are_same(*base, *function->base)) {
      const bool is_pooled = base->terms.size() == 1 && function->base->terms.size() == 1 &&
                             rows_of_source(*base) != rows_of_source(*function->base);
      throw NotRecognised(is_pooled ? kPooledGoesBack
                                    : "it puts two values of the model together otherwise than by "
                                      "a sum or a product: not supported");
    }
    expression->inputs.push_back(function->expression);
    return ValueRef{static_cast<uint32_t>(expression->inputs.size() - 1)};
  });
  // Token ids may become positions.
  const bool is_of_ids = base != nullptr && builder_.is_of_ids(*base);
  if (!why.empty() && !is_of_ids) throw NotRecognised(why);
  if (call.op == "gather" && operation.value("index") != nullptr) {
    shape = shape_of(*operation.value("index"));
  }
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
  if (expression->depth > kExportedLevelsMax) {
    throw NotRecognised("a function of so many ops, one within the other, is not supported");
  }
  return std::make_shared<const Function>(Function{base, expression});
}

void Tracer::require_no_ids(const Function& function) const {
  if (!builder_.is_of_ids(*function.base)) return;
  const Expression* first = function.expression.get();
  while (!first->inputs.empty() && !first->inputs[0]->is_base()) first = first->inputs[0].get();
  throw InputError("{}: {}: {}", quote(program_->source), first->call.describe(), kReadsIds);
}

// A function that is made of an unknown one is unknown itself: the author's whole formula is named.
ElementSumRef Tracer::materialise(const FunctionRef& function) {
  const Expression& expression = *function->expression;
  if (expression.is_base()) return function->base;
  require_no_ids(*function);
  const Level level;
  for (const auto& [known, made] : made_functions_) {
    if (known == function->expression) return made;
  }
  const std::string before = builder_.name();
  if (!function->name.empty()) builder_.set_name(function->name);
  ++functions_within_;
  try {
    const ElementSumRef made = materialise_named(function);
    --functions_within_;
    builder_.set_name(before);
    if (made_functions_.size() == kKeptMax) made_functions_.erase(made_functions_.begin());
    made_functions_.emplace_back(function->expression, made);
    return made;
  } catch (const UnknownFunction&) {
    if (--functions_within_ > 0) throw;
    const bool reduces =
        is_reduction(expression.call.op) && expression.shape != function->base->shape;
    throw InputError("{}: {}: {}", quote(program_->source), expression.call.describe(),
                     reduces ? kReducesColumns : kNoFunction);
  }
}

ElementSumRef Tracer::activated(const ElementSumRef& base, const FoundActivation& found) {
  const auto with_offset = [&](const ElementSumRef& value, double offset) {
    if (offset == 0.0) return value;
    const auto number = std::make_shared<const Constant>(kNoValue, Array::real({}, {offset}));
    return sum(value, builder_.of_constant(number), 1.0);
  };
  const ElementSumRef inner = with_offset(scaled(base, found.scale_in), found.offset_in);
  ElementSumRef value = scaled(builder_.activation(inner, found.activation), found.scale_out);
  if (found.linear != 0.0) value = sum(value, base, found.linear);
  return with_offset(value, found.offset_out);
}

// Rows of length 1 have an op of their own.
ElementSumRef Tracer::normalised(const ElementSumRef& base, NormSpec norm) {
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
  return builder_.norm(base, std::move(norm));
}

ElementSumRef Tracer::materialise_named(const FunctionRef& function) {
  const Expression& expression = *function->expression;
  const auto found = find_function(expression, function->base->shape, budget_);
  if (found) {
    if (const auto* norm = std::get_if<NormSpec>(&*found)) return normalised(function->base, *norm);
    if (const auto* normalize = std::get_if<NormalizeNode>(&*found)) {
      return builder_.normalize(function->base, normalize->kind);
    }
    if (const auto* linear = std::get_if<LinearSpec>(&*found)) {
      WeightRef weight = linear->weight;
      weight.name = builder_.name();
      return builder_.linear(function->base, weight, linear->bias);
    }
    return activated(function->base, std::get<FoundActivation>(*found));
  }
  const auto refuse = []() -> ElementSumRef { throw UnknownFunction{}; };
  // The op on values that are nodes of their own.
  const bool is_of_base = std::ranges::all_of(
      expression.inputs, [](const ExpressionRef& input) { return input->is_base(); });
  if (expression.call.op == "pow" || expression.call.op == "square") {
    const int times = whole_power(expression.call);
    if (times < 2 || expression.inputs[0]->shape != function->base->shape) return refuse();
    const ElementSumRef value =
        as_sum(std::make_shared<const Function>(Function{function->base, expression.inputs[0]}));
    ElementSumRef power = builder_.product(value, value);
    for (int i = 2; i < times; ++i) power = builder_.product(power, value);
    return power;
  }
  if (expression.call.op == "mul" && expression.inputs.size() == 2) {
    ElementSumRef parts[2];
    for (size_t i = 0; i < 2; ++i) {
      if (expression.inputs[i]->shape != function->base->shape) return refuse();
      parts[i] =
          as_sum(std::make_shared<const Function>(Function{function->base, expression.inputs[i]}));
    }
    return builder_.product(parts[0], parts[1]);
  }
  if (is_of_base) return refuse();
  Operation operation{expression.call, {}, {}};
  for (const ExpressionRef& input : expression.inputs) {
    if (input->shape != function->base->shape) return refuse();
    operation.inputs.emplace_back(
        as_sum(std::make_shared<const Function>(Function{function->base, input})));
    operation.types.push_back(ElementType::kF32);
  }
  const TracedValue made = dependent(operation).at(0);
  if (!std::holds_alternative<FunctionRef>(made)) {
    // Factors of columns go into a layer that follows; others, as of heads, are a node's.
    const ElementSumRef value = as_sum(made);
    return builder_.has_factors_of_heads(value) ? builder_.materialised(value) : value;
  }
  // The function again: of values that are nodes, which have no factors left.
  for (TracedValue& input : operation.inputs) input = builder_.materialised(as_sum(input));
  return as_sum(dependent(operation).at(0));
}

// Rows that are looked up by what is computed of the token ids: their positions, with or without
// padding, or the same row for all. Which it is shows for a few sequences of ids.

namespace {

constexpr int64_t kProbedIdsMax = 64;  // ids that are used in probes

void collect_ids(const Expression& expression, std::set<const Expression*>& seen,
                 std::set<int64_t>& ids) {
  if (!seen.insert(&expression).second) return;
  for (const NamedArgument& argument : expression.call.arguments) {
    if (const int64_t* number = argument.value.as<int64_t>()) ids.insert(*number);
  }
  for (const ExpressionRef& input : expression.inputs) collect_ids(*input, seen, ids);
}

struct Probed {
  Array::Integers ids, rows;
};

// The rows of positions that count ids other than `padding`: `offset` for the first of them, and
// the one before that for padding itself.
bool counts_all_but(int64_t padding, int64_t offset, const Probed& probed, size_t tokens) {
  int64_t count = 0;
  for (size_t i = 0; i < probed.ids.size(); ++i) {
    if (i % tokens == 0) count = 0;
    const bool is_padding = probed.ids[i] == padding;
    if (probed.rows[i] != offset + (is_padding ? -1 : count)) return false;
    if (!is_padding) ++count;
  }
  return true;
}

}  // namespace

TracedValue Tracer::looked_up(const ConstantRef& table, const TracedValue& given) {
  const auto* function = std::get_if<FunctionRef>(&given);
  if (function == nullptr) return builder_.embedding(table, as_sum(given));
  const ElementSumRef base = (*function)->base;
  const Expression& expression = *(*function)->expression;
  if (!builder_.is_of_ids(*base) || expression.shape != base->shape)
    return builder_.embedding(table, as_sum(given));
  std::set<const Expression*> seen;
  std::set<int64_t> numbers;
  collect_ids(expression, seen, numbers);
  const int64_t rows = table->shape()[0];
  const int64_t ids_end = std::clamp<int64_t>(
      builder_.graph().vocab_size != 0 ? builder_.graph().vocab_size : rows, 1, kProbedIdsMax);
  std::mt19937_64 random(11);
  std::vector<Probed> probes(4);
  for (Probed& probed : probes) {
    for (size_t i = 0; i < base->elements(); ++i) {
      probed.ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(ids_end)));
    }
    // Numbers of the formula are ids that it may treat in a way of their own.
    for (size_t i = 1; i < probed.ids.size(); i += 3) {
      for (const int64_t number : numbers) {
        if (number >= 0 && number < ids_end && random() % 2 == 0) probed.ids[i] = number;
      }
    }
    budget_.live_elements = OpBudget{}.live_elements;
    const Array rows = evaluate(expression, Array::integer(base->shape, probed.ids), budget_);
    if (rows.shape() != base->shape) throw NotRecognised("it looks up other rows than one an id");
    probed.rows = rows.to_integers();
  }
  const auto holds = [&](const std::function<bool(const Probed&)>& rule) {
    return std::ranges::all_of(probes, rule);
  };
  if (holds([](const Probed& probed) { return probed.rows == probed.ids; })) {
    return builder_.embedding(table, base);
  }
  const int64_t first = probes[0].rows.at(0);
  if (first >= 0 && first < rows && holds([&](const Probed& probed) {
        return std::ranges::all_of(probed.rows, [&](int64_t row) { return row == first; });
      })) {
    return builder_.table_rows(table, base->shape, std::vector<int64_t>(base->elements(), first));
  }
  if (holds([&](const Probed& probed) { return probed.rows == probes[0].rows; })) {
    return builder_.table_rows(table, base->shape, probes[0].rows);
  }
  const size_t tokens = builder_.sizes().tokens;
  for (const int64_t padding : numbers) {
    const auto rule = [&](const Probed& probed) {
      return counts_all_but(padding, padding + 1, probed, tokens);
    };
    if (padding >= 0 && base->shape.back() == builder_.sizes().tokens && holds(rule)) {
      return builder_.padded_positions(table, base, padding);
    }
  }
  throw NotRecognised(
      "the rows that it looks up are computed of the token ids: expected the ids themselves, or "
      "their positions, with or without padding");
}

}  // namespace arenite::convert
