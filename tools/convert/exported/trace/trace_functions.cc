// SPDX-License-Identifier: Apache-2.0
// Ops that work on each number or on each row: sums, factors, norms, functions, and pooling.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "convert/exported/read/call.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// What torch.nn.RMSNorm adds where it is not said: the epsilon of float32.
constexpr double kFloatEpsilon = 0x1p-23;

constexpr int64_t kSummedMax = 64;  // parts of a sum over a dimension

}  // namespace

std::optional<Array> constant_argument(const Operation& operation, std::string_view name) {
  const Argument* argument = operation.call.find(name);
  if (argument == nullptr) return std::nullopt;
  if (const double* real = argument->as<double>()) return Array::real({}, {*real});
  if (const int64_t* whole = argument->as<int64_t>()) {
    return Array::real({}, {static_cast<double>(*whole)});
  }
  if (const Array* array = argument->as<Array>()) return *array;
  const TracedValue* value = operation.value(name);
  const auto* constant = value != nullptr ? std::get_if<ConstantRef>(value) : nullptr;
  if (constant == nullptr) return std::nullopt;
  return (*constant)->array();
}

int64_t positions_max_of(const Operation& operation) {
  int64_t positions = 0;
  for (const TracedValue& input : operation.inputs) {
    const auto* constant = std::get_if<ConstantRef>(&input);
    if (constant != nullptr) positions = tighter(positions, (*constant)->positions_max);
  }
  return positions;
}

Array inverse(const Array& array) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value = 1.0 / value;
  return Array::real(array.shape(), std::move(values));
}

std::optional<TracedValue> Tracer::complex_op(const Operation& operation) {
  const OpCall& call = operation.call;
  const auto part = [&](const ElementSumRef& value, int64_t index) {
    Movement movement;
    movement.shape = value->shape;
    movement.shape.pop_back();
    movement.walk = movement.shape;
    movement.offset = index;
    int64_t stride = 2;
    movement.strides.resize(movement.walk.size());
    for (size_t d = movement.walk.size(); d-- > 0;) {
      movement.strides[d] = stride;
      stride *= movement.walk[d];
    }
    return moved(movement, std::span(&value, 1));
  };
  if (call.op == "view_as_complex") {
    const ElementSumRef value = as_sum(operation.inputs.at(0));
    return ComplexPair{part(value, 0), part(value, 1)};
  }
  const auto* pair =
      operation.inputs.empty() ? nullptr : std::get_if<ComplexPair>(&operation.inputs[0]);
  if (call.op == "view_as_real" && pair != nullptr) {
    Shape shape = pair->real->shape;
    const size_t count = pair->real->elements();
    shape.push_back(2);
    Movement movement;
    movement.shape = shape;
    movement.sources.emplace();
    for (size_t i = 0; i < count; ++i) {
      movement.sources->push_back(static_cast<int64_t>(i));
      movement.sources->push_back(static_cast<int64_t>(count + i));
    }
    const ElementSumRef parts[] = {pair->real, pair->imaginary};
    return moved(movement, parts);
  }
  const bool has_pair = std::ranges::any_of(operation.inputs, [](const TracedValue& input) {
    return std::holds_alternative<ComplexPair>(input);
  });
  if (!has_pair) return std::nullopt;
  if (call.op == "mul" && operation.inputs.size() == 2) {
    const auto* second = std::get_if<ComplexPair>(&operation.inputs[1]);
    const ComplexPair& z = pair != nullptr ? *pair : *second;
    const Array factor = array_of(operation.inputs[pair != nullptr ? 1 : 0]);
    Array::Reals real, imaginary;
    for (const std::complex<double>& each : factor.to_complexes()) {
      real.push_back(each.real());
      imaginary.push_back(each.imag());
    }
    const Array cosine = Array::real(factor.shape(), std::move(real));
    const Array sine = Array::real(factor.shape(), std::move(imaginary));
    builder_.limit_positions(positions_max_of(operation));
    return ComplexPair{sum(scaled(z.real, cosine), scaled(z.imaginary, sine), -1.0),
                       sum(scaled(z.imaginary, cosine), scaled(z.real, sine), 1.0)};
  }
  if (const auto movements = movements_of(with_arrays(operation)); movements && pair != nullptr) {
    return ComplexPair{moved((*movements)[0], std::span(&pair->real, 1)),
                       moved((*movements)[0], std::span(&pair->imaginary, 1))};
  }
  throw NotRecognised("it uses complex numbers otherwise than for a rotation");
}

