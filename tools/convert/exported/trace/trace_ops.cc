// SPDX-License-Identifier: Apache-2.0
// Ops on values that depend on the model's input: products of matrices, sums, factors, norms, ops
// on scores, and pooling.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

namespace {

// What torch.nn.RMSNorm adds where it is not said: the epsilon of float32.
constexpr double kFloatEpsilon = 0x1p-23;

constexpr int64_t kSummedMax = 64;  // parts of a sum over a dimension

// The argument as an array, where it is a constant or a number.
std::optional<Array> constant_argument(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  if (argument == nullptr) return std::nullopt;
  if (argument->as<double>() || argument->as<int64_t>()) {
    return Array::real({}, {call.real(name)});
  }
  if (const Array* array = argument->as<Array>()) return *array;
  const auto constant = value_as<ConstantRef>(call, name);
  return constant ? std::optional(constant->array()) : std::nullopt;
}

template <typename Function>
Array each_of(const Array& array, const Function& function) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value = function(value);
  return Array::real(array.shape(), std::move(values));
}

Array inverse(const Array& array) {
  return each_of(array, [](double value) { return 1.0 / value; });
}

Array array_like(const ElementSumRef& value) {
  return Array::of_shape(value->shape, ElementType::kF32);
}

// Index `index` of one dimension.
ElementSumRef selected(const ElementSumRef& value, int64_t dim, int64_t index) {
  const Call select = {.op = "select",
                       .arguments = {{"self", array_like(value)}, {"dim", dim}, {"index", index}}};
  return moved(movements_of(select)->at(0), value);
}

}  // namespace

int64_t positions_max_of(const Call& call) {
  int64_t positions = 0;
  for (const TracedValue& input : values_of(call)) {
    const ConstantRef& constant = input.as<ConstantRef>();
    if (constant) positions = tighter(positions, constant->positions_max);
  }
  return positions;
}

std::optional<TracedValue> complex_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  if (call.op == "view_as_complex") {
    const ElementSumRef value = tracer.as_sum(inputs.at(0));
    return ComplexPair{selected(value, -1, 0), selected(value, -1, 1)};
  }
  if (std::ranges::none_of(inputs, &TracedValue::is<ComplexPair>)) return std::nullopt;
  const bool is_first = inputs[0].is<ComplexPair>();
  const ComplexPair& z = inputs[is_first || inputs.size() < 2 ? 0 : 1].as<ComplexPair>();
  if (call.op == "view_as_real" && is_first) {
    const Call stack = {
        .op = "stack",
        .arguments = {{"tensors", Argument::List{array_like(z.real), array_like(z.imaginary)}},
                      {"dim", int64_t{-1}}}};
    const ElementSumRef parts[] = {z.real, z.imaginary};
    return moved(movements_of(stack)->at(0), parts);
  }
  if (call.op == "mul" && inputs.size() == 2) {
    const Array factor = tracer.array_of(inputs[is_first ? 1 : 0]);
    Array::Reals real, imaginary;
    for (const std::complex<double>& each : factor.to_complexes()) {
      real.push_back(each.real());
      imaginary.push_back(each.imag());
    }
    const Array cosine = Array::real(factor.shape(), std::move(real));
    const Array sine = Array::real(factor.shape(), std::move(imaginary));
    tracer.builder.limit_positions(positions_max_of(call));
    return ComplexPair{sum(scaled(z.real, cosine), scaled(z.imaginary, sine), -1.0),
                       sum(scaled(z.imaginary, cosine), scaled(z.real, sine), 1.0)};
  }
  const auto movements = movements_of(with_shapes(call));
  refuse_op_if(!movements || !is_first, "it uses complex numbers otherwise than for a rotation");
  return ComplexPair{moved((*movements)[0], z.real), moved((*movements)[0], z.imaginary)};
}

