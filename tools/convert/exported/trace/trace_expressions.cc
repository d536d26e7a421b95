// SPDX-License-Identifier: Apache-2.0
// Functions that are kept as the author's ops until somebody needs their values.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "convert/exported/aten/movement.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// Functions that the runtime has as they are, under PyTorch's names.
constexpr Activation kPlain[] = {Activation::kRelu,    Activation::kSilu,       Activation::kTanh,
                                 Activation::kSigmoid, Activation::kMish,       Activation::kExp,
                                 Activation::kSqrt,    Activation::kReciprocal, Activation::kLog,
                                 Activation::kSin};

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
    "softplus, hard swish, tanh, sigmoid, clamps, exp, log, sin, sqrt, products, quotients, layer "
    "norm and RMS norm, and finds them however they are written, with any factors. What comes "
    "last, leave to your program; what works on the features alone, do before";
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
    {{"quantized_decomposed.", "fake_quantize", "_fake_quantize", "torchao.", "quantize_per"},
     "it rounds numbers that depend on the input: export the model with rounded weights alone, "
     "which are kept as they are, and pass --weights q8 to round what they are multiplied with"},
    {{"kl_div", "binary_cross_entropy"},
     "it computes a loss: let the model give out what it compares, and compare that in your "
     "program"},
    {{"cdist", "pairwise_distance", "_cdist"},
     "it compares rows with each other: let the model give out the rows, as by F.normalize(x, "
     "dim=-1), and compare them in your program"},
    {{"upsample", "avg_pool", "max_pool", "adaptive_", "conv", "_upsample", "im2col"},
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

std::optional<std::vector<TracedValue>> moved_conversion(const FunctionRef& function,
                                                         const std::vector<Movement>& movements) {
  if (function->is_base() || function->call->op != "to") return std::nullopt;
  const auto from = value_as<FunctionRef>(*function->call, "self");
  if (!from || !from->is_base()) return std::nullopt;
  std::vector<TracedValue> made;
  for (const Movement& movement : movements) {
    const ElementSumRef base = moved(movement, function->base);
    const FunctionRef bare =
        std::make_shared<const Function>(Function{.base = base, .shape = base->shape});
    Call call = bind<TracedRef>(*function->call, [&](const TracedRef&) { return traced(bare); });
    made.emplace_back(function_of(base, std::move(call), base->shape, 1));
  }
  return made;
}

std::optional<ElementSumRef> stacked_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          size_t dim) {
  std::vector<ElementSumRef> rows;
  for (const TracedValue& part : parts) {
    if (part.is_constant()) return std::nullopt;
    Shape shape = shape_of(part);
    if (dim == shape.size()) return std::nullopt;
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), 1);
    rows.push_back(with_shape(tracer.as_sum(part), shape));
  }
  return joined_rows(tracer.builder,
                     rows_of_sequences(tracer.builder, std::move(rows), Together::kMoved), dim);
}

Call with_numbers(const Call& given) {
  const auto exponent = given.op == "pow" ? value_as<ConstantRef>(given, "exponent") : nullptr;
  if (!exponent || elements_of(exponent->shape()) != 1) return given;
  Call call = given;
  for (NamedArgument& argument : call.arguments) {
    if (argument.name == "exponent") argument.value = exponent->array().to_reals()[0];
  }
  return call;
}

