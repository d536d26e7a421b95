// SPDX-License-Identifier: Apache-2.0
// Functions that are kept as the author's ops until somebody needs their values.

#include <algorithm>
#include <array>
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

// Functions that the runtime has as they are.
struct PlainActivation {
  std::string_view op;
  Activation activation;
};
constexpr PlainActivation kPlain[] = {{"relu", Activation::kRelu},
                                      {"silu", Activation::kSilu},
                                      {"tanh", Activation::kTanh},
                                      {"sigmoid", Activation::kSigmoid},
                                      {"mish", Activation::kMish}};

const PlainActivation* find_plain(std::string_view op) {
  const auto* row = std::ranges::find(kPlain, op, &PlainActivation::op);
  return row == std::end(kPlain) ? nullptr : row;
}

constexpr size_t kKeptMax = 64;  // functions whose nodes are remembered

constexpr int kPowerMax = 4;

// The exponent of pow or square; 0 unless it is a whole number that products make.
int whole_power(const Call& call) {
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
    "them however they are written, with any factors. What comes last, leave to your program; "
    "what works on the features alone, do before";
constexpr const char* kReducesColumns =
    "it makes one number of the columns of a row, which is supported within norms alone: write a "
    "sum or a mean as x @ torch.ones(width, 1), or let the model give out the columns";

// What no attention model of the runtime does, by how the names of its ops begin, and why, or what
// to do instead.
struct NoOp {
  std::array<std::string_view, 8> beginnings;
  const char* why;
};
constexpr NoOp kNoOps[] = {
    {{"lstm", "gru", "rnn", "quantized_lstm"},
     "recurrent layers are not supported: the runtime has linear layers, norms and attention. Run "
     "them in your program, and export the part of the model that takes their results"},
    {{"sort", "topk", "argsort", "argmax", "argmin", "kthvalue", "msort"},
     "it orders numbers by their size: not supported within a model, as to route tokens to "
     "experts; as its result, let the model give out the numbers, and order them in your program"},
    {{"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"},
     "it goes through elements one after the other, which the runtime has no op for: tokens meet "
     "in attention and pooling alone"},
    {{"fft", "stft", "istft"},
     "the runtime has no Fourier transform: write it as a product with a constant matrix if it is "
     "one of a row, and not of several tokens"},
    {{"kl_div", "binary_cross_entropy"},
     "it computes a loss: let the model give out what it compares, and compare that in your "
     "program"},
    {{"cosine_similarity", "cdist", "pairwise_distance", "_cdist"},
     "it compares rows with each other: let the model give out the rows, as by F.normalize(x, "
     "dim=-1), and compare them in your program"},
    {{"instance_norm", "_instance_norm"},
     "it normalises over the tokens of a sequence: normalise a series before the model, or use a "
     "norm of each token, such as nn.LayerNorm"},
    {{"upsample", "avg_pool", "max_pool", "adaptive_", "conv", "_upsample", "col2im", "im2col"},
     "it makes each result of several tokens or pixels: not supported, tokens meet in attention "
     "and pooling alone. Run it in your program before or after the model"},
};

// Null: not known.
const char* why_no_op(std::string_view op) {
  if (const char* why = why_random(op)) return why;
  const std::string_view known = op.ends_with("_loss") ? "kl_div" : op;
  for (const NoOp& row : kNoOps) {
    for (const std::string_view beginning : row.beginnings) {
      if (!beginning.empty() && known.starts_with(beginning)) return row.why;
    }
  }
  return nullptr;
}

}  // namespace

FunctionRef function_of(const ElementSumRef& base, Call call, Shape shape, size_t depth) {
  if (depth > kExportedLevelsMax) {
    throw NotRecognised("a function of so many ops, one within the other, is not supported");
  }
  return std::make_shared<const Function>(
      Function{base, std::make_shared<const Call>(std::move(call)), std::move(shape), depth});
}

bool is_reduction(std::string_view op) {
  return is_one_of(op, {"mean", "sum", "var", "std", "amax", "amin", "max", "min", "norm",
                        "linalg_vector_norm", "logsumexp", "prod"});
}