std::optional<TracedValue> norm_op(Tracer& tracer, const Call& call) {
  const bool is_layer = is_one_of(call.op, {"layer_norm", "native_layer_norm"});
  if (!is_layer && !is_one_of(call.op, {"rms_norm", "_fused_rms_norm"})) return std::nullopt;
  const TracedValue input = values_of(call).at(0);
  const std::vector<int64_t> shape = call.integers("normalized_shape");
  refuse_op_if(shape.size() != 1,
               "it normalises over several dimensions: expected a norm of each token, as "
               "nn.LayerNorm(width)");
  const Shape rows = shape_of(input);
  refuse_op_if(rows.empty() || rows.back() != shape[0] || shape[0] < 1,
               "it normalises rows of another width than its input has");
  const auto width = static_cast<size_t>(shape[0]);
  NormSpec spec;
  spec.kind = is_layer ? NormKind::kLayer : NormKind::kRms;
  spec.epsilon = call.real("eps", is_layer ? 1e-5 : kFloatEpsilon);
  spec.gain.assign(width, 1.0);
  if (const TracedValue* weight = value_of(call, "weight")) {
    spec.gain = tracer.array_of(*weight).to_reals();
    const ConstantRef& constant = weight->as<ConstantRef>();
    if (constant->stored != nullptr) spec.name = constant->stored->name;
  }
  if (const TracedValue* bias = value_of(call, "bias"))
    spec.bias = tracer.array_of(*bias).to_reals();
  refuse_op_if(spec.gain.size() != width || (!spec.bias.empty() && spec.bias.size() != width),
               "its weights are of another width than its rows");
  return norm(tracer.builder, tracer.as_sum(input), std::move(spec));
}

namespace {

// How many terms are embeddings where all others are tables; nothing for any other value.
std::optional<size_t> embeddings_in(const GraphBuilder& builder, const ElementSum& value) {
  size_t embeddings = 0;
  for (const Term& term : value.terms) {
    const int64_t number = value.elements() == 0 ? kNoElement : term.places.at(0);
    if (number == kNoElement) return std::nullopt;
    const Source& from = builder.source(number);
    if (from.kind == Source::Kind::kTable) continue;
    if (from.kind != Source::Kind::kNode || !builder.graph.as<EmbeddingNode>(from.node))
      return std::nullopt;
    ++embeddings;
  }
  return embeddings;
}

// The sum, or the product, of two values of the model; nothing where it is a function of one.
std::optional<TracedValue> op_of_two(Tracer& tracer, const Call& call, const TracedValue& self,
                                     const TracedValue& other) {
  GraphBuilder& builder = tracer.builder;
  const bool is_sum = is_one_of(call.op, {"add", "sub"});
  if (!is_sum && call.op != "mul") return std::nullopt;
  if (!is_sum || !self.is<ElementSumRef>() || !other.is<ElementSumRef>()) {
    const FunctionRef f = tracer.as_function(self);
    const FunctionRef g = tracer.as_function(other);
    if (f->base == g->base || are_same(*f->base, *g->base)) return std::nullopt;
    if (!is_sum) return product(builder, tracer.as_sum(self), tracer.as_sum(other));
  }
  const bool are_embedded =
      embeddings_in(builder, *tracer.as_sum(self)) && embeddings_in(builder, *tracer.as_sum(other));
  // Parts of a rotation stay as they are. Tables that are added to an embedding stay apart, for
  // they become one op.
  const auto settled = [&](const TracedValue& value) {
    const ElementSumRef elements = tracer.as_sum(value);
    const bool waits = elements->terms.size() < 2 || elements->has_own_factors() ||
                       (are_embedded && embeddings_in(builder, *elements) == 1);
    return waits ? elements : builder.materialised(elements);
  };
  const ElementSumRef first = settled(self);
  const double alpha = call.real("alpha", 1.0);
  return sum(first, settled(other), call.op == "add" ? alpha : -alpha);
}

// a * self + b * other.
struct SumFactors {
  double self, other;
};

SumFactors sum_factors(const Call& call) {
  const double alpha = call.real("alpha", 1.0);
  if (call.op == "rsub") return {-alpha, 1.0};
  return {1.0, call.op == "add" ? alpha : -alpha};
}

}  // namespace

// Sums of values, and values times constants.
std::optional<TracedValue> sum_op(Tracer& tracer, const Call& call) {
  const std::string& op = call.op;
  if (op == "neg") {
    const ElementSumRef elements = values_of(call).at(0).as<ElementSumRef>();
    return elements ? std::optional<TracedValue>(scaled(elements, -1.0)) : std::nullopt;
  }
  if (!is_one_of(op, {"add", "sub", "mul", "div", "rsub"}) || call.has("rounding_mode")) {
    return std::nullopt;
  }
  const TracedValue* self = value_of(call, "self");
  const TracedValue* other = value_of(call, "other");
  if (self && other && !self->is_constant() && !other->is_constant()) {
    return op_of_two(tracer, call, *self, *other);
  }
  const bool is_first = self != nullptr && !self->is_constant();
  const ElementSumRef elements = (is_first ? self : other)->as<ElementSumRef>();
  const char* const constant_name = is_first ? "other" : "self";
  const auto constant = constant_argument(call, constant_name);
  if (!elements || !constant) return std::nullopt;
  if (op == "mul" || (op == "div" && is_first)) {
    tracer.builder.limit_positions(positions_max_of(call));
    return scaled(elements, op == "mul" ? *constant : inverse(*constant));
  }
  if (op == "div") return std::nullopt;
  const SumFactors factors = sum_factors(call);
  auto table = value_as<ConstantRef>(call, constant_name);
  if (!table) table = std::make_shared<const Constant>(kNoValue, *constant);
  return sum(scaled(elements, is_first ? factors.self : factors.other),
             tracer.builder.of_constant(table), is_first ? factors.other : factors.self);
}

