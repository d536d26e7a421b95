// SPDX-License-Identifier: Apache-2.0
// Functions that are kept as the author's ops until somebody needs their values.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// Functions that the runtime has as they are, under PyTorch's names.
constexpr Activation kPlain[] = {Activation::kRelu, Activation::kSilu, Activation::kTanh,
                                 Activation::kSigmoid, Activation::kMish};

constexpr size_t kKeptMax = 64;  // functions whose nodes are remembered

constexpr int kPowerMax = 4;

// The exponent of pow or square; 0 unless it is a whole number that products make.
int whole_power(const Call& call) {
  if (call.op == "square") return 2;
  const Argument* exponent = call.find("exponent");
  if (call.op != "pow" || exponent == nullptr) return 0;
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
    {{"native_dropout"},
     "dropout is active: call model.eval() before torch.export.export, and give F.dropout "
     "training=self.training"},
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
  refuse_op_if(depth > kExportedLevelsMax,
               "a function of so many ops, one within the other, is not supported");
  return std::make_shared<const Function>(
      Function{base, std::make_shared<const Call>(std::move(call)), std::move(shape), depth});
}

bool is_reduction(std::string_view op) {
  return is_one_of(op, {"mean", "sum", "var", "std", "amax", "amin", "max", "min", "norm",
                        "linalg_vector_norm", "logsumexp", "prod"});
}

ElementSumRef Tracer::as_sum(const TracedValue& value) {
  if (const ElementSumRef& elements = value.as<ElementSumRef>()) return elements;
  if (const FunctionRef& function = value.as<FunctionRef>()) return materialise(function);
  if (const ConstantRef& constant = value.as<ConstantRef>()) return builder.of_constant(constant);
  refuse_op_if(value.is<ScoresRef>(),
               "it uses scores, which are products of tokens with tokens, otherwise than for the "
               "softmax and the product with values: not supported, nor as a result of the model");
  refuse_op_if(value.is<ComplexPair>(), "it uses complex numbers otherwise than for a rotation");
  throw NotRecognised(
      "it changes the sum or the largest of scores, as for a softmax off by one: not supported, "
      "expected scores.softmax(-1)");
}

FunctionRef Tracer::as_function(const TracedValue& value) {
  if (const FunctionRef& function = value.as<FunctionRef>()) return function;
  const ElementSumRef elements = as_sum(value);
  const auto base = [](const ElementSumRef& of) {
    return std::make_shared<const Function>(Function{.base = of, .shape = of->shape});
  };
  // A multiple of a base has the factor among the numbers of its formula.
  const auto applied = [](const char* op, const FunctionRef& of, const Array& number) {
    Call call = {.op = op, .arguments = {{"self", traced(of)}, {"other", number}}};
    return function_of(of->base, std::move(call), of->shape, of->depth + 1);
  };
  if (const auto multiple = multiple_of_node(builder, elements)) {
    return applied("mul", base(multiple->value), multiple->factor);
  }
  const auto number = [](double each) { return Array::real({}, {each}); };
  const auto are_even = [](const std::vector<double>& numbers) {
    return std::ranges::all_of(numbers, [&](double each) { return each == numbers[0]; });
  };
  if (const auto shifted = columns_of_node(builder, elements);
      shifted && elements->terms.size() > 1 && are_even(shifted->factors) &&
      are_even(shifted->offsets)) {
    const FunctionRef times = applied("mul", base(shifted->value), number(shifted->factors[0]));
    return applied("add", times, number(shifted->offsets[0]));
  }
  return base(builder.materialised(elements));
}

// Any op that works on each number or each row by itself, for later.
std::optional<TracedValue> function_op(Tracer& tracer, const Call& call) {
  const GraphBuilder& builder = tracer.builder;
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
      const auto rows = [&](const ElementSum& value) {
        return value.elements() == 0 ? 0 : builder.source(value.at(0)).rows;
      };
      refuse_op_if(base->terms.size() == 1 && function->base->terms.size() == 1 &&
                       rows(*base) != rows(*function->base),
                   kPooledGoesBack);
      throw NotRecognised(
          "it puts two values of the model together otherwise than by a sum or a product: not "
          "supported");
    }
    return traced(function);
  });
  // Token ids may become positions.
  if (why != nullptr && !(base != nullptr && is_of_ids(builder, *base))) throw NotRecognised(why);
  if (call.op == "gather" && value_of(call, "index") != nullptr) {
    shape = shape_of(*value_of(call, "index"));
  }
  if (is_reduction(call.op)) {
    shape.pop_back();
    if (call.flag("keepdim", false)) shape.push_back(1);
  }
  return function_of(base, std::move(formula), std::move(shape), depth);
}

