// SPDX-License-Identifier: Apache-2.0
// Lowers functions, which are unevaluated ops of the program until they are read.
//
//   x * torch.sigmoid(1.7 * x)  ->  silu with factors, matched on samples
//   x / torch.sqrt(y + 1)       ->  x * reciprocal(sqrt(y + 1)), op by op
//   x.pow(3)                    ->  two products

#include <algorithm>
#include <array>
#include <cmath>

#include "convert/exported/aten/movement.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// Activations that have the same names in PyTorch and the runtime.
constexpr Activation kPlain[] = {Activation::kRelu,    Activation::kSilu,       Activation::kTanh,
                                 Activation::kSigmoid, Activation::kMish,       Activation::kExp,
                                 Activation::kSqrt,    Activation::kReciprocal, Activation::kLog,
                                 Activation::kSin};

constexpr size_t kKeptMax = 64;  // functions whose nodes are cached

constexpr int kPowerMax = 4;

// Returns the exponent of pow or square if it is an integer from 2 to kPowerMax; else 0.
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
    "the function matches no op of the runtime; write it with relu, leaky relu, elu, gelu, silu, "
    "mish, softplus, hard swish, tanh, sigmoid, clamp, exp, log, sin, sqrt, products, quotients or "
    "norms, or run it before or after the model";
constexpr const char* kReducesColumns =
    "columns of a row are reduced outside a norm; write a sum or a mean as x @ torch.ones(width, "
    "1), or output the columns";

constexpr const char* kMaskOfFeatures =
    "a mask is computed from features, as to find padding; give it as a second input, as in def "
    "forward(self, x, padding_mask), with this result as its example";

// Prefixes of ops that the runtime does not have, and the message of their refusal.
struct NoOp {
  std::array<std::string_view, 8> beginnings;
  const char* why;
};
constexpr NoOp kNoOps[] = {
    {{"native_dropout"},
     "dropout is active; call model.eval() before torch.export.export, and give F.dropout "
     "training=self.training"},
    {{"lstm", "gru", "rnn", "quantized_lstm"},
     "recurrent layers are not supported; run them in your program, and export the part of the "
     "model that takes their results"},
    {{"sort", "topk", "argsort", "argmax", "argmin", "kthvalue", "msort"},
     "cannot order elements by size within a model, as to route tokens to experts; output the "
     "elements, and order them in your program"},
    {{"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"},
     "cannot accumulate elements one after the other; only attention and pooling may combine "
     "tokens"},
    {{"fft", "stft", "istft"},
     "the runtime has no Fourier transform; over the columns of a row, write it as a product with "
     "a constant matrix"},
    {{"quantized_decomposed.", "fake_quantize", "_fake_quantize", "torchao.", "quantize_per"},
     "cannot quantize values that depend on the input; export with only the weights quantized, and "
     "pass --weights q8 to quantize activations"},
    {{"kl_div", "binary_cross_entropy"},
     "a loss is not supported; output its operands, and compare them in your program"},
    {{"cdist", "pairwise_distance", "_cdist"},
     "cannot compare rows with each other; output the rows, as by F.normalize(x, dim=-1), and "
     "compare them in your program"},
    {{"upsample", "avg_pool", "max_pool", "adaptive_", "conv", "_upsample", "im2col"},
     "cannot combine several tokens or pixels by this op; run it in your program before or after "
     "the model"},
};

// Returns the message for an op that the runtime does not have; null if there is no special one.
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

FunctionRef function_of(const LinearExprRef& base, Call call, Shape shape, size_t depth) {
  refuse_op_if(
      depth > kExportedLevelsMax,
      "a function of the input has too many nested ops; expected fewer, so split it by a layer");
  return std::make_shared<const Function>(
      Function{base, std::make_shared<const Call>(std::move(call)), std::move(shape), depth});
}