std::optional<TracedValue> pooling_op(Tracer& tracer, const Call& call) {
  const std::string& op = call.op;
  if (!is_reduction(op)) return std::nullopt;
  const TracedValue input = values_of(call).at(0);
  const Shape shape = shape_of(input);
  refuse_op_if(
      !call.has("dim"),
      "it makes one number of all tokens and columns: expected one row for each sequence, as "
      "x.mean(1), and the rest in your program");
  const std::vector<int64_t> dims = call.integers("dim");
  refuse_op_if(
      dims.size() != 1,
      "it reduces several dimensions at once: expected the tokens alone, as x.mean(1), and "
      "the rest in your program");
  GraphBuilder& builder = tracer.builder;
  const size_t axis = call.dimension(dims[0], shape.size());
  const ElementSumRef& elements = input.as<ElementSumRef>();
  const bool is_last = axis + 1 == shape.size();
  if (is_last && (!elements || !is_along_tokens(builder, *elements, axis))) return std::nullopt;
  ElementSumRef result;
  const bool is_sum = op == "mean" || op == "sum";
  const auto extent = static_cast<double>(shape[axis]);
  refuse_op_if(!is_sum && op != "amax" && op != "max",
               "the runtime pools tokens by their mean, their maximum, the first or the last one: "
               "other statistics of the model's input belong before it");
  const ElementSumRef value = tracer.as_sum(input);
  if (is_sum && shape[axis] <= kSummedMax && !is_along_tokens(builder, *value, axis)) {
    // As of heads.
    refuse_op_if(shape[axis] == 0, "it sums over nothing");
    for (int64_t i = 0; i < shape[axis]; ++i) {
      const ElementSumRef part = selected(value, static_cast<int64_t>(axis), i);
      result = result == nullptr ? part : sum(result, part, 1.0);
    }
    if (op == "mean") result = scaled(result, 1.0 / extent);
  } else {
    result = pooled(builder, value, axis, is_sum ? SelectKind::kMean : SelectKind::kMax);
    if (op == "sum") result = scaled(result, extent);
  }
  if (!call.flag("keepdim", false)) return result;
  Shape kept = shape;
  kept[axis] = 1;
  return with_shape(result, kept);
}

// Ops on scores of attention: masks, factors and softmax.