bool mixes_columns(Tracer& tracer, const Call& call) {
  const TracedValue* const self = value_of(call, "self");
  if (self == nullptr || self->is<ScoresRef>() || self->is<ScoreRowRef>() ||
      is_of_ids(tracer.builder, *self)) {
    return false;
  }
  const size_t rank = shape_of(*self).size();
  const auto slopes = call.op == "prelu" ? value_as<ConstantRef>(call, "weight") : nullptr;
  if (slopes) return rank > 2 && elements_of(slopes->shape()) > 1;
  if (call.op != "cumsum" || self->is_constant()) return false;
  return !is_along_tokens(tracer.builder, *tracer.as_sum(*self), call.dimension("dim", -1, rank));
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
      "it changes the sum or the largest of scores otherwise than softmax plus one, "
      "exp(x - m) / (exp(-m) + exp(x - m).sum()): expected scores.softmax(-1)");
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
    const FunctionRef bare = base(shifted->value);
    const double factor = shifted->factors[0];
    const FunctionRef times = factor == 1.0 ? bare : applied("mul", bare, number(factor));
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
  ElementSumRef base, other;  // another one that it is a function of, too
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
    if (base != function->base && !are_same(*base, *function->base)) other = function->base;
    return traced(function);
  });
  if (other != nullptr) {
    if (is_decomposed(call.op)) return made_of_others(tracer, call);
    throw NotRecognised(
        "it puts two values of the model together otherwise than by a sum, a product or a "
        "quotient: not supported");
  }
  // Token ids may become positions.
  if (why != nullptr && !(base != nullptr && is_of_ids(builder, *base))) throw NotRecognised(why);
  if (call.op == "gather" && value_of(call, "index") != nullptr) {
    shape = shape_of(*value_of(call, "index"));
  }
  if (call.op == "one_hot") shape.push_back(call.integer("num_classes", -1));
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
  const OnStream on(builder, *function->base);
  if (is_of_ids(builder, *function->base)) return of_ids(*function);
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
  if (const auto* xielu = std::get_if<FoundXielu>(&*found)) {
    const ElementSumRef relu = activation(builder, function.base, {Activation::kRelu});
    const ElementSumRef elu = activation(builder, function.base, {Activation::kElu, 1.0});
    const ElementSumRef squares = scaled(product(builder, relu, relu), xielu->squares);
    return sum(sum(squares, elu, xielu->elu), function.base, xielu->linear - xielu->elu);
  }
  return activated(builder, function.base, std::get<FoundActivation>(*found));
}

// A sum or a mean of each row's columns: a product with ones. Nothing for any other function.
std::optional<ElementSumRef> Tracer::sum_of_columns(const Function& function) {
  const Call& call = *function.call;
  if (!is_one_of(call.op, {"sum", "mean"}) || function.shape == function.base->shape) {
    return std::nullopt;
  }
  const ElementSumRef rows = as_sum(values_of(call).at(0));
  WeightRef ones;
  ones.name = builder.name;
  ones.rows = 1;
  ones.columns = static_cast<uint32_t>(rows->shape.back());
  const double factor = call.op == "mean" ? 1.0 / static_cast<double>(ones.columns) : 1.0;
  set_exact(ones, [count = ones.columns, factor] { return std::vector<double>(count, factor); });
  return with_shape(convert::linear(builder, rows, ones, {}), function.shape);
}

namespace {

// The number that the other operand meets; nothing where there are two values, or an array.
std::optional<double> number_in(const Call& call) {
  if (values_of(call).size() != 1 || call.real("alpha", 1.0) != 1.0) return std::nullopt;
  for (const char* name : {"self", "other"}) {
    const Argument* argument = call.find(name);
    if (argument == nullptr) continue;
    const Array* array = argument->as<Array>();
    if (array != nullptr && array->elements() == 1) return array->to_reals()[0];
    if (argument->as<double>() || argument->as<int64_t>()) return call.real(name);
  }
  return std::nullopt;
}

bool is_op(const FunctionRef& function, std::string_view op) {
  return !function->is_base() && function->call->op == op && number_in(*function->call);
}

FunctionRef input_of(const FunctionRef& function) {
  return values_of(*function->call)[0].as<FunctionRef>();
}

}  // namespace

// sqrt(x + number) or 1 / (x + number) as a node.
ElementSumRef Tracer::of_shifted(Activation kind, const FunctionRef& function) {
  const bool is_shifted = is_op(function, "add");
  const FunctionRef of = is_shifted ? input_of(function) : function;
  const bool is_multiple = is_op(of, "mul") && input_of(of)->is_base();
  const ElementSumRef value = is_multiple ? scaled(of->base, *number_in(*of->call)) : as_sum(of);
  const double number = is_shifted ? *number_in(*function->call) : 0.0;
  return activation(builder, builder.materialised(value), {kind, number});
}