std::optional<std::vector<TracedValue>> moved_conversion(const GraphBuilder& builder,
                                                         const FunctionRef& function,
                                                         const std::vector<Movement>& movements) {
  if (function->is_base() || function->call->op != "to") return std::nullopt;
  if (is_of_types(builder, *function->base)) return std::nullopt;
  const auto from = value_as<FunctionRef>(*function->call, "self");
  if (!from || !from->is_base()) return std::nullopt;
  std::vector<TracedValue> made;
  for (const Movement& movement : movements) {
    const LinearExprRef base = moved(movement, function->base);
    const FunctionRef bare =
        std::make_shared<const Function>(Function{.base = base, .shape = base->shape});
    Call call = bind<TracedRef>(*function->call, [&](const TracedRef&) { return traced(bare); });
    made.emplace_back(function_of(base, std::move(call), base->shape, 1));
  }
  return made;
}

std::optional<LinearExprRef> stacked_rows(Tracer& tracer, const std::vector<TracedValue>& parts,
                                          size_t dim) {
  std::vector<LinearExprRef> rows;
  for (const TracedValue& part : parts) {
    if (part.is_constant()) return std::nullopt;
    Shape shape = shape_of(part);
    if (dim == shape.size()) return std::nullopt;
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim), 1);
    rows.push_back(with_shape(tracer.as_sum(part), shape));
  }
  return concat_rows(tracer.builder,
                     rows_of_sequences(tracer.builder, std::move(rows), Combination::kMoved), dim);
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
                        "linalg_vector_norm", "logsumexp", "prod", "any", "all"});
}

LinearExprRef Tracer::as_sum(const TracedValue& value) {
  if (const LinearExprRef& elements = value.as<LinearExprRef>()) return elements;
  if (const FunctionRef& function = value.as<FunctionRef>()) return materialise(function);
  if (const ConstantRef& constant = value.as<ConstantRef>()) return builder.constant_expr(constant);
  refuse_op_if(value.is<ScoresRef>(),
               "attention scores are used outside a softmax and a product with values, or are "
               "output; expected no other use");
  refuse_op_if(value.is<ComplexPair>(),
               "complex values are supported only in rotations and Fourier transforms");
  throw NotRecognised(
      "the sum or the maximum of scores is used outside a decomposed softmax; expected "
      "scores.softmax(-1), or softmax plus one, exp(x - m) / (exp(-m) + exp(x - m).sum())");
}

FunctionRef Tracer::as_function(const TracedValue& value) {
  if (const FunctionRef& function = value.as<FunctionRef>()) return function;
  const LinearExprRef elements = as_sum(value);
  const auto base = [](const LinearExprRef& of) {
    return std::make_shared<const Function>(Function{.base = of, .shape = of->shape});
  };
  // The factor of a multiple becomes an op of the function, so that its constants include the
  // factor.
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
  if (const auto shifted = folded_input(builder, elements); shifted && elements->terms.size() > 1 &&
                                                            are_even(shifted->factors) &&
                                                            are_even(shifted->offsets)) {
    const FunctionRef bare = base(shifted->value);
    const double factor = shifted->factors[0];
    const FunctionRef times = factor == 1.0 ? bare : applied("mul", bare, number(factor));
    return applied("add", times, number(shifted->offsets[0]));
  }
  return base(builder.materialised(elements));
}

// Keeps an op on single elements or rows as a Function.
std::optional<TracedValue> function_op(Tracer& tracer, const Call& call) {
  const GraphBuilder& builder = tracer.builder;
  // A boolean value, such as any() over tokens, consists of 0 and 1 already.
  const TracedValue* const self = value_of(call, "self");
  const bool is_truth = self != nullptr && self->type == ElementType::kBool;
  if (call.op == "to" && is_truth && self->is<LinearExprRef>()) return *self;
  const char* why = why_no_op(call.op);
  if (!has_rule(call.op)) {
    throw NotRecognised(why != nullptr
                            ? why
                            : "the runtime has no such op; leave it out of the exported part, or "
                              "write it with linear layers, norms and activations");
  }
  LinearExprRef base, other;  // the base of all arguments, and a different one
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
    if (is_decomposed(call.op)) return lower_decomposition(tracer, call);
    throw NotRecognised(
        call.op == "where" || call.op == "masked_fill"
            ? "where or masked_fill has a condition on features or on a whole sequence; give it as "
              "a second input c [sequences, tokens, 1] of 0.0 and 1.0, and write c * y + (1 - c) * "
              "z"
            : "an op combines two values of the model; expected a sum, a product or a quotient");
  }
  // Functions of token ids may be positions, so they are kept even if the runtime lacks the op.
  if (why != nullptr && !(base != nullptr && is_of_ids(builder, *base))) throw NotRecognised(why);
  if (call.op == "gather" && value_of(call, "index") != nullptr) {
    shape = shape_of(*value_of(call, "index"));
  }
  if (call.op == "one_hot") shape.push_back(call.integer("num_classes", -1));
  if (is_reduction(call.op) || is_one_of(call.op, {"argmax", "argmin"})) {
    shape.pop_back();
    if (call.flag("keepdim", false)) shape.push_back(1);
  }
  return function_of(base, std::move(formula), std::move(shape), depth);
}