ElementSumRef Tracer::as_sum(const TracedValue& value) {
  if (const auto* elements = value.as<ElementSumRef>()) return *elements;
  if (const auto* function = value.as<FunctionRef>()) return materialise(*function);
  if (const auto* constant = value.as<ConstantRef>()) {
    return builder_.of_constant(*constant);
  }
  if (value.as<ScoresRef>() != nullptr) {
    throw NotRecognised(
        "it uses scores, which are products of tokens with tokens, otherwise than for the softmax "
        "and the product with values: not supported, nor as a result of the model");
  }
  if (value.as<ComplexPair>() != nullptr) {
    throw NotRecognised("it uses complex numbers otherwise than for a rotation");
  }
  throw NotRecognised(
      "it changes the sum or the largest of scores, as for a softmax off by one: not supported, "
      "expected scores.softmax(-1)");
}

FunctionRef Tracer::as_function(const TracedValue& value) {
  if (const auto* function = value.as<FunctionRef>()) return *function;
  ElementSumRef elements = as_sum(value);
  // The base as numbers of the formula.
  const auto applied = [&](const char* op, const FunctionRef& of, const Array& number) {
    Call call = {.op = op, .arguments = {{"self", traced(of)}, {"other", number}}};
    return std::make_shared<const Function>(Function{
        elements, std::make_shared<const Call>(std::move(call)), elements->shape, of->depth + 1});
  };
  const auto base = [&] {
    return std::make_shared<const Function>(Function{.base = elements, .shape = elements->shape});
  };
  if (const auto multiple = builder_.multiple_of_node(elements)) {
    elements = multiple->value;
    return applied("mul", base(), multiple->factor);
  }
  if (const auto shifted = builder_.columns_of_node(elements);
      shifted && !elements->is_plain() && elements->terms.size() > 1 &&
      are_even(shifted->factors) && are_even(shifted->offsets)) {
    elements = shifted->value;
    const FunctionRef times = applied("mul", base(), Array::real({}, {shifted->factors[0]}));
    return applied("add", times, Array::real({}, {shifted->offsets[0]}));
  }
  elements = builder_.materialised(elements);
  return base();
}

// Any op that works on each number or each row by itself, for later.
std::optional<TracedValue> function_op(Tracer& tracer, const Call& call) {
  if (is_one_of(call.op, {"dropout", "native_dropout", "alpha_dropout", "feature_dropout"})) {
    throw NotRecognised(
        "dropout is active: call model.eval() before torch.export.export, and give F.dropout "
        "training=self.training");
  }
  const auto rows_of_source = [&](const ElementSum& value) {
    return value.elements() == 0 ? 0 : tracer.builder().source(value.terms[0].places.at(0)).rows;
  };
  const char* why = why_no_op(call.op);
  if (!has_rule(call.op)) {
    throw NotRecognised(why != nullptr
                            ? why
                            : "the runtime has no such op: leave it out of the exported part, or "
                              "write it with linear layers, norms and activations");
  }
  ElementSumRef base;
  Shape shape;
  size_t depth = 0;
  Call formula = bind<TracedRef>(call, [&](const TracedRef& input) -> Argument {
    if (input->is_constant()) {
      if (call.op != "gather") shape = broadcast(shape, shape_of(*input));
      return tracer.array_of(*input);
    }
    const FunctionRef function = tracer.as_function(*input);
    shape = broadcast(shape, function->shape);
    depth = std::max(depth, function->depth + 1);
    if (base == nullptr) base = function->base;
    if (base != function->base && !are_same(*base, *function->base)) {
      const bool is_pooled = base->terms.size() == 1 && function->base->terms.size() == 1 &&
                             rows_of_source(*base) != rows_of_source(*function->base);
      throw NotRecognised(is_pooled ? kPooledGoesBack
                                    : "it puts two values of the model together otherwise than by "
                                      "a sum or a product: not supported");
    }
    return traced(function);
  });
  // Token ids may become positions.
  const bool is_of_ids = base != nullptr && tracer.builder().is_of_ids(*base);
  if (why != nullptr && !is_of_ids) throw NotRecognised(why);
  if (call.op == "gather" && value_of(call, "index") != nullptr) {
    shape = shape_of(*value_of(call, "index"));
  }
  if (is_reduction(call.op)) {
    if (call.flag("keepdim", false)) {
      shape.back() = 1;
    } else {
      shape.pop_back();
    }
  }
  return function_of(base, std::move(formula), std::move(shape), depth);
}