// Roots and quotients. Nothing for any other function.
std::optional<ElementSumRef> Tracer::root_or_quotient(const Function& function) {
  const Call& call = *function.call;
  const auto part = [&](const char* name) { return value_as<FunctionRef>(call, name); };
  const auto inverse = [&](const FunctionRef& of) {
    return of_shifted(Activation::kReciprocal, of);
  };
  const double power =
      call.op == "pow" && call.find("exponent") != nullptr && part("self") != nullptr &&
              (call.find("exponent")->as<double>() || call.find("exponent")->as<int64_t>())
          ? call.real("exponent")
          : 0.0;
  const bool is_root = call.op == "sqrt" || power == 0.5;
  if (is_root) return of_shifted(Activation::kSqrt, part("self"));
  if (call.op == "reciprocal" || power == -1.0) return inverse(part("self"));
  if (call.op == "log") return of_shifted(Activation::kLog, part("self"));
  const auto shifted = [&](Activation kind, double offset, double factor) {
    const auto number = std::make_shared<const Constant>(kNoValue, Array::real({}, {offset}));
    const ElementSumRef value = sum(as_sum(part("self")), builder.of_constant(number), 1.0);
    return scaled(activation(builder, value, {kind}), factor);
  };
  if (call.op == "expm1") {
    const auto one = std::make_shared<const Constant>(kNoValue, Array::real({}, {1.0}));
    return sum(activation(builder, as_sum(part("self")), {Activation::kExp}),
               builder.of_constant(one), -1.0);
  }
  if (call.op == "log1p") return shifted(Activation::kLog, 1.0, 1.0);
  if (call.op == "log2") return shifted(Activation::kLog, 0.0, 1.0 / std::numbers::ln2);
  if (call.op == "log10") return shifted(Activation::kLog, 0.0, 1.0 / std::numbers::ln10);
  if (call.op == "cos") return shifted(Activation::kSin, std::numbers::pi / 2.0, 1.0);
  if (call.op == "sin") return activation(builder, as_sum(part("self")), {Activation::kSin});
  if (power != 0.0 && power != std::floor(power)) {
    const ElementSumRef root = scaled(shifted(Activation::kLog, 0.0, 1.0), power);
    return activation(builder, builder.materialised(root), {Activation::kExp});
  }
  if (call.op == "rsqrt" || power == -0.5) {
    const ElementSumRef root = of_shifted(Activation::kSqrt, part("self"));
    return activation(builder, root, {Activation::kReciprocal});
  }
  if (call.op != "div" || call.has("rounding_mode") || !part("other")) return std::nullopt;
  if (part("self")) return product(builder, as_sum(part("self")), inverse(part("other")));
  const Array* array = call.find("self")->as<Array>();
  const Array number = array != nullptr ? *array : Array::real({}, {call.real("self")});
  return scaled(inverse(part("other")), number);
}