// The message names the first op that reads the ids.
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

namespace {

// Adds a zero token table to a lookup of token types, since the runtime looks both up together.
void add_zeros_of_tokens(GraphBuilder& builder, const LinearExpr& types) {
  const int64_t rows = builder.graph.inputs.at(builder.row_axis()).vocab_size;
  auto* const node = builder.graph.as<EmbeddingNode>(builder.producer(types.front()).node);
  refuse_op_if(rows == 0 || node == nullptr, kReadsIds);
  const auto zeros = std::make_shared<const Constant>(
      kNoValue, Array::real({rows, 1}, Array::Reals(static_cast<size_t>(rows), 0.0)));
  node->tokens = weight_of(builder.program, zeros, false);
}

}  // namespace

// Adds a padding mask as an input of token types, and returns the mask as a function of these.
TracedValue Tracer::marks_input(const ExportedValue& value) {
  builder.graph.inputs.at(builder.row_axis()).token_types = 2;
  const FunctionRef types =
      as_function(ids_input(builder, Producer::Kind::kTypes, trace_shape_.shape_of(value)));
  const auto number = [](int64_t each) { return Array::integer({}, {each}); };
  const bool is_bool = value.type == ElementType::kBool;
  Call call = {.op = is_bool ? "ne" : "mul",
               .arguments = {{"self", traced(types)}, {"other", number(is_bool ? 0 : 1)}}};
  return function_of(types->base, std::move(call), types->shape, 1);
}

// Adds an input of features, and records its columns of padding masks.
LinearExprRef Tracer::marked_features(const ExportedInput& input, const Shape& shape) {
  const LinearExprRef features = features_input(builder, shape);
  GraphInput& own = builder.graph.inputs.at(builder.row_axis());
  for (const uint32_t column : input.mark_columns) {
    builder.mark_columns.emplace(producer_of(features->front()), column);
    own.ids_of_columns[column] = own.token_types = 2;
  }
  return features;
}

LinearExprRef Tracer::looked_up_number(const LinearExprRef& ids, const std::vector<double>& table) {
  LinearExprRef& known = numbers_of_ids_[{builder.column_of(ids->front()), table}];
  if (known == nullptr && builder.is_node(ids->front())) {  // ids are a feature column of 0 and 1
    Shape shape = ids->shape;
    shape.push_back(1);
    WeightRef step;
    step.name = builder.name + ".marks";
    step.rows = step.columns = 1;
    set_exact(step, [more = table[1] - table[0]] { return std::vector<double>{more}; });
    known = convert::linear(builder, with_shape(ids, shape), step, {table[0]});
  }
  if (known == nullptr) {
    const auto rows = static_cast<int64_t>(table.size());
    const ConstantRef constant =
        std::make_shared<const Constant>(kNoValue, Array::real({rows, 1}, Array::Reals(table)));
    const LinearExprRef made = embedding(builder, constant, ids);
    if (is_of_types(builder, *ids)) add_zeros_of_tokens(builder, *made);
    known = made;
  }
  return known;
}