namespace {

bool is_softmax(std::string_view op) {
  return is_one_of(op, {"softmax", "_softmax", "_safe_softmax", "special_softmax"});
}
bool is_log_softmax(std::string_view op) {
  return is_one_of(op, {"log_softmax", "_log_softmax", "special_log_softmax"});
}

double filled_in(const std::optional<Array>& array) {
  const Array::Reals values = array ? array->to_reals() : Array::Reals{0.0};
  refuse_op_if(values.empty() ||
                   std::ranges::any_of(values, [&](double value) { return value != values[0]; }),
               "it fills in a tensor");
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

}  // namespace

// A softmax of columns, as of a classifier's results.
std::optional<TracedValue> softmax_of_rows(Tracer& tracer, const Call& call) {
  const bool is_log = is_log_softmax(call.op);
  if (!is_log && !is_softmax(call.op)) return std::nullopt;
  const ElementSumRef value = tracer.as_sum(values_of(call).at(0));
  const size_t dim = call.dimension("dim", -1, value->shape.size());
  refuse_op_if(
      dim + 1 != value->shape.size() || is_along_tokens(tracer.builder, *value, dim),
      "a softmax over tokens is attention's alone: not supported is pooling by weights that "
      "a softmax makes, pool by the mean, the maximum, the first or the last token");
  return normalize(tracer.builder, value, is_log ? NormKind::kLogSoftmax : NormKind::kSoftmax);
}

// exp(x - max(x)) / sum(exp(x - max(x))), with the largest score or without it.
std::optional<TracedValue> written_softmax(Tracer&, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const std::string& op = call.op;
  if (inputs.empty()) return std::nullopt;
  const ScoresRef& scores = inputs[0].as<ScoresRef>();
  if (!scores || scores->has_softmax) return std::nullopt;
  if (inputs.size() > 1 && inputs[1].is<ScoreRowRef>()) {
    const ScoreRow& row = *inputs[1].as<ScoreRowRef>();
    // Softmax is blind to what all scores of a query have in common.
    if (op == "sub" && !row.is_sum && row.of == scores) return scores;
    if (op != "div" || !row.is_sum || row.of != scores) return std::nullopt;
    Scores divided = *scores;
    divided.is_exponential = false;
    return with_softmax(divided);
  }
  if (is_one_of(op, {"max", "amax", "sum"}) && call.has("dim")) {
    const std::vector<int64_t> dims = call.integers("dim");
    const size_t rank = scores->shape.size();
    const bool is_of_keys = dims.size() == 1 && call.dimension(dims[0], rank) + 1 == rank &&
                            call.flag("keepdim", false);
    if (!is_of_keys || (op == "sum") != scores->is_exponential) return std::nullopt;
    return std::make_shared<const ScoreRow>(ScoreRow{scores, op == "sum"});
  }
  if (op != "exp" || scores->is_exponential) return std::nullopt;
  auto exponentials = std::make_shared<Scores>(*scores);
  exponentials->is_exponential = true;
  return ScoresRef(std::move(exponentials));
}

namespace {

// What is done to weights after their softmax.
ScoresRef op_on_weights(const ScoresRef& scores, const Call& call) {
  if (call.op == "nan_to_num" && sees_something(*scores)) return scores;
  refuse_op_if(call.op != "exp" || !scores->is_logarithm, kAfterSoftmax);
  auto weights = std::make_shared<Scores>(*scores);
  weights->is_logarithm = false;
  return weights;
}

// Scores in whose place a constant stands wherever a mask says so.
ScoresRef filled(const Tracer& tracer, const ScoresRef& scores, const Call& call, bool is_first) {
  const int64_t positions = positions_max_of(call);
  if (call.op == "masked_fill") {
    const Array mask = tracer.array_of(*value_of(call, "mask"));
    return with_filled(*scores, mask, filled_in(constant_argument(call, "value")), positions);
  }
  const auto value = constant_argument(call, is_first ? "other" : "self");
  const Array condition = tracer.array_of(*value_of(call, "condition"));
  Array::Bools hidden = condition.to_bools();
  for (uint8_t& each : hidden) each = (each != 0) != is_first;
  refuse_op_if(!value, "it chooses between scores and the model's numbers");
  return with_filled(*scores, Array::boolean(condition.shape(), std::move(hidden)),
                     filled_in(value), positions);
}

}  // namespace

std::optional<TracedValue> score_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const auto found = std::ranges::find_if(inputs, &TracedValue::is<ScoresRef>);
  if (found == inputs.end()) return std::nullopt;
  const ScoresRef& scores = found->as<ScoresRef>();
  const std::string& op = call.op;
  refuse_op_if(scores->is_exponential,
               "it changes the exponentials of scores otherwise than a softmax does: expected "
               "scores.softmax(-1)");
  if (scores->has_softmax) return op_on_weights(scores, call);
  const bool is_first = value_as<ScoresRef>(call, "self") != nullptr;
  const auto constant = constant_argument(call, is_first ? "other" : "self");
  const int64_t positions = positions_max_of(call);
  if ((op == "mul" || (op == "div" && is_first)) && constant) {
    return with_factors(*scores, op == "mul" ? *constant : inverse(*constant), positions);
  }
  if (op == "neg") return with_scale(*scores, -1.0);
  if (is_one_of(op, {"add", "sub", "rsub"}) && constant) {
    const SumFactors factors = sum_factors(call);
    const double own = is_first ? factors.self : factors.other;
    const double factor = is_first ? factors.other : factors.self;
    const ScoresRef times = own == 1.0 ? scores : with_scale(*scores, own);
    if (factor == 1.0) return with_added(*times, *constant, positions);
    const auto scale = [&](double value) { return value * factor; };
    return with_added(*times, each_of(*constant, scale), positions);
  }
  if (op == "tanh" || op == "sigmoid") return with_tanh(*scores, op == "sigmoid");
  if ((op == "masked_fill" && value_of(call, "mask") != nullptr) ||
      (op == "where" && value_of(call, "condition") != nullptr)) {
    return filled(tracer, scores, call, is_first);
  }
  if (is_softmax(op) || is_log_softmax(op)) {
    const size_t rank = scores->shape.size();
    refuse_op_if(call.dimension("dim", -1, rank) + 1 != rank, "its softmax is not over keys");
    return with_softmax(*scores, is_log_softmax(op));
  }
  if (is_one_of(op, {"max", "maximum", "clamp", "clamp_min"}) && !call.has("max")) {
    // No score is as low as this, but hidden ones.
    const auto least = constant_argument(call, call.has("min") ? "min" : "other");
    const auto is_low = [](double value) { return value <= kHiddenScoreMax; };
    if (least && std::ranges::all_of(least->to_reals(), is_low)) return scores;
  }
  throw NotRecognised(
      "the runtime has no such op on scores of attention: it scales them, caps them by tanh, adds "
      "constants, hides some, and takes the softmax over keys. Not supported are scores that "
      "depend on a second product, on a choice of the largest, or on no softmax");
}