// The function's last op on values that are nodes of their own. A function that is made of an
// unknown one is unknown itself: the author's whole formula is named.
ElementSumRef Tracer::op_on_nodes(const Function& function) {
  if (const auto sums = sum_of_columns(function)) return *sums;
  if (const auto made = root_or_quotient(function)) return *made;
  const Call& call = *function.call;
  std::vector<FunctionRef> inputs;  // of the same base, without names of their own
  bool is_of_base = true, has_shapes = true;
  for (const TracedValue& value : values_of(call)) {
    const Function& input = *value.as<FunctionRef>();
    is_of_base = is_of_base && input.is_base();
    has_shapes = has_shapes && input.shape == function.shape;
    inputs.push_back(std::make_shared<const Function>(
        Function{function.base, input.call, input.shape, input.depth}));
  }
  const bool is_power = call.op == "pow" || call.op == "square";
  const int power = whole_power(call);
  const bool is_product = call.op == "mul" && inputs.size() == 2;
  const bool has_op = is_power ? power != 0
                               : is_product || (moves_elements(call.op) && call.op != "to") ||
                                     (has_shapes && !is_of_base);
  if (!has_op) {
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

// ---- functions of token ids: numbers that they look up, such as whether they are padding ----

namespace {

constexpr size_t kProbes = 4;
constexpr double kLargestNumber = 1e30;  // in place of infinity
constexpr double kHiddenKey = -1e9;      // what is added to the score of a hidden key

// Which element of its base each element of a function is made of, as far as its ops show; they
// are tried with numbers then.
Array places_in_base(const Function& function) {
  const Level level;
  const auto iota = [](const Shape& shape) {
    Array::Reals places(elements_of(shape));
    std::iota(places.begin(), places.end(), 0.0);
    return Array::real(shape, std::move(places));
  };
  if (function.is_base()) return iota(function.shape);
  std::optional<Array> found;
  for (const TracedValue& input : values_of(*function.call)) {
    const FunctionRef& part = input.as<FunctionRef>();
    if (part && !found) found = places_in_base(*part);
  }
  refuse_op_if(!found, kReadsIds);
  const Call shapes = bind<TracedRef>(*function.call, [&](const TracedRef& ref) -> Argument {
    const FunctionRef& part = ref->as<FunctionRef>();
    if (part) return Array::of_shape(part->shape, ElementType::kF64);
    return ref->as<ConstantRef>()->array();
  });
  if (const auto movements = movements_of(shapes)) {
    return Array::real(movements->at(0).shape, movements->at(0).apply<double>(found->to_reals()));
  }
  refuse_op_if(broadcast(found->shape(), function.shape) != function.shape, kReadsIds);
  return Array::real(function.shape, stretched_reals(*found, function.shape));
}

Array random_ids(const Shape& shape, int64_t ids_end, std::mt19937_64& random) {
  Array::Integers ids(elements_of(shape));
  for (int64_t& id : ids) id = static_cast<int64_t>(random() % static_cast<uint64_t>(ids_end));
  return Array::integer(shape, std::move(ids));
}

// Ids that a formula may treat in a way of their own.
std::set<int64_t> special_ids(const Function& function, int64_t ids_end) {
  std::set<int64_t> special;
  for (const double number : numbers_of(function)) {
    if (!(number >= -1.0 && number < 0x1p32) || number != std::floor(number)) continue;
    for (int64_t id = static_cast<int64_t>(number) - 1; id <= static_cast<int64_t>(number) + 1;
         ++id) {
      if (id >= 0 && id < ids_end) special.insert(id);
    }
  }
  return special;
}

}  // namespace

bool is_of_ids(const GraphBuilder& builder, const TracedValue& value) {
  const FunctionRef& function = value.as<FunctionRef>();
  return function && is_of_ids(builder, *function->base);
}

ElementSumRef Tracer::looked_up_number(const ElementSumRef& ids, const std::vector<double>& table) {
  ElementSumRef& known = numbers_of_ids_[{source_of(ids->front()), table}];
  if (known == nullptr) {
    const auto rows = static_cast<int64_t>(table.size());
    const ConstantRef constant =
        std::make_shared<const Constant>(kNoValue, Array::real({rows, 1}, Array::Reals(table)));
    known = embedding(builder, constant, ids);
  }
  return known;
}

ElementSumRef Tracer::of_ids(const Function& function) {
  const ElementSumRef base = function.base;
  const OnStream on(builder, *base);
  const int64_t ids_end = builder.graph.inputs.at(builder.stream()).vocab_size;
  if (ids_end == 0 || function.shape.empty()) require_no_ids(function);
  const Array::Reals places = places_in_base(function).to_reals();
  const auto numbers_for = [&](const Array& ids) {
    Array::Reals numbers = evaluate(function, ids, op_budget()).to_reals();
    if (numbers.size() != places.size()) require_no_ids(function);
    for (double& number : numbers) number = std::clamp(number, -kLargestNumber, kLargestNumber);
    return numbers;
  };
  const std::set<double> used(places.begin(), places.end());
  std::vector<double> table(static_cast<size_t>(ids_end), 0.0);
  for (int64_t first = 0; first < ids_end; first += static_cast<int64_t>(used.size())) {
    Array::Integers ids(base->elements(), 0);
    int64_t next = first;
    for (const double place : used) {
      ids.at(static_cast<size_t>(place)) = std::min(next++, ids_end - 1);
    }
    const Array::Reals numbers = numbers_for(Array::integer(base->shape, ids));
    for (size_t i = 0; i < numbers.size(); ++i) {
      table[static_cast<size_t>(ids[static_cast<size_t>(places[i])])] = numbers[i];
    }
  }
  std::mt19937_64 random(13);
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const Array ids = random_ids(base->shape, ids_end, random);
    const Array::Integers given = ids.to_integers();
    const Array::Reals numbers = numbers_for(ids);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t id = given[static_cast<size_t>(places[i])];
      if (numbers[i] != table[static_cast<size_t>(id)]) require_no_ids(function);
    }
  }
  const ElementSumRef each = looked_up_number(base, table);
  std::vector<int64_t> numbers;
  for (const double place : places) numbers.push_back(each->at(static_cast<size_t>(place)));
  return plain(function.shape, std::move(numbers));
}