// The first op that is computed of the base.
void Tracer::require_no_ids(const Function& function) const {
  if (!builder_.is_of_ids(*function.base)) return;
  FunctionRef first = std::make_shared<const Function>(function);
  for (auto inputs = values_of(*first->call); !inputs.empty(); inputs = values_of(*first->call)) {
    const FunctionRef next = *inputs[0].as<FunctionRef>();
    if (next->is_base()) break;
    first = next;
  }
  throw OpError("{}: {}", first->call->describe(), kReadsIds);
}

// A function that is made of an unknown one is unknown itself: the author's whole formula is named.
ElementSumRef Tracer::materialise(const FunctionRef& function) {
  if (function->is_base()) return function->base;
  require_no_ids(*function);
  const Level level;
  for (const auto& [known, made] : made_functions_) {
    if (known == function->call) return made;
  }
  const std::string before = builder_.name();
  if (!function->name.empty()) builder_.set_name(function->name);
  ++functions_within_;
  try {
    const ElementSumRef made = materialise_named(*function);
    --functions_within_;
    builder_.set_name(before);
    if (made_functions_.size() == kKeptMax) made_functions_.erase(made_functions_.begin());
    made_functions_.emplace_back(function->call, made);
    return made;
  } catch (const UnknownFunction&) {
    if (--functions_within_ > 0) throw;
    const bool reduces =
        is_reduction(function->call->op) && function->shape != function->base->shape;
    throw OpError("{}: {}", function->call->describe(), reduces ? kReducesColumns : kNoFunction);
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

ElementSumRef Tracer::materialise_named(const Function& function) {
  const Call& call = *function.call;
  std::vector<FunctionRef> inputs;  // of the same base, without names of their own
  for (const TracedValue& value : values_of(call)) {
    const Function& input = **value.as<FunctionRef>();
    inputs.push_back(std::make_shared<const Function>(
        Function{function.base, input.call, input.shape, input.depth}));
  }
  const bool is_of_base =
      std::ranges::all_of(inputs, [](const auto& input) { return input->is_base(); });
  if (const auto* row = find_plain(call.op); row != nullptr && is_of_base) {
    return builder_.activation(function.base, {row->activation});
  }
  if (const auto found = find_function(function, budget_)) {
    if (const auto* norm = std::get_if<NormSpec>(&*found)) return normalised(function.base, *norm);
    if (const auto* normalize = std::get_if<RowFunctionNode>(&*found)) {
      return builder_.normalize(function.base, normalize->kind);
    }
    if (const auto* linear = std::get_if<LinearSpec>(&*found)) {
      WeightRef weight = linear->weight;
      weight.name = builder_.name();
      return builder_.linear(function.base, weight, linear->bias);
    }
    return activated(function.base, std::get<FoundActivation>(*found));
  }
  // The op on values that are nodes of their own.
  const bool is_power = call.op == "pow" || call.op == "square";
  const bool is_product = call.op == "mul" && inputs.size() == 2;
  const bool has_shapes = std::ranges::all_of(
      inputs, [&](const auto& input) { return input->shape == function.base->shape; });
  if (!has_shapes || (is_of_base && !is_power && !is_product)) throw UnknownFunction{};
  if (is_power) {
    const int times = whole_power(call);
    if (times < 2) throw UnknownFunction{};
    const ElementSumRef value = as_sum(inputs[0]);
    ElementSumRef power = builder_.product(value, value);
    for (int i = 2; i < times; ++i) power = builder_.product(power, value);
    return power;
  }
  if (is_product) {
    const ElementSumRef first = as_sum(inputs[0]);
    return builder_.product(first, as_sum(inputs[1]));
  }
  const auto run = [&](const auto& value_of_input) {
    size_t next = 0;
    return trace(bind<TracedRef>(call,
                                 [&](const TracedRef&) -> Argument {
                                   return traced(value_of_input(inputs[next++]));
                                 }))
        .at(0);
  };
  const TracedValue made = run([&](const FunctionRef& input) { return as_sum(input); });
  if (made.as<FunctionRef>() == nullptr) {
    // Factors of columns go into a layer that follows; others, as of heads, are a node's.
    const ElementSumRef value = as_sum(made);
    return builder_.has_factors_of_heads(value) ? builder_.materialised(value) : value;
  }
  // The function again: of values that are nodes, which have no factors left.
  return as_sum(
      run([&](const FunctionRef& input) { return builder_.materialised(as_sum(input)); }));
}

// Rows that are looked up by what is computed of the token ids: their positions, with or without
// padding, or the same row for all. Which it is shows for a few sequences of ids.

namespace {

constexpr int64_t kProbedIdsMax = 64;  // ids that are used in probes

void collect_ids(const Function& function, std::set<const Call*>& seen, std::set<int64_t>& ids) {
  if (function.is_base() || !seen.insert(function.call.get()).second) return;
  for (const NamedArgument& argument : function.call->arguments) {
    if (const int64_t* number = argument.value.as<int64_t>()) ids.insert(*number);
  }
  for (const TracedValue& input : values_of(*function.call)) {
    collect_ids(**input.as<FunctionRef>(), seen, ids);
  }
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

ElementSumRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given) {
  GraphBuilder& builder = tracer.builder();
  const auto* function = given.as<FunctionRef>();
  if (function == nullptr) return builder.embedding(table, tracer.as_sum(given));
  const ElementSumRef base = (*function)->base;
  if (!builder.is_of_ids(*base) || (*function)->shape != base->shape) {
    return builder.embedding(table, tracer.as_sum(given));
  }
  std::set<const Call*> seen;
  std::set<int64_t> numbers;
  collect_ids(**function, seen, numbers);
  const int64_t rows = table->shape()[0];
  const int64_t ids_end = std::clamp<int64_t>(
      builder.graph().vocab_size != 0 ? builder.graph().vocab_size : rows, 1, kProbedIdsMax);
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
    tracer.budget().live_elements = OpBudget{}.live_elements;
    const Array rows =
        evaluate(**function, Array::integer(base->shape, probed.ids), tracer.budget());
    if (rows.shape() != base->shape) throw NotRecognised("it looks up other rows than one an id");
    probed.rows = rows.to_integers();
  }
  const auto holds = [&](const std::function<bool(const Probed&)>& rule) {
    return std::ranges::all_of(probes, rule);
  };
  if (holds([](const Probed& probed) { return probed.rows == probed.ids; })) {
    return builder.embedding(table, base);
  }
  const int64_t first = probes[0].rows.at(0);
  if (first >= 0 && first < rows && holds([&](const Probed& probed) {
        return std::ranges::all_of(probed.rows, [&](int64_t row) { return row == first; });
      })) {
    return builder.table_rows(table, base->shape, std::vector<int64_t>(base->elements(), first));
  }
  if (holds([&](const Probed& probed) { return probed.rows == probes[0].rows; })) {
    return builder.table_rows(table, base->shape, probes[0].rows);
  }
  const size_t tokens = builder.sizes().tokens;
  for (const int64_t padding : numbers) {
    const auto rule = [&](const Probed& probed) {
      return counts_all_but(padding, padding + 1, probed, tokens);
    };
    if (padding >= 0 && base->shape.back() == builder.sizes().tokens && holds(rule)) {
      return builder.padded_positions(table, base, padding);
    }
  }
  throw NotRecognised(
      "the rows that it looks up are computed of the token ids: expected the ids themselves, or "
      "their positions, with or without padding");
}

}  // namespace arenite::convert