// The first op that is computed of the base.
void Tracer::require_no_ids(const Function& function) const {
  if (!is_of_ids(builder, *function.base)) return;
  FunctionRef first = std::make_shared<const Function>(function);
  for (auto inputs = values_of(*first->call); !inputs.empty(); inputs = values_of(*first->call)) {
    const FunctionRef& next = inputs[0].as<FunctionRef>();
    if (next->is_base()) break;
    first = next;
  }
  throw OpError("{}: {}", first->call->describe(), kReadsIds);
}

ElementSumRef Tracer::materialise(const FunctionRef& function) {
  if (function->is_base()) return function->base;
  require_no_ids(*function);
  const Level level;
  for (const auto& [known, made] : made_functions_) {
    if (known == function->call) return made;
  }
  const std::string name_before = builder.name;
  const Function* const outermost_before = outermost_;
  if (!function->name.empty()) builder.name = function->name;
  if (outermost_ == nullptr) outermost_ = function.get();
  const ElementSumRef made = materialise_named(*function);
  outermost_ = outermost_before;
  builder.name = name_before;
  if (made_functions_.size() == kKeptMax) made_functions_.erase(made_functions_.begin());
  made_functions_.emplace_back(function->call, made);
  return made;
}

namespace {

ElementSumRef activated(GraphBuilder& builder, const ElementSumRef& base,
                        const FoundActivation& found) {
  const auto with_offset = [&](const ElementSumRef& value, double offset) {
    if (offset == 0.0) return value;
    const auto number = std::make_shared<const Constant>(kNoValue, Array::real({}, {offset}));
    return sum(value, builder.of_constant(number), 1.0);
  };
  const ElementSumRef inner = with_offset(scaled(base, found.scale_in), found.offset_in);
  ElementSumRef value = scaled(activation(builder, inner, found.activation), found.scale_out);
  if (found.linear != 0.0) value = sum(value, base, found.linear);
  return with_offset(value, found.offset_out);
}

// Rows of length 1 have an op of their own.
ElementSumRef normalised(GraphBuilder& builder, const ElementSumRef& base, const NormSpec& spec) {
  const auto width = static_cast<uint32_t>(spec.gain.size());
  const double length_one = 1.0 / std::sqrt(static_cast<double>(width));
  const bool is_length = !(spec.epsilon > 0.0) && spec.kind == NormKind::kRms &&
                         spec.bias.empty() && std::ranges::all_of(spec.gain, [&](double gain) {
                           return std::fabs(gain - length_one) < 1e-9;
                         });
  if (is_length && builder.source(base->at(0)).width == width) {
    return normalize(builder, base, NormKind::kLength);
  }
  return norm(builder, base, spec);
}

}  // namespace

ElementSumRef Tracer::materialise_named(const Function& function) {
  const Call& call = *function.call;
  const auto inputs = values_of(call);
  const bool is_of_base = std::ranges::all_of(
      inputs, [](const TracedValue& input) { return input.as<FunctionRef>()->is_base(); });
  for (const Activation kind : kPlain) {
    if (is_of_base && call.op == kActivationNames[static_cast<size_t>(kind)]) {
      return activation(builder, function.base, {kind});
    }
  }
  const auto found = find_function(function, budget_);
  if (!found) return op_on_nodes(function);
  if (const auto* spec = std::get_if<NormSpec>(&*found)) {
    return normalised(builder, function.base, *spec);
  }
  if (const auto* node = std::get_if<RowFunctionNode>(&*found)) {
    return normalize(builder, function.base, node->kind);
  }
  if (const auto* layer = std::get_if<LinearSpec>(&*found)) {
    WeightRef weight = layer->weight;
    weight.name = builder.name;
    return convert::linear(builder, function.base, weight, layer->bias);
  }
  return activated(builder, function.base, std::get<FoundActivation>(*found));
}

