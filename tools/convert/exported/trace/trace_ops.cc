// SPDX-License-Identifier: Apache-2.0
// Lowers sums, factors, norms, pooling, softmax over rows, and ops with a decomposition.
//
//   x * 2 + c  ->  linear expression: factor 2, and a term of constants
//   x.mean(1)  ->  select mean(x), one row per sequence

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/query_terms.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

namespace {

// The default epsilon of torch.nn.RMSNorm, that of float32.
constexpr double kFloatEpsilon = 0x1p-23;

constexpr int64_t kSummedMax = 64;    // terms of a sum over a dimension
constexpr int64_t kMatrixRowMax = 4;  // columns of small matrices that multiply rows

Array array_like(const LinearExprRef& value) {
  return Array::of_shape(value->shape, ElementType::kF32);
}

LinearExprRef selected(const LinearExprRef& value, int64_t dim, int64_t index) {
  const Call select = {.op = "select",
                       .arguments = {{"self", array_like(value)}, {"dim", dim}, {"index", index}}};
  return moved(movements_of(select)->at(0), value);
}

}  // namespace

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

Array inverse(const Array& array) {
  return each_of(array, [](double value) { return 1.0 / value; });
}

SumFactors sum_factors(const Call& call) {
  const double alpha = call.real("alpha", 1.0);
  if (call.op == "rsub") return {-alpha, 1.0};
  return {1.0, call.op == "add" ? alpha : -alpha};
}

std::optional<TracedValue> norm_op(Tracer& tracer, const Call& call) {
  const bool is_layer = is_one_of(call.op, {"layer_norm", "native_layer_norm"});
  if (!is_layer && !is_one_of(call.op, {"rms_norm", "_fused_rms_norm"})) return std::nullopt;
  const TracedValue input = values_of(call).at(0);
  const std::vector<int64_t> shape = call.integers("normalized_shape");
  refuse_op_if(
      shape.size() != 1,
      "the norm is over several dimensions; expected a norm of each token, as nn.LayerNorm(width)");
  const Shape rows = shape_of(input);
  refuse_op_if(
      rows.empty() || rows.back() != shape[0] || shape[0] < 1,
      "the norm and its input have different widths; expected a norm over the last dimension");
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
               "weights and rows of the norm have different widths; expected equal widths");
  return norm(tracer.builder, tracer.as_sum(input), std::move(spec));
}

namespace {

LinearExprRef unary_op(Tracer& tracer, const char* op, const TracedValue& value) {
  const LinearExprRef& elements = value.as<LinearExprRef>();
  const bool is_sum = elements && elements->terms.size() == 1;
  const TracedValue settled = is_sum ? tracer.builder.materialised(elements) : value;
  const Call call = {.op = op, .arguments = {{"self", traced(settled)}}};
  return tracer.as_sum(tracer.trace(call).at(0));
}

// Counts the terms that are embeddings. Returns nullopt unless all other terms are tables.
std::optional<size_t> embeddings_in(const GraphBuilder& builder, const LinearExpr& value) {
  size_t embeddings = 0;
  for (const Term& term : value.terms) {
    const int64_t number = value.elements() == 0 ? kNoElement : term.places.at(0);
    if (number == kNoElement) return std::nullopt;
    const Producer& from = builder.producer(number);
    if (from.kind == Producer::Kind::kTable) continue;
    if (from.kind != Producer::Kind::kNode || !builder.graph.as<EmbeddingNode>(from.node))
      return std::nullopt;
    ++embeddings;
  }
  return embeddings;
}

// Lowers a sum, product or quotient of two values of the model. Returns nullopt for products and
// quotients of functions of one base.
std::optional<TracedValue> binary_op(Tracer& tracer, const Call& call, const TracedValue& self,
                                     const TracedValue& other) {
  GraphBuilder& builder = tracer.builder;
  const bool is_sum = is_one_of(call.op, {"add", "sub"});
  if (!is_sum && call.op != "mul" && call.op != "div") return std::nullopt;
  if (!is_sum || !self.is<LinearExprRef>() || !other.is<LinearExprRef>()) {
    const FunctionRef f = tracer.as_function(self);
    const FunctionRef g = tracer.as_function(other);
    if (f->base == g->base || are_same(*f->base, *g->base)) return std::nullopt;
    if (call.op == "mul") return product(builder, tracer.as_sum(self), tracer.as_sum(other));
    if (!is_sum)
      return product(builder, tracer.as_sum(self), unary_op(tracer, "reciprocal", other));
  }
  const bool are_embedded =
      embeddings_in(builder, *tracer.as_sum(self)) && embeddings_in(builder, *tracer.as_sum(other));
  // Materialises sums, but not parts of a rotation, and not an embedding plus tables: these become
  // one op.
  const auto settled = [&](const TracedValue& value) {
    const LinearExprRef elements = tracer.as_sum(value);
    const bool waits = elements->terms.size() < 2 || elements->has_own_factors() ||
                       (are_embedded && embeddings_in(builder, *elements) == 1);
    return waits ? elements : builder.materialised(elements);
  };
  const LinearExprRef first = settled(self);
  const std::vector<LinearExprRef> both =
      rows_of_sequences(builder, {first, settled(other)}, Combination::kProduct);
  const double alpha = call.real("alpha", 1.0);
  return sum(both[0], both[1], call.op == "add" ? alpha : -alpha);
}

}  // namespace