LinearExprRef Tracer::materialise(const FunctionRef& function) {
  if (function->is_base()) return function->base;
  const ScopedAxis on(builder, *function->base);
  if (is_of_ids(builder, *function->base)) return lookup_of_function(*this, *function);
  const Level level;
  for (const auto& [known, made] : made_functions_) {
    if (known == function->call) return made;
  }
  const std::string name_before = builder.name;
  const Function* const outermost_before = outermost_;
  if (!function->name.empty()) builder.name = function->name;
  if (outermost_ == nullptr) outermost_ = function.get();
  const LinearExprRef made = materialise_named(*function);
  outermost_ = outermost_before;
  builder.name = name_before;
  if (made_functions_.size() == kKeptMax) made_functions_.erase(made_functions_.begin());
  made_functions_.emplace_back(function->call, made);
  return made;
}

namespace {

LinearExprRef add_activation_node(GraphBuilder& builder, const LinearExprRef& base,
                                  const FoundActivation& found) {
  const auto with_offset = [&](const LinearExprRef& value, double offset) {
    if (offset == 0.0) return value;
    const auto number = std::make_shared<const Constant>(kNoValue, Array::real({}, {offset}));
    return sum(value, builder.constant_expr(number), 1.0);
  };
  const LinearExprRef inner = with_offset(scaled(base, found.scale_in), found.offset_in);
  LinearExprRef value = scaled(activation(builder, inner, found.activation), found.scale_out);
  if (found.linear != 0.0) value = sum(value, base, found.linear);
  return with_offset(value, found.offset_out);
}

// Adds a norm node; an RMS norm whose gain gives length 1 becomes an L2 norm.
LinearExprRef add_norm_node(GraphBuilder& builder, const LinearExprRef& base,
                            const NormSpec& spec) {
  const auto width = static_cast<uint32_t>(spec.gain.size());
  const double length_one = 1.0 / std::sqrt(static_cast<double>(width));
  const bool is_length = !(spec.epsilon > 0.0) && spec.kind == NormKind::kRms &&
                         spec.bias.empty() && std::ranges::all_of(spec.gain, [&](double gain) {
                           return std::fabs(gain - length_one) < 1e-9;
                         });
  if (is_length && builder.producer(base->at(0)).width == width) {
    return normalize(builder, base, NormKind::kLength);
  }
  return norm(builder, base, spec);
}

}  // namespace

LinearExprRef Tracer::materialise_named(const Function& function) {
  const Call& call = *function.call;
  if (const Call* compares = unseen_comparison(function, budget_)) {
    throw OpError("{}: {}", compares->describe(), kMaskOfFeatures);
  }
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
    return add_norm_node(builder, function.base, *spec);
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
    const LinearExprRef relu = activation(builder, function.base, {Activation::kRelu});
    const LinearExprRef elu = activation(builder, function.base, {Activation::kElu, 1.0});
    const LinearExprRef squares = scaled(product(builder, relu, relu), xielu->squares);
    return sum(sum(squares, elu, xielu->elu), function.base, xielu->linear - xielu->elu);
  }
  return add_activation_node(builder, function.base, std::get<FoundActivation>(*found));
}

// Lowers a sum or a mean over the columns of each row to a linear layer of ones. Returns nullopt
// for any other function.
std::optional<LinearExprRef> Tracer::sum_of_columns(const Function& function) {
  const Call& call = *function.call;
  if (!is_one_of(call.op, {"sum", "mean"}) || function.shape == function.base->shape) {
    return std::nullopt;
  }
  const LinearExprRef rows = as_sum(values_of(call).at(0));
  WeightRef ones;
  ones.name = builder.name;
  ones.rows = 1;
  ones.columns = static_cast<uint32_t>(rows->shape.back());
  const double factor = call.op == "mean" ? 1.0 / static_cast<double>(ones.columns) : 1.0;
  set_exact(ones, [count = ones.columns, factor] { return std::vector<double>(count, factor); });
  return with_shape(convert::linear(builder, rows, ones, {}), function.shape);
}

