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

std::optional<Array> constant_argument(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  if (argument == nullptr) return std::nullopt;
  if (const double* real = argument->as<double>()) return Array::real({}, {*real});
  if (const int64_t* whole = argument->as<int64_t>()) {
    return Array::real({}, {static_cast<double>(*whole)});
  }
  if (const Array* array = argument->as<Array>()) return *array;
  const TracedValue* value = value_of(call, name);
  const auto* constant = value != nullptr ? value->as<ConstantRef>() : nullptr;
  if (constant == nullptr) return std::nullopt;
  return (*constant)->array();
}

int64_t positions_max_of(const Call& call) {
  int64_t positions = 0;
  for (const TracedValue& input : values_of(call)) {
    const auto* constant = input.as<ConstantRef>();
    if (constant != nullptr) positions = tighter(positions, (*constant)->positions_max);
  }
  return positions;
}

Array inverse(const Array& array) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value = 1.0 / value;
  return Array::real(array.shape(), std::move(values));
}

std::optional<TracedValue> complex_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
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
    const ElementSumRef value = tracer.as_sum(inputs.at(0));
    return ComplexPair{part(value, 0), part(value, 1)};
  }
  const auto* pair = inputs.empty() ? nullptr : inputs[0].as<ComplexPair>();
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
  const bool has_pair = std::ranges::any_of(
      inputs, [](const TracedValue& input) { return input.as<ComplexPair>() != nullptr; });
  if (!has_pair) return std::nullopt;
  if (call.op == "mul" && inputs.size() == 2) {
    const auto* second = inputs[1].as<ComplexPair>();
    const ComplexPair& z = pair != nullptr ? *pair : *second;
    const Array factor = tracer.array_of(inputs[pair != nullptr ? 1 : 0]);
    Array::Reals real, imaginary;
    for (const std::complex<double>& each : factor.to_complexes()) {
      real.push_back(each.real());
      imaginary.push_back(each.imag());
    }
    const Array cosine = Array::real(factor.shape(), std::move(real));
    const Array sine = Array::real(factor.shape(), std::move(imaginary));
    tracer.builder().limit_positions(positions_max_of(call));
    return ComplexPair{sum(scaled(z.real, cosine), scaled(z.imaginary, sine), -1.0),
                       sum(scaled(z.imaginary, cosine), scaled(z.real, sine), 1.0)};
  }
  if (const auto movements = movements_of(with_shapes(call)); movements && pair != nullptr) {
    return ComplexPair{moved((*movements)[0], std::span(&pair->real, 1)),
                       moved((*movements)[0], std::span(&pair->imaginary, 1))};
  }
  throw NotRecognised("it uses complex numbers otherwise than for a rotation");
}

std::optional<TracedValue> norm_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const bool is_layer = call.op == "layer_norm" || call.op == "native_layer_norm";
  const bool is_rms = call.op == "rms_norm" || call.op == "_fused_rms_norm";
  if (!is_layer && !is_rms) return std::nullopt;
  const std::vector<int64_t> shape = call.integers("normalized_shape");
  if (shape.size() != 1) {
    throw NotRecognised(
        "it normalises over several dimensions: expected a norm of each token, as "
        "nn.LayerNorm(width)");
  }
  const Shape rows = shape_of(inputs.at(0));
  const auto width = static_cast<size_t>(std::max<int64_t>(shape[0], 0));
  if (rows.empty() || rows.back() != shape[0] || width == 0) {
    throw NotRecognised("it normalises rows of another width than its input has");
  }
  NormSpec spec;
  spec.kind = is_layer ? NormKind::kLayer : NormKind::kRms;
  spec.epsilon = call.real("eps", is_layer ? 1e-5 : kFloatEpsilon);
  spec.gain.assign(width, 1.0);
  if (const TracedValue* weight = value_of(call, "weight")) {
    spec.gain = tracer.array_of(*weight).to_reals();
    if (const auto* constant = weight->as<ConstantRef>(); (*constant)->stored != nullptr) {
      spec.name = (*constant)->stored->name;
    }
  }
  if (const TracedValue* bias = value_of(call, "bias"))
    spec.bias = tracer.array_of(*bias).to_reals();
  if (spec.gain.size() != width || (!spec.bias.empty() && spec.bias.size() != width)) {
    throw NotRecognised("its weights are of another width than its rows");
  }
  return tracer.builder().norm(tracer.as_sum(inputs.at(0)), std::move(spec));
}