ScoresRef masked_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                        const std::function<double(double)>& added) {
  const GraphBuilder& builder = tracer.builder;
  const ElementSumRef& ids = function.base;
  const OnStream on(tracer.builder, *ids);
  const int64_t ids_end = builder.graph.inputs.at(builder.stream()).vocab_size;
  const auto keys = static_cast<size_t>(scores.shape.back());
  const bool fits = ids_end > 1 && builder.sizes.prefix == 0 && keys == builder.sizes.tokens &&
                    ids->elements() == builder.sizes.rows() &&
                    ids->shape.back() == scores.shape.back();
  refuse_op_if(!fits, kReadsIds);
  const auto added_for = [&](const Array& given) {
    std::vector<double> numbers =
        stretched_reals(evaluate(function, given, tracer.op_budget()), scores.shape);
    for (double& number : numbers) {
      number = added(number);
      if (!(number > kHiddenScoreMax)) number = -std::numeric_limits<double>::infinity();
    }
    return numbers;
  };
  const std::set<int64_t> special = special_ids(function, ids_end);
  int64_t common_id = 0;
  while (special.contains(common_id) && common_id + 1 < ids_end) ++common_id;
  const auto all_of = [&](int64_t id) {
    return Array::integer(ids->shape, Array::Integers(ids->elements(), id));
  };
  const std::vector<double> common = added_for(all_of(common_id));
  // What an id adds to the scores of its key.
  std::vector<double> of_keys(static_cast<size_t>(ids_end), 0.0);
  for (const int64_t id : special) {
    const std::vector<double> numbers = added_for(all_of(id));
    std::optional<double> more;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (std::isinf(common[i])) continue;
      const double difference = numbers[i] - common[i];
      refuse_op_if(difference != more.value_or(difference), kReadsIds);
      more = difference;
    }
    refuse_op_if(!more, kReadsIds);
    of_keys[static_cast<size_t>(id)] = *more;
  }
  std::mt19937_64 random(17);
  const size_t each =
      scores.shape.size() < 2 ? 0 : elements_of(scores.shape) / builder.sizes.sequences;
  for (size_t probe = 0; probe < 2 * kProbes; ++probe) {
    Array::Integers given = random_ids(ids->shape, ids_end, random).to_integers();
    for (size_t i = probe % 2; i < given.size() && !special.empty(); i += 3) {
      given[i] = *std::next(special.begin(), static_cast<ptrdiff_t>(random() % special.size()));
    }
    const std::vector<double> numbers = added_for(Array::integer(ids->shape, given));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t id = given[i / each * keys + i % keys];
      refuse_op_if(numbers[i] != common[i] + of_keys[static_cast<size_t>(id)], kReadsIds);
    }
  }
  ScoresRef masked = std::make_shared<const Scores>(scores);
  if (std::ranges::any_of(common, [](double number) { return number != 0.0; })) {
    masked = with_added(*masked, Array::real(scores.shape, Array::Reals(common)), 0);
  }
  for (double& more : of_keys) more = std::max(more, kHiddenKey);
  if (std::ranges::all_of(of_keys, [](double more) { return more == 0.0; })) return masked;
  const ElementSumRef value = tracer.looked_up_number(ids, of_keys);
  Shape shape = scores.shape;
  shape[shape.size() - 2] = 1;
  std::vector<int64_t> numbers;
  for (size_t i = 0, count = elements_of(shape); i < count; ++i) {
    const size_t sequence = i * builder.sizes.sequences / count;
    numbers.push_back(value->at(sequence * keys + i % keys));
  }
  masked = plus_value(tracer.builder, *masked, plain(shape, std::move(numbers)));
  refuse_op_if(masked == nullptr,
               "it hides keys by their ids in scores that are capped, or have a factor for each "
               "head: not supported");
  // The first query of a causal mask sees one key.
  const auto hidden = std::count_if(common.begin(), common.begin() + static_cast<ptrdiff_t>(keys),
                                    [](double number) { return std::isinf(number); });
  auto marked = std::make_shared<Scores>(*masked);
  marked->may_see_nothing = keys > 1 && static_cast<size_t>(hidden) + 1 == keys;
  return marked;
}