// Products of matrices: linear layers by constants; scores and attention between values.

namespace {

// Elements of a constant as one of ours, moved when somebody needs them.
ConstantRef moved(const Movement& movement, const ConstantRef& of) {
  elements_of(movement.shape);  // refuses what is too large
  return std::make_shared<const Constant>(
      kNoValue, movement.shape, of->type(), [of, movement]() -> Array {
        return Array::real(movement.shape, movement.apply<double>(of->array().to_reals()));
      });
}

// The shape without leading dimensions of 1 that no matrix has.
Shape matrix_shape(Shape shape) {
  while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

ConstantRef as_matrix(const ConstantRef& constant) {
  const Shape shape = matrix_shape(constant->shape());
  refuse_op_if(shape.size() != 2, "it multiplies by a constant of {}: expected a matrix of weights",
               shape_text(constant->shape()));
  return shape == constant->shape() ? constant : with_shape(constant, shape);
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
  for (auto row = weights.begin(); row != weights.end(); row += static_cast<ptrdiff_t>(tokens)) {
    const auto end = row + static_cast<ptrdiff_t>(tokens);
    const double largest = *std::max_element(row, end);
    double sum = 0.0;
    for (auto weight = row; weight != end; ++weight) {
      if (*weight != 0.0 && std::fabs(*weight - largest) > 1e-6) return std::nullopt;
      sum += *weight;
      added.push_back(*weight == 0.0 ? -std::numeric_limits<double>::infinity() : 0.0);
    }
    if (std::fabs(sum - 1.0) > 1e-5) return std::nullopt;
  }
  return Array::real(shape, std::move(added));
}

// ---- products by several matrices of weights, as of heads that have one each ----

constexpr int64_t kMatricesMax = 256;  // of one product

int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t d = begin; d < end; ++d) product *= shape[d];
  return product;
}

// The value's dimensions are [shared.., rows.., inputs], those of weights [shared.., inputs,
// outputs].
ElementSumRef product_by_weights(Tracer& tracer, const ElementSumRef& value,
                                 const ConstantRef& weights, size_t shared) {
  const Shape& shape = weights->shape();
  const int64_t matrices = product_of(shape, 0, shared);
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  refuse_op_if(
      matrices < 1 || matrices > kMatricesMax || value->shape.size() < shared + 2 ||
          product_of(value->shape, 0, shared) != matrices,
      "it multiplies by a constant of {}: expected a matrix of weights, or one for each head",
      shape_text(shape));
  const Shape rest(value->shape.begin() + static_cast<ptrdiff_t>(shared), value->shape.end());
  const auto block = static_cast<int64_t>(elements_of(rest));
  std::vector<ElementSumRef> parts;
  for (int64_t m = 0; m < matrices; ++m) {
    const Movement cut = {.shape = rest, .walk = {block}, .strides = {1}, .offset = m * block};
    const Movement of_matrix = {.shape = {inputs, outputs},
                                .walk = {inputs, outputs},
                                .strides = {outputs, 1},
                                .offset = m * inputs * outputs};
    const ConstantRef matrix = moved(of_matrix, weights);
    parts.push_back(tracer.linear(moved(cut, value), matrix, true, nullptr));
  }
  Movement stack;
  stack.shape.assign(value->shape.begin(), value->shape.end() - 1);
  stack.shape.push_back(outputs);
  stack.walk = {product_of(stack.shape, 0, stack.shape.size())};
  stack.strides = {1};
  return moved(stack, parts);
}