// The first half of the columns times the sigmoid of the second.
TracedValue Tracer::gated(const Operation& operation) {
  ElementSumRef whole = as_sum(operation.inputs.at(0));
  std::vector<size_t> order(whole->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t dim = CallArguments(operation.call).dimension("dim", -1, order.size());
  if (!order.empty()) std::swap(order[dim], order.back());
  whole = permuted(whole, order);
  if (whole->shape.empty() || whole->shape.back() % 2 != 0) {
    throw NotRecognised("its rows have no two halves");
  }
  const auto halves = [&](int64_t begin) {
    const int64_t width = whole->shape.back();
    const OpCall cut = {"slice",
                        "Tensor",
                        {},
                        {{"self", Array::of_shape(whole->shape, ElementType::kF32)},
                         {"dim", int64_t{-1}},
                         {"start", begin * width / 2},
                         {"end", (begin + 1) * width / 2}},
                        {}};
    return moved(movements_of(cut)->at(0), std::span(&whole, 1));
  };
  const ElementSumRef gates = builder_.rows_as_node(halves(1));
  return permuted(builder_.product(builder_.activation(gates, {Activation::kSigmoid}), halves(0)),
                  order);
}

// Of a model that is not being trained: factors and offsets of channels, dimension 1.
TracedValue Tracer::batch_norm(const Operation& operation) {
  const ElementSumRef value = as_sum(operation.inputs.at(0));
  if (CallArguments(operation.call).flag("training", false)) {
    throw NotRecognised(
        "its batch norm takes statistics of the batch: call model.eval() before "
        "torch.export.export");
  }
  const TracedValue* mean = operation.value("running_mean");
  const TracedValue* variance = operation.value("running_var");
  if (mean == nullptr || variance == nullptr) throw NotRecognised("it has no running statistics");
  Array::Reals offset = array_of(*mean).to_reals();
  Array::Reals factor = array_of(*variance).to_reals();
  const TracedValue* weight = operation.value("weight");
  const TracedValue* bias = operation.value("bias");
  const Array::Reals gains = weight ? array_of(*weight).to_reals() : Array::Reals();
  const Array::Reals biases = bias ? array_of(*bias).to_reals() : Array::Reals();
  const double epsilon = CallArguments(operation.call).real("eps", 1e-5);
  const auto fits = [&](const Array::Reals& values, const TracedValue* given) {
    return given == nullptr || values.size() == factor.size();
  };
  if (offset.size() != factor.size() || !fits(gains, weight) || !fits(biases, bias)) {
    throw NotRecognised("its weights and statistics are of different lengths");
  }
  for (size_t i = 0; i < factor.size(); ++i) {
    factor[i] = (gains.empty() ? 1.0 : gains[i]) / std::sqrt(factor[i] + epsilon);
    offset[i] = (biases.empty() ? 0.0 : biases[i]) - offset[i] * factor[i];
  }
  Shape shape(value->shape.size(), 1);
  shape.at(1) = static_cast<int64_t>(factor.size());
  const auto table =
      std::make_shared<const Constant>(kNoValue, Array::real(shape, std::move(offset)));
  return sum(scaled(value, Array::real(shape, std::move(factor))), builder_.of_constant(table),
             1.0);
}

// Of each token by itself: a norm of runs of its columns, whose factors and offsets differ.
TracedValue Tracer::group_norm(const Operation& operation) {
  const ElementSumRef value = as_sum(operation.inputs.at(0));
  const CallArguments arguments(operation.call);
  const int64_t groups = arguments.integer("num_groups");
  const Shape& shape = value->shape;
  if (shape.size() != 2 || groups < 1 || shape[1] % groups != 0 || shape[1] == 0) {
    throw NotRecognised(
        "its groups are of several tokens, since dimension 1 of [sequences, channels, tokens] is "
        "normalised with those after it: expected one token in each row, as x.reshape(-1, width)");
  }
  const int64_t width = shape[1] / groups;
  NormSpec spec;
  spec.epsilon = arguments.real("eps", 1e-5);
  spec.gain.assign(static_cast<size_t>(width), 1.0);
  const ElementSumRef runs = with_shape(value, {shape[0], groups, width});
  ElementSumRef made = with_shape(builder_.norm(runs, std::move(spec)), shape);
  if (const TracedValue* weight = operation.value("weight")) made = scaled(made, array_of(*weight));
  const TracedValue* bias = operation.value("bias");
  return bias == nullptr ? made : sum(made, as_sum(*bias), 1.0);
}

std::optional<TracedValue> Tracer::norm_op(const Operation& operation) {
  const OpCall& call = operation.call;
  if (call.op == "glu") return gated(operation);
  if (call.op == "batch_norm" || call.op == "_native_batch_norm_legit_no_training") {
    return batch_norm(operation);
  }
  if (call.op == "group_norm") return group_norm(operation);
  const bool is_layer = call.op == "layer_norm" || call.op == "native_layer_norm";
  const bool is_rms = call.op == "rms_norm" || call.op == "_fused_rms_norm";
  if (!is_layer && !is_rms) return std::nullopt;
  const CallArguments arguments(call);
  const std::vector<int64_t> shape = arguments.integers("normalized_shape");
  if (shape.size() != 1) {
    throw NotRecognised(
        "it normalises over several dimensions: expected a norm of each token, as "
        "nn.LayerNorm(width)");
  }
  const Shape rows = shape_of(operation.inputs.at(0));
  const auto width = static_cast<size_t>(std::max<int64_t>(shape[0], 0));
  if (rows.empty() || rows.back() != shape[0] || width == 0) {
    throw NotRecognised("it normalises rows of another width than its input has");
  }
  NormSpec spec;
  spec.kind = is_layer ? NormKind::kLayer : NormKind::kRms;
  spec.epsilon = arguments.real("eps", is_layer ? 1e-5 : kFloatEpsilon);
  spec.gain.assign(width, 1.0);
  if (const TracedValue* weight = operation.value("weight")) {
    spec.gain = array_of(*weight).to_reals();
    if (const auto* constant = std::get_if<ConstantRef>(weight); (*constant)->stored != nullptr) {
      spec.name = (*constant)->stored->name;
    }
  }
  if (const TracedValue* bias = operation.value("bias")) spec.bias = array_of(*bias).to_reals();
  if (spec.gain.size() != width || (!spec.bias.empty() && spec.bias.size() != width)) {
    throw NotRecognised("its weights are of another width than its rows");
  }
  return builder_.norm(as_sum(operation.inputs.at(0)), std::move(spec));
}

// Sums of values, and values times constants.
std::optional<TracedValue> Tracer::sum_op(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (op == "neg") {
    const auto* elements = std::get_if<ElementSumRef>(&operation.inputs.at(0));
    if (elements == nullptr) return std::nullopt;
    return scaled(*elements, -1.0);
  }
  if (!is_one_of(op, {"add", "sub", "mul", "div", "rsub"})) return std::nullopt;
  const CallArguments arguments(operation.call);
  if (arguments.has("rounding_mode")) return std::nullopt;
  const double alpha = arguments.real("alpha", 1.0);
  const TracedValue* self = operation.value("self");
  const TracedValue* other = operation.value("other");
  const bool are_both = self && other && is_dependent(*self) && is_dependent(*other);
  if (are_both) {
    const auto* a = std::get_if<ElementSumRef>(self);
    const auto* b = std::get_if<ElementSumRef>(other);
    const bool is_sum = op == "add" || op == "sub";
    if (!is_sum && op != "mul") return std::nullopt;
    if (a == nullptr || b == nullptr || !is_sum) {
      const FunctionRef f = as_function(*self);
      const FunctionRef g = as_function(*other);
      if (f->base == g->base || are_same(*f->base, *g->base)) return std::nullopt;
      if (!is_sum) return builder_.product(as_sum(*self), as_sum(*other));
    }
    const double factor = op == "add" ? alpha : -alpha;
    // Parts of a rotation stay as they are.
    const auto is_embedded = [&](const ElementSumRef& value) {
      return value->elements() != 0 && std::ranges::all_of(value->terms, [&](const Term& term) {
               const int64_t number = term.places.at(0);
               if (number == kNoElement) return false;
               const Source& from = builder_.source(number);
               if (from.kind != Source::Kind::kNode) return from.kind == Source::Kind::kTable;
               return builder_.graph().as<EmbeddingNode>(from.node) != nullptr;
             });
    };
    const bool are_embedded = is_embedded(as_sum(*self)) && is_embedded(as_sum(*other));
    const auto settled = [&](const TracedValue& value) {
      const ElementSumRef elements = as_sum(value);
      const bool is_part = std::ranges::any_of(
          elements->terms, [](const Term& term) { return term.factors.each != nullptr; });
      // Tables that are added to an embedding stay apart, for they become one op.
      const bool waits = is_part || (are_embedded && builder_.is_embedding_with_tables(*elements));
      return elements->terms.size() > 1 && !waits ? builder_.materialised(elements) : elements;
    };
    return sum(settled(*self), settled(*other), factor);
  }
  const bool is_first = self != nullptr && is_dependent(*self);
  const auto* elements = std::get_if<ElementSumRef>(is_first ? self : other);
  const auto constant = constant_argument(operation, is_first ? "other" : "self");
  if (elements == nullptr || !constant) return std::nullopt;
  if (op == "mul" || (op == "div" && is_first)) {
    builder_.limit_positions(positions_max_of(operation));
    return scaled(*elements, op == "mul" ? *constant : inverse(*constant));
  }
  if (op == "div") return std::nullopt;
  const bool subtracts_value = (op == "sub" && !is_first) || (op == "rsub" && is_first);
  const double constant_factor = op == "add" || op == "rsub"
                                     ? (is_first || op == "rsub" ? alpha : 1.0)
                                     : (is_first ? -alpha : 1.0);
  const ElementSumRef value = subtracts_value ? scaled(*elements, op == "sub" ? -alpha : -1.0)
                              : !is_first     ? scaled(*elements, alpha)
                                              : *elements;
  ConstantRef table;
  const TracedValue* given = is_first ? other : self;
  if (given != nullptr && std::holds_alternative<ConstantRef>(*given)) {
    table = std::get<ConstantRef>(*given);
  } else {
    table = std::make_shared<const Constant>(kNoValue, *constant);
  }
  return sum(value, builder_.of_constant(table), constant_factor);
}

// The sum over a dimension that is not that of tokens, as of heads.
ElementSumRef Tracer::sum_of_parts(const ElementSumRef& value, size_t axis) {
  ElementSumRef total;
  for (int64_t i = 0; i < value->shape[axis]; ++i) {
    const OpCall select = {"select",
                           "int",
                           {},
                           {{"self", Array::of_shape(value->shape, ElementType::kF32)},
                            {"dim", static_cast<int64_t>(axis)},
                            {"index", i}},
                           {}};
    const ElementSumRef part = moved(movements_of(select)->at(0), std::span(&value, 1));
    total = total == nullptr ? part : sum(total, part, 1.0);
  }
  if (total == nullptr) throw NotRecognised("it sums over nothing");
  return total;
}

std::optional<TracedValue> Tracer::pooling_op(const Operation& operation) {
  const std::string& op = operation.call.op;
  const CallArguments arguments(operation.call);
  if (op == "adaptive_avg_pool1d" && arguments.integers("output_size") == Shape{1}) {
    const ElementSumRef value = as_sum(operation.inputs.at(0));
    const size_t axis = value->shape.size() - 1;
    Shape shape = value->shape;
    shape[axis] = 1;
    return with_shape(builder_.pooled(value, axis, SelectKind::kMean), shape);
  }
  if (!is_reduction(op)) return std::nullopt;
  const TracedValue& input = operation.inputs.at(0);
  const Shape shape = shape_of(input);
  if (!arguments.has("dim")) {
    throw NotRecognised(
        "it makes one number of all tokens and columns: expected one row for each sequence, as "
        "x.mean(1), and the rest in your program");
  }
  const std::vector<int64_t> dims = arguments.integers("dim");
  if (dims.size() != 1) {
    throw NotRecognised(
        "it reduces several dimensions at once: expected the tokens alone, as x.mean(1), and the "
        "rest in your program");
  }
  const size_t axis = arguments.dimension(dims[0], shape.size());
  const auto* elements = std::get_if<ElementSumRef>(&input);
  const bool is_last = axis + 1 == shape.size();
  if (is_last && (elements == nullptr || !builder_.is_along_tokens(*elements, axis))) {
    return std::nullopt;
  }
  const bool keeps = arguments.flag("keepdim", false);
  ElementSumRef pooled;
  const bool is_sum = op == "mean" || op == "sum";
  const bool is_over_heads =
      is_sum && shape[axis] <= kSummedMax && !builder_.is_along_tokens(as_sum(input), axis);
  if (is_over_heads) {
    pooled = sum_of_parts(as_sum(input), axis);
    if (op == "mean") pooled = scaled(pooled, 1.0 / static_cast<double>(shape[axis]));
  } else if (is_sum) {
    pooled = builder_.pooled(as_sum(input), axis, SelectKind::kMean);
    if (op == "sum") pooled = scaled(pooled, static_cast<double>(shape[axis]));
  } else if (op == "amax" || op == "max") {
    pooled = builder_.pooled(as_sum(input), axis, SelectKind::kMax);
  } else {
    throw NotRecognised(
        "the runtime pools tokens by their mean, their maximum, the first or the last one: other "
        "statistics of the model's input belong before it");
  }
  if (!keeps) return pooled;
  Shape kept = shape;
  kept[axis] = 1;
  return with_shape(pooled, kept);
}

// Ops on scores of attention: masks, factors and softmax.

namespace {

double single_number(const Array& array, const char* what) {
  const Array::Reals values = array.to_reals();
  if (values.empty() ||
      !std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    throw NotRecognised(what);
  }
  return values[0];
}

// Whether each query sees a key, so that a softmax gives numbers.
bool sees_something(const Scores& scores) {
  if (!scores.added) return true;
  const Array::Reals added = stretched_reals(*scores.added, scores.shape);
  const auto keys = static_cast<ptrdiff_t>(scores.shape.back());
  for (auto row = added.begin(); row != added.end(); row += keys) {
    if (std::all_of(row, row + keys, [](double value) { return std::isinf(value); })) return false;
  }
  return true;
}

Array negative(const Array& array, double factor) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value *= factor;
  return Array::real(array.shape(), std::move(values));
}

}  // namespace