namespace {

// Returns the scalar operand of a binary op with one traced value; nullopt for any other call.
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

// Lowers kind(x + number), such as sqrt(x + number), to an activation node with the number as
// parameter.
LinearExprRef Tracer::of_shifted(Activation kind, const FunctionRef& function) {
  const bool is_shifted = is_op(function, "add");
  const FunctionRef of = is_shifted ? input_of(function) : function;
  const bool is_multiple = is_op(of, "mul") && input_of(of)->is_base();
  const LinearExprRef value = is_multiple ? scaled(of->base, *number_in(*of->call)) : as_sum(of);
  const double number = is_shifted ? *number_in(*function->call) : 0.0;
  return activation(builder, builder.materialised(value), {kind, number});
}

// Lowers roots, powers, logarithms, sines and quotients. Returns nullopt for any other function.
std::optional<LinearExprRef> Tracer::root_or_quotient(const Function& function) {
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
    const LinearExprRef value = sum(as_sum(part("self")), builder.constant_expr(number), 1.0);
    return scaled(activation(builder, value, {kind}), factor);
  };
  if (call.op == "expm1") {
    const auto one = std::make_shared<const Constant>(kNoValue, Array::real({}, {1.0}));
    return sum(activation(builder, as_sum(part("self")), {Activation::kExp}),
               builder.constant_expr(one), -1.0);
  }
  if (call.op == "log1p") return shifted(Activation::kLog, 1.0, 1.0);
  if (call.op == "log2") return shifted(Activation::kLog, 0.0, 1.0 / std::numbers::ln2);
  if (call.op == "log10") return shifted(Activation::kLog, 0.0, 1.0 / std::numbers::ln10);
  if (call.op == "cos") return shifted(Activation::kSin, std::numbers::pi / 2.0, 1.0);
  if (call.op == "sin") return activation(builder, as_sum(part("self")), {Activation::kSin});
  if (power != 0.0 && power != std::floor(power)) {
    const LinearExprRef root = scaled(shifted(Activation::kLog, 0.0, 1.0), power);
    return activation(builder, builder.materialised(root), {Activation::kExp});
  }
  if (call.op == "rsqrt" || power == -0.5) {
    const LinearExprRef root = of_shifted(Activation::kSqrt, part("self"));
    return activation(builder, root, {Activation::kReciprocal});
  }
  if (call.op != "div" || call.has("rounding_mode") || !part("other")) return std::nullopt;
  if (part("self")) return product(builder, as_sum(part("self")), inverse(part("other")));
  const Array* array = call.find("self")->as<Array>();
  const Array number = array != nullptr ? *array : Array::real({}, {call.real("self")});
  return scaled(inverse(part("other")), number);
}

// Lowers only the last op of the function; its arguments become nodes first. If the op is unknown,
// the refusal names the outermost function.
LinearExprRef Tracer::op_on_nodes(const Function& function) {
  if (const auto sums = sum_of_columns(function)) return *sums;
  if (const auto made = root_or_quotient(function)) return *made;
  const Call& call = *function.call;
  std::vector<FunctionRef> inputs;  // without names, so that all get that of `function`
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
    const bool compares = is_one_of(whole.call->op, {"lt", "le", "gt", "ge"});
    throw OpError("{}: {}", whole.call->describe(),
                  reduces    ? kReducesColumns
                  : compares ? kMaskOfFeatures
                             : kNoFunction);
  }
  if (is_power || is_product) {
    const LinearExprRef first = as_sum(inputs[0]);
    LinearExprRef made = product(builder, first, is_power ? first : as_sum(inputs[1]));
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
    // The op kept a factor of its argument and made a function again, so it is retried on
    // materialised arguments.
    return as_sum(
        run([&](const FunctionRef& input) { return builder.materialised(as_sum(input)); }));
  }
  // A following layer absorbs factors of columns. Other factors, such as those of heads, get a
  // node.
  const LinearExprRef value = as_sum(made);
  return has_factors_of_heads(builder, value) ? builder.materialised(value) : value;
}

int64_t positions_max_of(const Call& call) {
  int64_t positions = 0;
  for (const TracedValue& input : values_of(call)) {
    const ConstantRef& constant = input.as<ConstantRef>();
    if (constant) positions = tighter(positions, constant->positions_max);
  }
  return positions;
}

bool is_of_model(const GraphBuilder& builder, const LinearExpr& value) {
  return value.elements() != 0 && std::ranges::any_of(value.terms, [&](const Term& term) {
           return builder.is_node(term.places.at(0));
         });
}

}  // namespace arenite::convert