// As matmul: the leading dimensions of both go together.
ElementSumRef product_of_stacks(Tracer& tracer, const ElementSumRef& given,
                                const ConstantRef& stack) {
  const Shape& shape = stack->shape();
  const size_t shared = shape.size() - 2;
  Shape padded = given->shape;
  while (padded.size() < shared + 2) padded.insert(padded.begin(), 1);
  const ElementSumRef value = with_shape(given, padded);
  const size_t rank = padded.size();
  const size_t own = rank - 2 - shared;  // leading dimensions of the value alone
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  std::vector<size_t> order;
  const auto add_dimensions = [&](size_t begin, size_t end) {
    for (size_t d = begin; d < end; ++d) order.push_back(d);
  };
  if (product_of(padded, own, own + shared) == 1) {
    // [matrices, inputs, outputs] as one matrix [inputs, matrices * outputs].
    const int64_t matrices = product_of(shape, 0, shared);
    const Movement side_by_side = {.shape = {inputs, matrices * outputs},
                                   .walk = {inputs, matrices, outputs},
                                   .strides = {outputs, inputs * outputs, 1}};
    const ElementSumRef made = tracer.linear(value, moved(side_by_side, stack), true, nullptr);
    Shape separate(padded.begin(), padded.begin() + static_cast<ptrdiff_t>(own));
    separate.push_back(padded[rank - 2]);
    separate.insert(separate.end(), shape.begin(), shape.end() - 2);
    separate.push_back(outputs);
    add_dimensions(0, own);
    add_dimensions(own + 1, own + 1 + shared);
    add_dimensions(own, own + 1);
    add_dimensions(rank - 1, rank);
    return permuted(with_shape(made, separate), order);
  }
  add_dimensions(own, own + shared);
  add_dimensions(0, own);
  add_dimensions(rank - 2, rank);
  const ElementSumRef made = product_by_weights(tracer, permuted(value, order), stack, shared);
  return permuted(made, inverse_order(order));
}

// x W for weights of one or more matrices, or of a vector.
ElementSumRef product_from_right(Tracer& tracer, const TracedValue& value,
                                 const ConstantRef& weight) {
  if (weight->shape().size() == 1) {
    const ConstantRef column = with_shape(weight, {1, weight->shape()[0]});
    const ElementSumRef made = tracer.linear(value, column, false, nullptr);
    Shape shape = made->shape;
    shape.pop_back();
    return with_shape(made, shape);
  }
  const Shape shape = matrix_shape(weight->shape());
  if (shape.size() < 3) return tracer.linear(value, as_matrix(weight), true, nullptr);
  return product_of_stacks(tracer, tracer.as_sum(value), with_shape(weight, shape));
}

// W x, or attention whose weights are constants.
ElementSumRef product_from_left(Tracer& tracer, const ConstantRef& weight,
                                const ElementSumRef& value) {
  const int64_t tokens = tracer.builder.sizes.tokens;
  if (const auto added = added_of_weights(weight, tokens)) {
    refuse_op_if(value->shape.size() < 2, "it weighs a value that has no rows");
    Scores scores{.shape = leading(value->shape)};
    scores.shape.insert(scores.shape.end(), {tokens, tokens});
    scores.added = *added;
    scores.positions_max = weight->positions_max;
    scores.has_softmax = true;
    return attend(tracer.builder, scores, value);
  }
  const Shape& shape = weight->shape();
  refuse_op_if(shape.size() > 2 && elements_of(leading(shape)) > 1,
               "its queries are a constant of {}: learned queries, as of latents or of attention "
               "pooling, are not supported. Export the part of the model before it",
               shape_text(shape));
  // W x for columns x is x W^T for rows.
  return turned(tracer.linear(turned(value), as_matrix(weight), false, nullptr));
}