// A softmax of columns, as of a classifier's results.
std::optional<TracedValue> Tracer::softmax_of_rows(const Operation& operation) {
  const std::string& op = operation.call.op;
  const bool is_log = is_one_of(op, {"log_softmax", "_log_softmax", "special_log_softmax"});
  if (!is_log && !is_one_of(op, {"softmax", "_softmax", "special_softmax"})) return std::nullopt;
  const ElementSumRef value = as_sum(operation.inputs.at(0));
  const CallArguments arguments(operation.call);
  const size_t dim = arguments.dimension("dim", -1, value->shape.size());
  if (dim + 1 != value->shape.size() || builder_.is_along_tokens(value, dim)) {
    throw NotRecognised(
        "a softmax over tokens is attention's alone: not supported is pooling by weights that a "
        "softmax makes, pool by the mean, the maximum, the first or the last token");
  }
  return builder_.normalize(value, is_log ? NormKind::kLogSoftmax : NormKind::kSoftmax);
}

// exp(x - max(x)) / sum(exp(x - max(x))), with the largest score or without it.
std::optional<TracedValue> Tracer::written_softmax(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (operation.inputs.empty()) return std::nullopt;
  const auto* scores = std::get_if<ScoresRef>(&operation.inputs[0]);
  const auto* row =
      operation.inputs.size() < 2 ? nullptr : std::get_if<ScoreRowRef>(&operation.inputs[1]);
  if (scores == nullptr || (*scores)->has_softmax) return std::nullopt;
  const CallArguments arguments(operation.call);
  if (row != nullptr) {
    // Softmax is blind to what all scores of a query have in common.
    if (op == "sub" && !(*row)->is_sum && (*row)->of == *scores) return *scores;
    if (op != "div" || !(*row)->is_sum || (*row)->of != *scores) return std::nullopt;
    Scores divided = **scores;
    divided.is_exponential = false;
    return with_softmax(divided);
  }
  if (is_one_of(op, {"max", "amax", "sum"}) && arguments.has("dim")) {
    const std::vector<int64_t> dims = arguments.integers("dim");
    const size_t rank = (*scores)->shape.size();
    const bool is_of_keys = dims.size() == 1 && arguments.dimension(dims[0], rank) + 1 == rank &&
                            arguments.flag("keepdim", false);
    if (!is_of_keys || (op == "sum") != (*scores)->is_exponential) return std::nullopt;
    return std::make_shared<const ScoreRow>(ScoreRow{*scores, op == "sum"});
  }
  if (op != "exp" || (*scores)->is_exponential) return std::nullopt;
  auto exponentials = std::make_shared<Scores>(**scores);
  exponentials->is_exponential = true;
  return ScoresRef(std::move(exponentials));
}