// Lowers sums and products, of two values or of a value and a constant.
std::optional<TracedValue> sum_op(Tracer& tracer, const Call& call) {
  const std::string& op = call.op;
  if (op == "neg") {
    const LinearExprRef elements = values_of(call).at(0).as<LinearExprRef>();
    return elements ? std::optional<TracedValue>(scaled(elements, -1.0)) : std::nullopt;
  }
  if (!is_one_of(op, {"add", "sub", "mul", "div", "rsub"}) || call.has("rounding_mode")) {
    return std::nullopt;
  }
  const TracedValue* self = value_of(call, "self");
  const TracedValue* other = value_of(call, "other");
  if (self && other && !self->is_constant() && !other->is_constant()) {
    return binary_op(tracer, call, *self, *other);
  }
  const bool is_first = self != nullptr && !self->is_constant();
  const TracedValue* const value = is_first ? self : other;
  const LinearExprRef elements = value != nullptr ? value->as<LinearExprRef>() : nullptr;
  const char* const constant_name = is_first ? "other" : "self";
  const auto constant = constant_argument(call, constant_name);
  if (!elements || !constant) return std::nullopt;
  const bool is_plain_sum = (op == "add" || (op == "sub" && is_first)) && !call.has("alpha");
  if (is_plain_sum && constant->elements() == 1 && constant->to_reals()[0] == 0.0) return elements;
  if (op == "mul" || (op == "div" && is_first)) {
    tracer.builder.limit_positions(positions_max_of(call));
    return scaled(elements, op == "mul" ? *constant : inverse(*constant));
  }
  if (op == "div") return std::nullopt;
  const SumFactors factors = sum_factors(call);
  auto table = value_as<ConstantRef>(call, constant_name);
  if (!table) table = std::make_shared<const Constant>(kNoValue, *constant);
  return sum(scaled(elements, is_first ? factors.self : factors.other),
             tracer.builder.constant_expr(table), is_first ? factors.other : factors.self);
}