TracedValue product(Tracer& tracer, const TracedValue& a, const TracedValue& b) {
  if (const ScoresRef& scores = a.as<ScoresRef>()) {
    return attend(tracer.builder, *scores, tracer.as_sum(b));
  }
  refuse_op_if(
      b.is<ScoresRef>(),
      "it multiplies a product of two values from the left, as linear attention does by q @ "
      "(k^T @ v): not supported, attention has a softmax over keys");
  if (const ConstantRef& weight = b.as<ConstantRef>()) return product_from_right(tracer, a, weight);
  if (const ConstantRef& weight = a.as<ConstantRef>()) {
    return product_from_left(tracer, weight, tracer.as_sum(b));
  }
  return product_scores(tracer.as_sum(a), tracer.as_sum(b));
}

// [outputs, inputs of a group] as a matrix of all inputs, with zeros for those of other groups.
ConstantRef of_groups(const ConstantRef& weight, int64_t groups) {
  const int64_t outputs = weight->shape()[0], width = weight->shape()[1];
  Movement movement{.shape = {outputs, groups * width}};
  movement.sources.emplace(elements_of(movement.shape), Movement::kZero);
  for (int64_t row = 0; row < outputs; ++row) {
    const int64_t group = row / (outputs / groups);
    for (int64_t i = 0; i < width; ++i) {
      (*movement.sources)[static_cast<size_t>((row * groups + group) * width + i)] =
          row * width + i;
    }
  }
  return moved(movement, weight);
}

// ---- convolutions as linear layers: each place is made of a patch of an image, or of one token
// ----

constexpr const char* kNoPatchConvolution =
    "convolutions over several tokens or pixels at a time are not supported: those are linear "
    "layers whose stride is the kernel, without padding and groups, or whose kernel is 1. Run this "
    "one in your program, and export the part of the model that takes its result";

// Each place is to have a kernel of its own, as of patches, or of single tokens.
void require_patches(const Array& kernel, const Convolution& convolution) {
  bool cuts = convolution.groups == 1 || product_of(kernel.shape(), 2, kernel.rank()) == 1;
  for (size_t d = 0; d < convolution.stride.size(); ++d) {
    cuts = cuts && convolution.stride[d] >= kernel.shape()[d + 2] && convolution.dilation[d] == 1 &&
           convolution.padding_before[d] == 0 && convolution.padding_after[d] == 0;
  }
  const Shape sides(kernel.shape().begin() + 2, kernel.shape().end());
  refuse_op_if(!cuts, "its kernel is {} with stride {}, padding {}, dilation {} and {} group{}: {}",
               shape_text(sides), shape_text(convolution.stride),
               shape_text(convolution.padding_before), shape_text(convolution.dilation),
               convolution.groups, convolution.groups == 1 ? "" : "s", kNoPatchConvolution);
}

}  // namespace

std::optional<TracedValue> matrix_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  if (call.op == "linear") {
    const auto weight = value_as<ConstantRef>(call, "weight");
    const TracedValue* input = value_of(call, "input");
    refuse_op_if(!weight, "its weights depend on the model's input");
    refuse_op_if(input == nullptr, "it has no input");
    return tracer.linear(*input, weight, false, value_of(call, "bias"));
  }
  if (is_one_of(call.op, {"matmul", "bmm", "mm", "mv"}) && inputs.size() == 2) {
    return product(tracer, inputs[0], inputs[1]);
  }
  const bool is_index = call.op == "index" && inputs[0].is_constant();
  if (call.op != "embedding" && !is_index) return std::nullopt;
  const ConstantRef& table = inputs[0].as<ConstantRef>();
  const Argument* indices = is_index ? call.find("indices") : nullptr;
  const auto* list = indices != nullptr ? indices->as<Argument::List>() : nullptr;
  refuse_op_if(!table || inputs.size() != 2 || table->shape().size() != 2 ||
                   (list != nullptr && list->size() != 1),
               "it looks rows up in something else than a table of weights");
  return looked_up(tracer, table, inputs[1]);
}