// Sums of values, and values times constants.
std::optional<TracedValue> sum_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const std::string& op = call.op;
  if (op == "neg") {
    const auto* elements = inputs.at(0).as<ElementSumRef>();
    if (elements == nullptr) return std::nullopt;
    return scaled(*elements, -1.0);
  }
  if (!is_one_of(op, {"add", "sub", "mul", "div", "rsub"})) return std::nullopt;
  if (call.has("rounding_mode")) return std::nullopt;
  const double alpha = call.real("alpha", 1.0);
  const TracedValue* self = value_of(call, "self");
  const TracedValue* other = value_of(call, "other");
  const bool are_both = self && other && !self->is_constant() && !other->is_constant();
  if (are_both) {
    const auto* a = self->as<ElementSumRef>();
    const auto* b = other->as<ElementSumRef>();
    const bool is_sum = op == "add" || op == "sub";
    if (!is_sum && op != "mul") return std::nullopt;
    if (a == nullptr || b == nullptr || !is_sum) {
      const FunctionRef f = tracer.as_function(*self);
      const FunctionRef g = tracer.as_function(*other);
      if (f->base == g->base || are_same(*f->base, *g->base)) return std::nullopt;
      if (!is_sum) return tracer.builder().product(tracer.as_sum(*self), tracer.as_sum(*other));
    }
    const double factor = op == "add" ? alpha : -alpha;
    // Parts of a rotation stay as they are.
    const auto is_embedded = [&](const ElementSumRef& value) {
      return value->elements() != 0 && std::ranges::all_of(value->terms, [&](const Term& term) {
               const int64_t number = term.places.at(0);
               if (number == kNoElement) return false;
               const Source& from = tracer.builder().source(number);
               if (from.kind != Source::Kind::kNode) return from.kind == Source::Kind::kTable;
               return tracer.builder().graph().as<EmbeddingNode>(from.node) != nullptr;
             });
    };
    const bool are_embedded =
        is_embedded(tracer.as_sum(*self)) && is_embedded(tracer.as_sum(*other));
    const auto settled = [&](const TracedValue& value) {
      const ElementSumRef elements = tracer.as_sum(value);
      const bool is_part = std::ranges::any_of(
          elements->terms, [](const Term& term) { return term.factors.each != nullptr; });
      // Tables that are added to an embedding stay apart, for they become one op.
      const bool waits =
          is_part || (are_embedded && tracer.builder().is_embedding_with_tables(*elements));
      return elements->terms.size() > 1 && !waits ? tracer.builder().materialised(elements)
                                                  : elements;
    };
    return sum(settled(*self), settled(*other), factor);
  }
  const bool is_first = self != nullptr && !self->is_constant();
  const auto* elements = (is_first ? self : other)->as<ElementSumRef>();
  const auto constant = constant_argument(call, is_first ? "other" : "self");
  if (elements == nullptr || !constant) return std::nullopt;
  if (op == "mul" || (op == "div" && is_first)) {
    tracer.builder().limit_positions(positions_max_of(call));
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
  if (given != nullptr && (given->as<ConstantRef>() != nullptr)) {
    table = *given->as<ConstantRef>();
  } else {
    table = std::make_shared<const Constant>(kNoValue, *constant);
  }
  return sum(value, tracer.builder().of_constant(table), constant_factor);
}