namespace {

// Reduces several dimensions of tokens by one op, such as lines and columns of an image. Returns
// nullopt if other dimensions are reduced.
std::optional<TracedValue> reduced_at_once(Tracer& tracer, const Call& call,
                                           const TracedValue& input,
                                           const std::vector<size_t>& dims) {
  const LinearExprRef value = tracer.as_sum(input);
  std::vector<size_t> order;
  Shape left, kept = value->shape;
  for (size_t d = 0; d < value->shape.size(); ++d) {
    if (std::ranges::count(dims, d) != 0) {
      if (value->shape[d] > 1 && !is_along_tokens(tracer.builder, *value, d)) return std::nullopt;
      kept[d] = 1;
    } else {
      order.push_back(d);
      left.push_back(value->shape[d]);
    }
  }
  for (size_t d = 0; d < value->shape.size(); ++d) {
    if (std::ranges::count(dims, d) != 0) order.push_back(d);
  }
  const bool keeps = call.flag("keepdim", false);
  if (elements_of(left) == value->elements()) return with_shape(value, keeps ? kept : left);
  Shape flat = left;
  flat.push_back(static_cast<int64_t>(value->elements() / std::max<size_t>(1, elements_of(left))));
  const TracedValue tokens = with_shape(permuted(value, order), flat);
  const Call one = {.op = call.op, .arguments = {{"self", traced(tokens)}, {"dim", int64_t{-1}}}};
  const LinearExprRef made = tracer.as_sum(tracer.trace(one).at(0));
  return with_shape(made, keeps ? kept : left);
}

TracedValue reduced_in_turn(Tracer& tracer, const Call& call, const TracedValue& input) {
  const Shape shape = shape_of(input);
  std::vector<size_t> dims;
  for (const int64_t dim : call.integers("dim")) dims.push_back(call.dimension(dim, shape.size()));
  if (std::set(dims.begin(), dims.end()).size() != dims.size()) {
    call.refuse("a dimension is reduced twice; expected different dimensions");
  }
  if (tracer.builder.reads_images()) {
    if (auto made = reduced_at_once(tracer, call, input, dims)) return *made;
  }
  std::ranges::sort(dims, std::greater<>());
  TracedValue value = input;
  Shape left = shape;
  for (const size_t dim : dims) {
    const Call one = {.op = call.op,
                      .arguments = {{"self", traced(value)},
                                    {"dim", Argument::List{static_cast<int64_t>(dim)}},
                                    {"keepdim", true}}};
    value = tracer.trace(one).at(0);
    left.erase(left.begin() + static_cast<ptrdiff_t>(dim));
  }
  if (call.flag("keepdim", false)) return value;
  return with_shape(tracer.as_sum(value), left);
}

// Reduces dimension `axis`, which steps through tokens, to extent 1: one row per sequence.
LinearExprRef pooled_row(GraphBuilder& builder, const LinearExprRef& value, size_t axis,
                         SelectKind kind) {
  Shape shape = value->shape;
  shape[axis] = 1;
  return with_shape(pooled(builder, value, axis, kind), shape);
}

// Returns the mean along `axis`, which keeps extent 1: pooling over tokens, or a linear layer over
// columns.
LinearExprRef mean_along(GraphBuilder& builder, const LinearExprRef& value, size_t axis) {
  if (is_along_tokens(builder, *builder.materialised(value), axis)) {
    return pooled_row(builder, value, axis, SelectKind::kMean);
  }
  std::vector<size_t> order(value->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[axis], order.back());
  WeightRef ones;
  ones.name = builder.name + ".ones";
  ones.rows = 1;
  ones.columns = static_cast<uint32_t>(value->shape[axis]);
  set_exact(ones, [count = ones.columns] {
    return std::vector<double>(count, 1.0 / static_cast<double>(count));
  });
  return permuted(linear(builder, permuted(value, order), ones, {}), order);
}

// Returns 1 / (tokens - without) for each sequence of a value [sequences, tokens, columns], as
// [sequences, 1, 1].
LinearExprRef inverse_token_count(GraphBuilder& builder, const LinearExprRef& value,
                                  double without) {
  const Shape shape = {value->shape[0], value->shape[1], 1};
  const auto one = std::make_shared<const Constant>(kNoValue, Array::real({}, {1.0}));
  const auto ones =
      columns_of_constants(builder, stretched(builder.constant_expr(one), shape), value);
  refuse_op_if(!ones,
               "the variance of a value of this shape needs the number of tokens; expected "
               "[sequences, tokens, columns]");
  const LinearExprRef count = scaled(pooled_row(builder, *ones, 1, SelectKind::kMean),
                                     static_cast<double>(value->shape[1]));
  return activation(builder, count, {Activation::kReciprocal, -without});
}

// Lowers var and std: the mean square of the distance to the mean, or its root. Two passes avoid
// cancellation.
LinearExprRef deviation_of_rows(Tracer& tracer, const Call& call, const LinearExprRef& value,
                                size_t axis) {
  GraphBuilder& builder = tracer.builder;
  const LinearExprRef mean = mean_along(builder, value, axis);
  const LinearExprRef distance = builder.materialised(sum(value, mean, -1.0));
  const auto extent = static_cast<double>(value->shape[axis]);
  const double without = call.has("correction")        ? call.real("correction")
                         : call.flag("unbiased", true) ? 1.0
                                                       : 0.0;
  refuse_op_if(
      without >= extent,
      "the correction of the variance is not less than the number of tokens; use a smaller one");
  const LinearExprRef squares = product(builder, distance, distance);
  LinearExprRef variance = mean_along(builder, squares, axis);
  const bool is_counted = without != 0.0 && tracer.has_open_length() && axis != 0 &&
                          value->shape.size() == 3 && is_along_tokens(builder, *squares, axis);
  if (is_counted) {
    const LinearExprRef inverse =
        inverse_token_count(builder, axis == 1 ? squares : transposed(squares), without);
    variance = product(builder, scaled(variance, extent), inverse);
  } else {
    variance = scaled(variance, extent / (extent - without));
  }
  return call.op == "var" ? variance : unary_op(tracer, "sqrt", variance);
}

// Lowers logsumexp: log(sum(exp(x - max(x)))) + max(x).
LinearExprRef log_of_sum(Tracer& tracer, const LinearExprRef& value, size_t axis) {
  GraphBuilder& builder = tracer.builder;
  const LinearExprRef most = pooled_row(builder, value, axis, SelectKind::kMax);
  const LinearExprRef parts = unary_op(tracer, "exp", builder.materialised(sum(value, most, -1.0)));
  const LinearExprRef total = scaled(pooled_row(builder, parts, axis, SelectKind::kMean),
                                     static_cast<double>(value->shape[axis]));
  return sum(unary_op(tracer, "log", builder.materialised(total)), most, 1.0);
}

bool is_euclidean(const Call& call) {
  const char* const name = call.op == "norm" ? "p" : "ord";
  return !call.has(name) || call.real(name) == 2.0;
}

// Lowers an L2 norm along one or more dimensions: the root of the sum of squares.
TracedValue length_of(Tracer& tracer, const Call& call, const TracedValue& input) {
  const LinearExprRef squares = product(tracer.builder, tracer.as_sum(input), tracer.as_sum(input));
  const Call sum_of_squares = {.op = "sum",
                               .arguments = {{"self", traced(squares)},
                                             {"dim", call.argument("dim")},
                                             {"keepdim", call.flag("keepdim", false)}}};
  return unary_op(tracer, "sqrt", tracer.trace(sum_of_squares).at(0));
}

// Returns the elements of a value. For a function, lowers it if it reduces the columns, or is
// elementwise and `axis` steps through tokens; else returns null.
LinearExprRef elements_to_pool(Tracer& tracer, const TracedValue& value, size_t axis) {
  const FunctionRef& function = value.as<FunctionRef>();
  if (!function) return value.as<LinearExprRef>();
  const bool is_of_tokens = function->shape == function->base->shape &&
                            is_along_tokens(tracer.builder, *function->base, axis);
  const bool is_reduced = function->shape.size() < function->base->shape.size();
  return is_of_tokens || is_reduced ? tracer.as_sum(value) : nullptr;
}

}  // namespace