namespace {

// What is filled in, a tensor or a number of the call.
Array filled_in(const Tracer& tracer, const Call& call, const char* name) {
  if (const TracedValue* constant = value_of(call, name)) return tracer.array_of(*constant);
  const Array* array = call.argument(name).as<Array>();
  return array != nullptr ? *array : Array::real({}, {call.real(name)});
}

// A number for each pair of rows, with one that is far below any score where a constant mask says
// so: what is added to scores.
std::optional<TracedValue> hidden_pairs(Tracer& tracer, const Call& call) {
  const auto mask = value_as<ConstantRef>(call, "mask");
  const TracedValue* self = value_of(call, "self");
  if (call.op != "masked_fill" || !mask || self == nullptr || self->is_constant()) return {};
  const Shape shape = shape_of(*self);
  const bool are_pairs = shape.size() > 1 && shape.back() == shape[shape.size() - 2] &&
                         broadcast(shape, mask->shape()) == shape;
  const Array number = filled_in(tracer, call, "value");
  if (!are_pairs || number.elements() != 1 || number.to_reals()[0] > kHiddenScoreMax) return {};
  const auto hidden = std::make_shared<const Constant>(kNoValue, number);
  const Call choice = {
      .op = "where",
      .overload = "self",
      .arguments = {
          {"condition", traced(mask)}, {"self", traced(hidden)}, {"other", call.argument("self")}}};
  const ElementSumRef parts[] = {tracer.builder.of_constant(hidden), tracer.as_sum(*self)};
  const auto movements = movements_of(with_shapes(choice));
  if (!movements) return std::nullopt;
  tracer.builder.limit_positions(positions_max_of(call));
  return moved(movements->at(0), parts);
}

}  // namespace

// masked_fill and where, by a mask that is computed of token ids.
std::optional<TracedValue> filled_by_ids(Tracer& tracer, const Call& call) {
  const bool fills = call.op == "masked_fill";
  if (!fills && call.op != "where") return std::nullopt;
  const TracedValue* mask = value_of(call, fills ? "mask" : "condition");
  const TracedValue* self = value_of(call, "self");
  const TracedValue* other = fills ? nullptr : value_of(call, "other");
  if (mask == nullptr) return std::nullopt;
  if (!is_of_ids(tracer.builder, *mask)) return hidden_pairs(tracer, call);
  const auto is_of_tokens = [&](const TracedValue* value) {
    return value != nullptr && !value->is_constant() && !is_of_ids(tracer.builder, *value);
  };
  const bool keeps_self = is_of_tokens(self);
  if (keeps_self == is_of_tokens(other)) return std::nullopt;
  const Array number = filled_in(tracer, call, fills ? "value" : keeps_self ? "other" : "self");
  if (number.elements() != 1) return std::nullopt;
  const FunctionRef flags = mask->as<FunctionRef>();
  const auto function = [&](const char* op, std::vector<NamedArgument> arguments) {
    return function_of(flags->base, {.op = op, .arguments = std::move(arguments)}, flags->shape,
                       flags->depth + 2);
  };
  const FunctionRef set =
      function("mul", {{"self", traced(flags)}, {"other", Array::real({}, {1.0})}});
  const FunctionRef unset =
      function("sub", {{"self", Array::real({}, {1.0})}, {"other", traced(set)}});
  const bool hides_set = fills || !keeps_self;
  const ElementSumRef value = tracer.as_sum(keeps_self ? *self : *other);
  const ElementSumRef kept = product(tracer.builder, value, tracer.as_sum(hides_set ? unset : set));
  const double filled = std::clamp(number.to_reals()[0], -kLargestNumber, kLargestNumber);
  if (filled == 0.0) return kept;
  return sum(kept, tracer.as_sum(hides_set ? set : unset), filled);
}

}  // namespace arenite::convert