// The sum over a dimension that is not that of tokens, as of heads.
ElementSumRef sum_of_parts(const ElementSumRef& value, size_t axis) {
  ElementSumRef total;
  for (int64_t i = 0; i < value->shape[axis]; ++i) {
    const Call select = {.op = "select",
                         .arguments = {{"self", Array::of_shape(value->shape, ElementType::kF32)},
                                       {"dim", static_cast<int64_t>(axis)},
                                       {"index", i}}};
    const ElementSumRef part = moved(movements_of(select)->at(0), std::span(&value, 1));
    total = total == nullptr ? part : sum(total, part, 1.0);
  }
  if (total == nullptr) throw NotRecognised("it sums over nothing");
  return total;
}

std::optional<TracedValue> pooling_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const std::string& op = call.op;
  if (!is_reduction(op)) return std::nullopt;
  const TracedValue& input = inputs.at(0);
  const Shape shape = shape_of(input);
  if (!call.has("dim")) {
    throw NotRecognised(
        "it makes one number of all tokens and columns: expected one row for each sequence, as "
        "x.mean(1), and the rest in your program");
  }
  const std::vector<int64_t> dims = call.integers("dim");
  if (dims.size() != 1) {
    throw NotRecognised(
        "it reduces several dimensions at once: expected the tokens alone, as x.mean(1), and the "
        "rest in your program");
  }
  const size_t axis = call.dimension(dims[0], shape.size());
  const auto* elements = input.as<ElementSumRef>();
  const bool is_last = axis + 1 == shape.size();
  if (is_last && (elements == nullptr || !tracer.builder().is_along_tokens(*elements, axis))) {
    return std::nullopt;
  }
  const bool keeps = call.flag("keepdim", false);
  ElementSumRef pooled;
  const bool is_sum = op == "mean" || op == "sum";
  const bool is_over_heads = is_sum && shape[axis] <= kSummedMax &&
                             !tracer.builder().is_along_tokens(tracer.as_sum(input), axis);
  if (is_over_heads) {
    pooled = sum_of_parts(tracer.as_sum(input), axis);
    if (op == "mean") pooled = scaled(pooled, 1.0 / static_cast<double>(shape[axis]));
  } else if (is_sum) {
    pooled = tracer.builder().pooled(tracer.as_sum(input), axis, SelectKind::kMean);
    if (op == "sum") pooled = scaled(pooled, static_cast<double>(shape[axis]));
  } else if (op == "amax" || op == "max") {
    pooled = tracer.builder().pooled(tracer.as_sum(input), axis, SelectKind::kMax);
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
std::optional<TracedValue> softmax_of_rows(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const std::string& op = call.op;
  const bool is_log = is_one_of(op, {"log_softmax", "_log_softmax", "special_log_softmax"});
  if (!is_log && !is_one_of(op, {"softmax", "_softmax", "_safe_softmax", "special_softmax"}))
    return std::nullopt;
  const ElementSumRef value = tracer.as_sum(inputs.at(0));
  const size_t dim = call.dimension("dim", -1, value->shape.size());
  if (dim + 1 != value->shape.size() || tracer.builder().is_along_tokens(value, dim)) {
    throw NotRecognised(
        "a softmax over tokens is attention's alone: not supported is pooling by weights that a "
        "softmax makes, pool by the mean, the maximum, the first or the last token");
  }
  return tracer.builder().normalize(value, is_log ? NormKind::kLogSoftmax : NormKind::kSoftmax);
}

// exp(x - max(x)) / sum(exp(x - max(x))), with the largest score or without it.
std::optional<TracedValue> written_softmax(Tracer&, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const std::string& op = call.op;
  if (inputs.empty()) return std::nullopt;
  const auto* scores = inputs[0].as<ScoresRef>();
  const auto* row = inputs.size() < 2 ? nullptr : inputs[1].as<ScoreRowRef>();
  if (scores == nullptr || (*scores)->has_softmax) return std::nullopt;
  if (row != nullptr) {
    // Softmax is blind to what all scores of a query have in common.
    if (op == "sub" && !(*row)->is_sum && (*row)->of == *scores) return *scores;
    if (op != "div" || !(*row)->is_sum || (*row)->of != *scores) return std::nullopt;
    Scores divided = **scores;
    divided.is_exponential = false;
    return with_softmax(divided);
  }
  if (is_one_of(op, {"max", "amax", "sum"}) && call.has("dim")) {
    const std::vector<int64_t> dims = call.integers("dim");
    const size_t rank = (*scores)->shape.size();
    const bool is_of_keys = dims.size() == 1 && call.dimension(dims[0], rank) + 1 == rank &&
                            call.flag("keepdim", false);
    if (!is_of_keys || (op == "sum") != (*scores)->is_exponential) return std::nullopt;
    return std::make_shared<const ScoreRow>(ScoreRow{*scores, op == "sum"});
  }
  if (op != "exp" || (*scores)->is_exponential) return std::nullopt;
  auto exponentials = std::make_shared<Scores>(**scores);
  exponentials->is_exponential = true;
  return ScoresRef(std::move(exponentials));
}

std::optional<TracedValue> score_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const ScoresRef* scores = nullptr;
  for (const TracedValue& input : inputs) {
    if (scores == nullptr) scores = input.as<ScoresRef>();
  }
  const std::string& op = call.op;
  if (scores == nullptr) {
    return softmax_of_rows(tracer, call);
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
  const bool is_first =
      value_of(call, "self") != nullptr && value_of(call, "self")->as<ScoresRef>() != nullptr;
  const auto constant = constant_argument(call, is_first ? "other" : "self");
  const int64_t positions = positions_max_of(call);
  if ((op == "mul" || (op == "div" && is_first)) && constant) {
    return with_factors(**scores, op == "mul" ? *constant : inverse(*constant), positions);
  }
  if (op == "neg") return with_scale(**scores, -1.0);
  if (is_one_of(op, {"add", "sub", "rsub"}) && constant) {
    // The one of both that alpha multiplies is the second, but for rsub.
    const double alpha = call.real("alpha", 1.0);
    const bool has_alpha = is_first == (op == "rsub");
    const double own =
        (has_alpha ? alpha : 1.0) * (op == "add" || is_first == (op == "sub") ? 1 : -1);
    const double factor =
        (has_alpha ? 1.0 : alpha) * (op == "add" || is_first == (op == "rsub") ? 1 : -1);
    return with_added(own == 1.0 ? **scores : *with_scale(**scores, own),
                      factor == 1.0 ? *constant : negative(*constant, factor), positions);
  }
  if (op == "tanh" || op == "sigmoid") return with_tanh(**scores, op == "sigmoid");
  if (op == "masked_fill" && value_of(call, "mask") != nullptr) {
    const auto value = constant_argument(call, "value");
    return with_filled(
        **scores, tracer.array_of(*value_of(call, "mask")),
        single_number(value.value_or(Array::real({}, {0.0})), "it fills in a tensor"), positions);
  }
  if (op == "where" && value_of(call, "condition") != nullptr) {
    const bool keeps_self = is_first;
    const auto value = constant_argument(call, keeps_self ? "other" : "self");
    const Array condition = tracer.array_of(*value_of(call, "condition"));
    Array::Bools hidden = condition.to_bools();
    for (uint8_t& each : hidden) each = (each != 0) != keeps_self;
    if (!value) throw NotRecognised("it chooses between scores and the model's numbers");
    return with_filled(**scores, Array::boolean(condition.shape(), std::move(hidden)),
                       single_number(*value, "it fills in a tensor"), positions);
  }
  const bool is_log = is_one_of(op, {"log_softmax", "_log_softmax"});
  if (is_log || is_one_of(op, {"softmax", "_softmax", "_safe_softmax"})) {
    const size_t dim = call.dimension("dim", -1, (*scores)->shape.size());
    if (dim + 1 != (*scores)->shape.size()) throw NotRecognised("its softmax is not over keys");
    return with_softmax(**scores, is_log);
  }
  if (is_one_of(op, {"max", "maximum", "clamp", "clamp_min"})) {
    // No score is as low as this, but hidden ones.
    const auto least = constant_argument(call, call.has("min") ? "min" : "other");
    const bool is_blind =
        least && !call.has("max") && std::ranges::all_of(least->to_reals(), [](double value) {
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