std::optional<TracedValue> convolution_op(Tracer& tracer, const Call& call) {
  if (!is_one_of(call.op, {"conv1d", "conv2d", "convolution"})) return std::nullopt;
  const TracedValue* input = value_of(call, "input");
  const auto weight = value_as<ConstantRef>(call, "weight");
  refuse_op_if(input == nullptr || !weight, "its weights depend on the model's input");
  const Call shapes = with_shapes(call);
  Array from = shapes.array("input");
  const Array& kernel = shapes.array("weight");
  const bool has_batch = from.rank() == kernel.rank();
  refuse_op_if(kernel.rank() < 3 || (!has_batch && from.rank() + 1 != kernel.rank()),
               kNoPatchConvolution);
  Shape shape = from.shape();
  if (!has_batch) shape.insert(shape.begin(), 1);
  from = from.with_shape(shape);
  Convolution convolution = convolution_of(shapes, kernel);
  require_patches(kernel, convolution);
  Shape result = convolved_shape(shapes, from, kernel, convolution);
  ElementSumRef value = with_shape(tracer.as_sum(*input), shape);
  if (!value->is_plain() && is_of_model(tracer.builder, *value))
    value = tracer.builder.materialised(value);
  Shape kernel_shape = kernel.shape();
  const Shape sides = {kernel_shape[0], product_of(kernel_shape, 1, kernel_shape.size())};
  const auto stored =
      std::make_shared<Constant>(weight->value(), sides, weight->type(),
                                 [weight, sides] { return weight->array().with_shape(sides); });
  stored->stored = weight->stored;
  ConstantRef matrix = stored;
  if (convolution.groups > 1) matrix = of_groups(matrix, convolution.groups);
  kernel_shape[1] *= std::exchange(convolution.groups, 1);
  Movement movement = windows(shape, result, kernel_shape, convolution);
  movement.shape = {shape[0], movement.shape[2], movement.shape[3]};  // of one group
  const ElementSumRef made =
      tracer.linear(moved(movement, value), matrix, false, value_of(call, "bias"));
  if (!has_batch) result.erase(result.begin());
  return with_shape(permuted(made, {0, 2, 1}), result);
}

// ---- ops that are made of others ----

namespace {

// Runs them on traced values, or on constants, which are computed.
class TracedOps : public OpRunner {
 public:
  explicit TracedOps(Tracer& tracer) : tracer_(tracer) {}

  Argument run(const Call& part) override {
    const std::vector<TracedValue> inputs = values_of(part);
    const bool are_constants = std::ranges::all_of(inputs, &TracedValue::is_constant);
    return traced(are_constants ? tracer_.constant_of(part) : tracer_.trace(part).at(0));
  }
  Array like(const Argument& tensor) const override {
    const auto* ref = tensor.as<TracedRef>();
    refuse_op_if(ref == nullptr, "its arguments are not known");
    return Array::of_shape(shape_of(**ref), type_of(**ref));
  }
  bool is_fixed(const Argument& tensor) const override { return is<ScoresRef>(tensor); }
  bool is_constant(const Argument& tensor) const override { return is<ConstantRef>(tensor); }

 private:
  template <typename T>
  static bool is(const Argument& tensor) {
    const auto* ref = tensor.as<TracedRef>();
    return ref != nullptr && (*ref)->is<T>();
  }

  Tracer& tracer_;
};

}  // namespace

// What weights and a bias are added to is a layer.
std::optional<TracedValue> layer_op(Tracer& tracer, const Call& call) {
  const TracedValue* added = value_of(call, "self");
  const TracedValue* value = value_of(call, "mat1");
  const auto weight = value_as<ConstantRef>(call, "mat2");
  const bool is_layer = call.op == "addmm" && value != nullptr && weight &&
                        weight->shape().size() == 2 && call.real("alpha", 1.0) == 1.0 &&
                        call.real("beta", 1.0) == 1.0 && added != nullptr && added->is_constant() &&
                        shape_of(*added) == Shape{weight->shape()[1]} && !value->is<ScoresRef>();
  if (!is_layer) return std::nullopt;
  return tracer.linear(*value, weight, true, added);
}

std::optional<TracedValue> decomposed_op(Tracer& tracer, const Call& call) {
  if (!is_decomposed(call.op)) return std::nullopt;
  const TracedValue* input = value_of(call, "input");
  refuse_op_if(
      call.op == "group_norm" && input != nullptr && shape_of(*input).size() != 2,
      "its groups are of several tokens, since dimension 1 of [sequences, channels, tokens] is "
      "normalised with those after it: expected one token in each row, as x.reshape(-1, width)");
  // A mask that is no constant is refused as such, and not as a number that is added.
  if (const TracedValue* mask = value_of(call, "attn_mask")) tracer.array_of(*mask);
  // Functions become values of nodes.
  const Call settled = bind<TracedRef>(call, [&](const TracedRef& ref) -> Argument {
    if (!ref->is<FunctionRef>()) return ref;
    return traced({tracer.as_sum(*ref), ref->type});
  });
  TracedOps ops(tracer);
  const Argument made = decomposed(settled, ops);
  if (made.is_none()) return std::nullopt;
  return **made.as<TracedRef>();
}

}  // namespace arenite::convert