std::optional<TracedValue> Tracer::score_op(const Operation& operation) {
  const ScoresRef* scores = nullptr;
  for (const TracedValue& input : operation.inputs) {
    if (scores == nullptr) scores = std::get_if<ScoresRef>(&input);
  }
  const std::string& op = operation.call.op;
  if (scores == nullptr) {
    return softmax_of_rows(operation);
  }
  if ((*scores)->is_exponential) {
    throw NotRecognised(
        "it changes the exponentials of scores otherwise than a softmax does: expected "
        "scores.softmax(-1)");
  }
  if ((*scores)->has_softmax) {
    if (op == "exp" && (*scores)->is_logarithm) return without_logarithm(**scores);
    if (op == "nan_to_num" && sees_something(**scores)) return *scores;
    throw NotRecognised(kAfterSoftmax);
  }
  const CallArguments arguments(operation.call);
  const bool is_first = operation.value("self") != nullptr &&
                        std::holds_alternative<ScoresRef>(*operation.value("self"));
  const auto constant = constant_argument(operation, is_first ? "other" : "self");
  const int64_t positions = positions_max_of(operation);
  if ((op == "mul" || (op == "div" && is_first)) && constant) {
    return with_factors(**scores, op == "mul" ? *constant : inverse(*constant), positions);
  }
  if (op == "neg") return with_scale(**scores, -1.0);
  if (is_one_of(op, {"add", "sub", "rsub"}) && constant) {
    // The one of both that alpha multiplies is the second, but for rsub.
    const double alpha = arguments.real("alpha", 1.0);
    const bool has_alpha = is_first == (op == "rsub");
    const double own =
        (has_alpha ? alpha : 1.0) * (op == "add" || is_first == (op == "sub") ? 1 : -1);
    const double factor =
        (has_alpha ? 1.0 : alpha) * (op == "add" || is_first == (op == "rsub") ? 1 : -1);
    return with_added(own == 1.0 ? **scores : *with_scale(**scores, own),
                      factor == 1.0 ? *constant : negative(*constant, factor), positions);
  }
  if (op == "tanh" || op == "sigmoid") return with_tanh(**scores, op == "sigmoid");
  if (op == "masked_fill" && operation.value("mask") != nullptr) {
    const auto value = constant_argument(operation, "value");
    return with_filled(
        **scores, array_of(*operation.value("mask")),
        single_number(value.value_or(Array::real({}, {0.0})), "it fills in a tensor"), positions);
  }
  if (op == "where" && operation.value("condition") != nullptr) {
    const bool keeps_self = is_first;
    const auto value = constant_argument(operation, keeps_self ? "other" : "self");
    const Array condition = array_of(*operation.value("condition"));
    Array::Bools hidden = condition.to_bools();
    for (uint8_t& each : hidden) each = (each != 0) != keeps_self;
    if (!value) throw NotRecognised("it chooses between scores and the model's numbers");
    return with_filled(**scores, Array::boolean(condition.shape(), std::move(hidden)),
                       single_number(*value, "it fills in a tensor"), positions);
  }
  const bool is_log = is_one_of(op, {"log_softmax", "_log_softmax"});
  if (is_log || is_one_of(op, {"softmax", "_softmax"})) {
    const size_t dim = arguments.dimension("dim", -1, (*scores)->shape.size());
    if (dim + 1 != (*scores)->shape.size()) throw NotRecognised("its softmax is not over keys");
    return with_softmax(**scores, is_log);
  }
  if (is_one_of(op, {"max", "maximum", "clamp", "clamp_min"})) {
    // No score is as low as this, but hidden ones.
    const auto least = constant_argument(operation, arguments.has("min") ? "min" : "other");
    const bool is_blind =
        least && !arguments.has("max") && std::ranges::all_of(least->to_reals(), [](double value) {
          return value <= kHiddenScoreMax;
        });
    if (is_blind) return *scores;
  }
  throw NotRecognised(
      "the runtime has no such op on scores of attention: it scales them, caps them by tanh, adds "
      "constants, hides some, and takes the softmax over keys. Not supported are scores that "
      "depend on a second product, on a choice of the largest, or on no softmax");
}

}  // namespace arenite::convert