std::optional<TracedValue> pooling_op(Tracer& tracer, const Call& call) {
  const std::string& op = call.op;
  if (!is_reduction(op)) return std::nullopt;
  const TracedValue input = values_of(call).at(0);
  const Shape shape = shape_of(input);
  refuse_op_if(!call.has("dim"),
               "all tokens and columns are reduced to one number; expected one row for each "
               "sequence, as x.mean(1), and other reductions in your program");
  const std::vector<int64_t> dims = call.integers("dim");
  if (dims.size() > 1 && is_one_of(op, {"mean", "sum", "amax"})) {
    return reduced_in_turn(tracer, call, input);
  }
  const bool is_length = is_one_of(op, {"linalg_vector_norm", "norm"}) && is_euclidean(call);
  if (is_length && dims.size() > 1) return length_of(tracer, call, input);
  refuse_op_if(dims.size() != 1,
               "cannot reduce several dimensions at once; reduce only the token dimension, as "
               "x.mean(1), and the others in separate ops");
  GraphBuilder& builder = tracer.builder;
  const size_t axis = call.dimension(dims[0], shape.size());
  const LinearExprRef elements = elements_to_pool(tracer, input, axis);
  const bool is_last = axis + 1 == shape.size();
  const bool is_sum = op == "mean" || op == "sum";
  // A product with small matrices, such as a rotation, sums elements of a row.
  const bool is_part = is_sum && elements && elements->has_own_factors() &&
                       elements->terms.size() == 1 && shape[axis] <= kMatrixRowMax;
  if (is_last && !is_part && (!elements || !is_along_tokens(builder, *elements, axis))) {
    return std::nullopt;
  }
  LinearExprRef result;
  const auto extent = static_cast<double>(shape[axis]);
  const bool is_deviation = op == "var" || op == "std";
  if (op == "logsumexp") {
    const TracedValue made = log_of_sum(tracer, tracer.as_sum(input), axis);
    Shape kept = shape;
    kept[axis] = 1;
    if (!call.flag("keepdim", false)) kept.erase(kept.begin() + static_cast<ptrdiff_t>(axis));
    return with_shape(tracer.as_sum(made), kept);
  }
  if (is_length) return length_of(tracer, call, input);
  const bool is_bool = input.type == ElementType::kBool;  // 0 and 1
  const bool is_least = is_one_of(op, {"amin", "min"}) || (is_bool && op == "all");
  const bool is_most = is_one_of(op, {"amax", "max"}) || (is_bool && op == "any");
  refuse_op_if(
      !is_sum && !is_deviation && !is_least && !is_most,
      "tokens are pooled by an unsupported statistic; expected mean, sum, maximum, minimum, "
      "variance, deviation, first, last or softmax weights, so compute others before the model");
  const LinearExprRef value = tracer.as_sum(input);
  if (is_sum && shape[axis] <= kSummedMax && !is_along_tokens(builder, *value, axis)) {
    refuse_op_if(shape[axis] == 0,
                 "the sum is over an empty dimension; expected at least one element");
    for (int64_t i = 0; i < shape[axis]; ++i) {
      const LinearExprRef part = selected(value, static_cast<int64_t>(axis), i);
      result = result == nullptr ? part : sum(result, part, 1.0);
    }
    if (op == "mean") result = scaled(result, 1.0 / extent);
  } else if (is_deviation) {
    result = deviation_of_rows(tracer, call, value, axis);
  } else if (is_least) {
    result = scaled(pooled_row(builder, scaled(value, -1.0), axis, SelectKind::kMax), -1.0);
  } else if (is_sum) {
    result = scaled(mean_along(builder, value, axis), op == "sum" ? extent : 1.0);
  } else {
    result = pooled_row(builder, value, axis, SelectKind::kMax);
  }
  Shape kept = shape;
  kept[axis] = 1;
  if (!call.flag("keepdim", false)) kept.erase(kept.begin() + static_cast<ptrdiff_t>(axis));
  return with_shape(result, kept);
}