// The function's last op on values that are nodes of their own. A function that is made of an
// unknown one is unknown itself: the author's whole formula is named.
ElementSumRef Tracer::op_on_nodes(const Function& function) {
  const Call& call = *function.call;
  std::vector<FunctionRef> inputs;  // of the same base, without names of their own
  bool is_of_base = true, has_shapes = true;
  for (const TracedValue& value : values_of(call)) {
    const Function& input = *value.as<FunctionRef>();
    is_of_base = is_of_base && input.is_base();
    has_shapes = has_shapes && input.shape == function.base->shape;
    inputs.push_back(std::make_shared<const Function>(
        Function{function.base, input.call, input.shape, input.depth}));
  }
  const bool is_power = call.op == "pow" || call.op == "square";
  const int power = whole_power(call);
  const bool is_product = call.op == "mul" && inputs.size() == 2;
  if (!has_shapes || (is_power ? power == 0 : is_of_base && !is_product)) {
    const Function& whole = *outermost_;
    const bool reduces = is_reduction(whole.call->op) && whole.shape != whole.base->shape;
    throw OpError("{}: {}", whole.call->describe(), reduces ? kReducesColumns : kNoFunction);
  }
  if (is_power || is_product) {
    const ElementSumRef first = as_sum(inputs[0]);
    ElementSumRef made = product(builder, first, is_power ? first : as_sum(inputs[1]));
    for (int i = 2; i < power; ++i) made = product(builder, made, first);
    return made;
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
  if (made.is<FunctionRef>()) {
    // The function again: of values that are nodes, which have no factors left.
    return as_sum(
        run([&](const FunctionRef& input) { return builder.materialised(as_sum(input)); }));
  }
  // Factors of columns go into a layer that follows; others, as of heads, are a node's.
  const ElementSumRef value = as_sum(made);
  return has_factors_of_heads(builder, value) ? builder.materialised(value) : value;
}

// Rows that are looked up by what is computed of the token ids: their positions, with or without
// padding, or the same row for all. Which it is shows for a few sequences of ids.

namespace {

constexpr int64_t kProbedIdsMax = 64;  // ids that are used in probes
constexpr size_t kProbes = 4;

struct Probed {
  Array::Integers ids, rows;

  // Whether rows are positions that count ids other than `padding`: the one after it for the first
  // of them, and `padding` for padding itself.
  bool counts_all_but(int64_t padding, size_t tokens) const {
    int64_t count = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % tokens == 0) count = 0;
      const bool is_padding = ids[i] == padding;
      if (rows[i] != padding + (is_padding ? 0 : 1 + count)) return false;
      if (!is_padding) ++count;
    }
    return true;
  }
};

std::vector<Probed> probed(Tracer& tracer, const Function& function, int64_t ids_end,
                           const std::set<int64_t>& numbers) {
  std::mt19937_64 random(11);
  std::vector<Probed> probes(kProbes);
  for (Probed& probe : probes) {
    for (size_t i = 0; i < function.base->elements(); ++i) {
      probe.ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(ids_end)));
    }
    // Numbers of the formula are ids that it may treat in a way of their own.
    for (size_t i = 1; i < probe.ids.size(); i += 3) {
      for (const int64_t number : numbers) {
        if (number < ids_end && random() % 2 == 0) probe.ids[i] = number;
      }
    }
    const Array ids = Array::integer(function.base->shape, probe.ids);
    const Array rows = evaluate(function, ids, tracer.op_budget());
    refuse_op_if(rows.shape() != function.base->shape, "it looks up other rows than one an id");
    probe.rows = rows.to_integers();
  }
  return probes;
}

}  // namespace

ElementSumRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given) {
  GraphBuilder& builder = tracer.builder;
  const FunctionRef& function = given.as<FunctionRef>();
  const bool is_of_each_id =
      function && is_of_ids(builder, *function->base) && function->shape == function->base->shape;
  if (!is_of_each_id) return embedding(builder, table, tracer.as_sum(given));
  const ElementSumRef base = function->base;
  std::set<int64_t> numbers;  // that may be ids
  for (const double number : numbers_of(*function)) {
    if (number >= 0.0 && number < 0x1p32 && number == std::floor(number)) {
      numbers.insert(static_cast<int64_t>(number));
    }
  }
  const int64_t rows = table->shape()[0];
  const int64_t ids_end = std::clamp<int64_t>(
      builder.graph.vocab_size != 0 ? builder.graph.vocab_size : rows, 1, kProbedIdsMax);
  const std::vector<Probed> probes = probed(tracer, *function, ids_end, numbers);
  const auto holds = [&](const auto& rule) { return std::ranges::all_of(probes, rule); };
  if (holds([](const Probed& probe) { return probe.rows == probe.ids; })) {
    return embedding(builder, table, base);
  }
  const Array::Integers& first = probes[0].rows;
  if (holds([&](const Probed& probe) { return probe.rows == first; })) {
    return table_rows(builder, table, base->shape, first);
  }
  const size_t tokens = builder.sizes.tokens;
  for (const int64_t padding : numbers) {
    if (base->shape.back() == builder.sizes.tokens &&
        holds([&](const Probed& probe) { return probe.counts_all_but(padding, tokens); })) {
      return padded_positions(builder, table, base, padding);
    }
  }
  throw NotRecognised(
      "the rows that it looks up are computed of the token ids: expected the ids themselves, or "
      "their positions, with or without padding");
}

}  // namespace arenite::convert