bool is_softmax(std::string_view op) {
  return is_one_of(op, {"softmax", "_softmax", "_safe_softmax", "special_softmax"});
}

bool is_log_softmax(std::string_view op) {
  return is_one_of(op, {"log_softmax", "_log_softmax", "special_log_softmax"});
}

namespace {

// Lowers a softmax over tokens: exp(x - max(x)) / sum(exp(x - max(x))).
LinearExprRef softmax_over_tokens(Tracer& tracer, const LinearExprRef& value, size_t axis) {
  GraphBuilder& builder = tracer.builder;
  if (const auto made = softmax_of_groups(builder, value, axis)) return *made;
  const LinearExprRef most = pooled_row(builder, value, axis, SelectKind::kMax);
  const LinearExprRef weights =
      unary_op(tracer, "exp", builder.materialised(sum(value, most, -1.0)));
  const LinearExprRef mean = pooled_row(builder, weights, axis, SelectKind::kMean);
  const LinearExprRef total = scaled(mean, static_cast<double>(value->shape[axis]));
  return product(builder, weights, unary_op(tracer, "reciprocal", total));
}

}  // namespace

// Lowers a softmax over columns, as in a classifier, or over all tokens for each column.
std::optional<TracedValue> softmax_of_rows(Tracer& tracer, const Call& call) {
  const bool is_log = is_log_softmax(call.op);
  if (!is_log && !is_softmax(call.op)) return std::nullopt;
  const LinearExprRef given = tracer.as_sum(values_of(call).at(0));
  const size_t dim = call.dimension("dim", -1, given->shape.size());
  const LinearExprRef value = tracer.builder.materialised(given);
  if (is_along_tokens(tracer.builder, *value, dim)) {
    refuse_op_if(is_log,
                 "log_softmax is over tokens; expected one over columns, so output the values and "
                 "compute it in your program");
    return softmax_over_tokens(tracer, value, dim);
  }
  std::vector<size_t> order(value->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::rotate(order.begin() + static_cast<ptrdiff_t>(dim),
              order.begin() + static_cast<ptrdiff_t>(dim) + 1, order.end());
  const NormKind kind = is_log ? NormKind::kLogSoftmax : NormKind::kSoftmax;
  const LinearExprRef made = normalize(tracer.builder, permuted(value, order), kind);
  return permuted(made, inverse_order(order));
}

// ---- ops that are decomposed into others ----

namespace {

// Runs the ops of a decomposition: traces them, or computes those on constants.
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
    refuse_op_if(ref == nullptr, "an argument of the op is no tensor; expected tensors");
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

// Lowers addmm with constant weights and bias to a linear layer.
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
  // An op with an evaluation rule may be kept as a Function.
  if (!is_decomposed(call.op)) return std::nullopt;
  if (op_rules().contains(call.op) && !mixes_columns(tracer, call)) return std::nullopt;
  return lower_decomposition(tracer, call);
}

std::optional<TracedValue> lower_decomposition(Tracer& tracer, const Call& call) {
  // A mask that depends on the input is refused here, so that the message calls it a mask.
  const TracedValue* mask = value_of(call, "attn_mask");
  if (mask != nullptr && !is_of_ids(tracer.builder, *mask)) {
    const LinearExprRef added = mask->is_constant() ? nullptr : tracer.as_sum(*mask);
    if (!added || (!is_of_rows(tracer.builder, *added) && !is_of_keys(tracer.builder, *added))) {
      tracer.array_of(*mask);
    }
  }
  // Materialise functions as graph values before the op is decomposed.
  const Call settled = bind<TracedRef>(call, [&](const TracedRef& ref) -> Argument {
    if (!ref->is<FunctionRef>() || is_of_ids(tracer.builder, *ref)) return ref;
    return traced({tracer.as_sum(*ref), ref->type});
  });
  TracedOps ops(tracer);
  const Argument made = decomposed(settled, ops);
  if (made.is_none()) return std::nullopt;
  return **made.as<TracedRef>();
}

}  // namespace arenite::convert
