// SPDX-License-Identifier: Apache-2.0
// Lowers ops on attention scores: masks, factors, and a softmax or its decomposition. Scores with
// permuted dimensions are unpermuted for an op, and permuted again after it.
//
//   scores / 8 + mask                            ->  Scores with scale 1/8 and `added`
//   exp(s - s.amax(-1)) / sum                    ->  Scores with a softmax
//   einsum("bqhd,bkhd->bqhk", q, k).softmax(-1)  ->  softmax over keys, still of dimensions "bqhk"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/recover/query_terms.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/scores.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {

namespace {

// Ops that may be applied to permuted scores.
constexpr std::string_view kOps[] = {"add", "sub",         "mul",   "div",     "neg",
                                     "to",  "masked_fill", "where", "softmax", "_softmax"};

// Permutes a constant of the permuted scores to [.., queries, keys].
ConstantRef in_order(const ConstantRef& constant, const std::vector<size_t>& order) {
  if (constant->shape().empty()) return constant;
  const Shape shape = constant->shape(), strides = strides_of(shape);
  Movement movement{.shape = Shape(order.size(), 1)};
  movement.strides.assign(order.size(), 0);
  const size_t missing = order.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    movement.shape[order[missing + d]] = shape[d];
    movement.strides[order[missing + d]] = strides[d];
  }
  movement.walk = movement.shape;
  return moved(movement, constant);
}

}  // namespace

std::optional<TracedValue> ordered_score_op(Tracer& tracer, const Call& call) {
  std::vector<size_t> order;
  for (const TracedValue& input : values_of(call)) {
    if (const ScoresRef& scores = input.as<ScoresRef>(); scores && order.empty()) {
      order = scores->order;
    }
  }
  // An einsum is decomposed first.
  if (order.empty() || call.op == "einsum") return std::nullopt;
  refuse_op_if(std::ranges::find(kOps, call.op) == std::end(kOps), kMovesScores);
  Call turned = bind<TracedRef>(call, [&](const TracedRef& ref) -> Argument {
    const ScoresRef& scores = ref->as<ScoresRef>();
    const ConstantRef& constant = ref->as<ConstantRef>();
    refuse_op_if(
        scores ? scores->order != order : !constant || constant->shape().size() > order.size(),
        kMovesScores);
    if (scores) return traced({in_order(*scores), ref->type});
    return traced({in_order(constant, order), ref->type});
  });
  for (NamedArgument& argument : turned.arguments) {
    if (argument.name == "dim") {
      argument.value = static_cast<int64_t>(order[call.dimension("dim", -1, order.size())]);
    }
  }
  const TracedValue made = tracer.trace(turned).at(0);
  const ScoresRef& scores = made.as<ScoresRef>();
  refuse_op_if(!scores, kMovesScores);
  return with_order(*scores, order);
}

namespace {

double read_fill_value(const std::optional<Array>& array) {
  const Array::Reals values = array ? array->to_reals() : Array::Reals{0.0};
  refuse_op_if(values.empty() ||
                   std::ranges::any_of(values, [&](double value) { return value != values[0]; }),
               "scores are filled with different numbers; expected one number");
  return values[0];
}

// Whether each query sees a key, so that the softmax gives no NaN.
bool sees_something(const Scores& scores) {
  if (!scores.added || scores.sinks) return true;
  const Array::Reals added = stretched_reals(*scores.added, scores.shape);
  const auto keys = static_cast<ptrdiff_t>(scores.shape.back());
  for (auto row = added.begin(); row != added.end(); row += keys) {
    if (std::all_of(row, row + keys, [](double value) { return std::isinf(value); })) return false;
  }
  return true;
}

}  // namespace

namespace {

using RowKind = ScoreRow::Kind;

ScoreRowRef score_row(RowKind kind, const ScoresRef& of, std::optional<Array> sinks = {},
                      ScoreRowRef shift = {}) {
  return std::make_shared<const ScoreRow>(ScoreRow{of, kind, std::move(sinks), std::move(shift)});
}

// Returns a constant argument as sinks. Throws NotRecognised unless it has one element per head.
std::optional<Array> sinks_of(const Call& call, const char* name) {
  const auto constant = constant_argument(call, name);
  return constant ? std::optional(require_equal_queries(*constant)) : std::nullopt;
}

// Adds exponentials of sinks to the sum of exponentials. Throws NotRecognised unless the same shift
// was subtracted from both.
ScoreRowRef sum_with_sinks(const ScoreRow& sum, const ScoreRow& sinks) {
  const bool are_of_one =
      sinks.kind == RowKind::kSinkExponentials && sum.of->shift && sum.of->shift == sinks.shift;
  refuse_op_if(sum.sinks || !are_of_one,
               "another addend than exp(sink - m) is added to the sum of exp(scores - m); expected "
               "that addend only, once");
  return score_row(RowKind::kSum, sum.of, sinks.sinks);
}

// Matches ops on the row values of a decomposed softmax with a sink: exp(sink - m) is added to the
// sum of exp(scores - m).
std::optional<TracedValue> op_on_rows(const Call& call) {
  const auto self = value_as<ScoreRowRef>(call, "self");
  const auto other = value_as<ScoreRowRef>(call, "other");
  const ScoreRowRef& row = self ? self : other;
  if (!row || row->is_flat) return std::nullopt;
  const std::string& op = call.op;
  const bool is_difference = is_one_of(op, {"sub", "rsub"}) && call.real("alpha", 1.0) == 1.0;
  if (row->kind == RowKind::kLargest) {
    const bool clamps = is_one_of(op, {"clamp", "clamp_min", "maximum", "relu"}) && self;
    // A clamp does not matter: a shift by any number cancels in a softmax.
    if (clamps && !other) return score_row(RowKind::kLargest, row->of);
    if (op == "neg") return score_row(RowKind::kSinks, row->of, Array::real({}, {0.0}), row);
    const bool is_subtracted = is_difference && (op == "sub") == (other != nullptr);
    const auto sinks = sinks_of(call, self ? "other" : "self");
    if (is_subtracted && sinks) return score_row(RowKind::kSinks, row->of, sinks, row);
  }
  if (row->kind == RowKind::kSinks && op == "exp") {
    return score_row(RowKind::kSinkExponentials, row->of, row->sinks, row->shift);
  }
  if (op != "add" || call.real("alpha", 1.0) != 1.0) return std::nullopt;
  if (self && other) {
    return self->kind == RowKind::kSum ? sum_with_sinks(*self, *other)
                                       : sum_with_sinks(*other, *self);
  }
  const auto constant = sinks_of(call, self ? "other" : "self");
  if (row->kind != RowKind::kSum || !constant) return std::nullopt;
  refuse_op_if(row->of->shift || row->sinks,
               "a constant is added to the sum of exp(scores - m), where m differs between "
               "queries; expected exp(-m), as in softmax plus one");
  const auto logarithm = [](double value) { return std::log(value); };
  return score_row(RowKind::kSum, row->of, each_of(*constant, logarithm));
}

}  // namespace

// Matches a decomposed softmax, exp(x - m) / sum(exp(x - m)), where m is the largest score or 0.
// The sum may include exponentials of sinks.
std::optional<TracedValue> match_decomposed_softmax(Tracer&, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const std::string& op = call.op;
  if (inputs.empty()) return std::nullopt;
  const ScoresRef& scores = inputs[0].as<ScoresRef>();
  if (!scores) return op_on_rows(call);
  if (scores->has_softmax) return std::nullopt;
  if (inputs.size() > 1 && inputs[1].is<ScoreRowRef>()) {
    const ScoreRowRef& row = inputs[1].as<ScoreRowRef>();
    if (row->of != scores || row->is_flat) return std::nullopt;
    const bool is_less = op == "sub" && call.real("alpha", 1.0) == 1.0;
    if (is_less && row->kind == RowKind::kLogSum) return with_softmax(*scores, true);
    if (is_less && row->kind == RowKind::kLargest) {
      // A shift that all scores of a query share cancels in a softmax.
      auto shifted = std::make_shared<Scores>(*scores);
      shifted->shift = scores->shift ? std::make_shared<const ScoreRow>() : row;
      return ScoresRef(std::move(shifted));
    }
    if (op != "div" || row->kind != RowKind::kSum) return std::nullopt;
    Scores divided = *scores;
    divided.is_exponential = false;
    refuse_op_if(divided.sinks && row->sinks, "scores have several sinks; expected one per head");
    if (row->sinks) divided.sinks = row->sinks;
    return with_softmax(divided);
  }
  if (is_one_of(op, {"max", "amax", "sum", "logsumexp"}) && call.has("dim")) {
    const std::vector<int64_t> dims = call.integers("dim");
    const size_t rank = scores->shape.size();
    const bool is_of_keys = dims.size() == 1 && call.dimension(dims[0], rank) + 1 == rank;
    if (!is_of_keys || (op == "sum") != scores->is_exponential) return std::nullopt;
    auto row = *score_row(op == "sum"         ? RowKind::kSum
                          : op == "logsumexp" ? RowKind::kLogSum
                                              : RowKind::kLargest,
                          scores);
    row.is_flat = !call.flag("keepdim", false);
    return std::make_shared<const ScoreRow>(std::move(row));
  }
  if (op != "exp" || scores->is_exponential) return std::nullopt;
  auto exponentials = std::make_shared<Scores>(*scores);
  exponentials->is_exponential = true;
  return ScoresRef(std::move(exponentials));
}

namespace {

ScoresRef op_on_weights(const ScoresRef& scores, const Call& call) {
  if (call.op == "nan_to_num" && sees_something(*scores)) return scores;
  const auto self = value_as<ScoresRef>(call, "self"), other = value_as<ScoresRef>(call, "other");
  if (self && other && is_one_of(call.op, {"add", "sub", "rsub"})) {
    const SumFactors factors = sum_factors(call);
    const ScoresRef first =
        factors.self == 1.0 ? self : weights_times(*self, Array::real({}, {factors.self}));
    return sum_of_weights(*first, *other, factors.other);
  }
  if (call.op == "neg") return weights_times(*scores, Array::real({}, {-1.0}));
  const auto factor = constant_argument(call, self ? "other" : "self");
  if (factor && !scores->is_logarithm && (call.op == "mul" || (call.op == "div" && self))) {
    return weights_times(*scores, call.op == "mul" ? *factor : inverse(*factor));
  }
  refuse_op_if(call.op != "exp" || !scores->is_logarithm, kAfterSoftmax);
  auto weights = std::make_shared<Scores>(*scores);
  weights->is_logarithm = false;
  return weights;
}

// Returns the mask of elements that an index_put assigns to.
Array assigned(const Tracer& tracer, const ScoresRef& scores, const Call& call) {
  const size_t count = elements_of(scores->shape);
  const auto settled = [&](const TracedRef& ref) -> Argument {
    if (ref->is<ScoresRef>()) return Array::boolean(scores->shape, Array::Bools(count, 0));
    return tracer.array_of(*ref);
  };
  Call put = bind<TracedRef>(call, settled);
  for (NamedArgument& argument : put.arguments) {
    if (argument.name == "values") argument.value = Array::boolean({}, {1});
  }
  OpBudget budget;
  return apply_for_array(put, budget);
}

// Lowers masked_fill, where and index_put that fill masked scores with a constant.
ScoresRef filled(Tracer& tracer, const ScoresRef& scores, const Call& call, bool is_first) {
  const int64_t positions = positions_max_of(call);
  const TracedValue* by_ids = value_of(call, call.op == "masked_fill" ? "mask" : "condition");
  if (by_ids != nullptr && is_of_ids(tracer.builder, *by_ids)) {
    const bool hides_set = call.op == "masked_fill" || !is_first;
    const double value = read_fill_value(constant_argument(call, call.op == "masked_fill" ? "value"
                                                                 : is_first               ? "other"
                                                                            : "self"));
    return mask_by_ids(tracer, *scores, *by_ids->as<FunctionRef>(),
                       [=](double flag) { return (flag != 0.0) == hides_set ? value : 0.0; });
  }
  if (call.op == "index_put") {
    const double value = read_fill_value(constant_argument(call, "values"));
    return with_filled(*scores, assigned(tracer, scores, call), value, positions);
  }
  if (call.op == "masked_fill") {
    const Array mask = tracer.array_of(*value_of(call, "mask"));
    return with_filled(*scores, mask, read_fill_value(constant_argument(call, "value")), positions);
  }
  const auto value = constant_argument(call, is_first ? "other" : "self");
  const Array condition = tracer.array_of(*value_of(call, "condition"));
  Array::Bools hidden = condition.to_bools();
  for (uint8_t& each : hidden) each = (each != 0) != is_first;
  refuse_op_if(!value,
               "masked scores are replaced by values of the model; expected a constant in place of "
               "masked scores");
  return with_filled(*scores, Array::boolean(condition.shape(), std::move(hidden)),
                     read_fill_value(value), positions);
}

// Lowers a concatenation of scores and a constant column, which is a sink.
ScoresRef with_column(const Scores& scores, const std::vector<TracedValue>& parts,
                      const Call& call) {
  const size_t rank = scores.shape.size();
  const bool is_first = parts.size() == 2 && parts[0].is_constant();
  const auto column = parts.size() == 2 ? parts[is_first ? 0 : 1].as<ConstantRef>() : nullptr;
  refuse_op_if(!column || call.dimension("dim", 0, rank) + 1 != rank || column->shape().back() != 1,
               "scores are concatenated with other values; expected one constant per head, as "
               "torch.cat([scores, sinks], -1)");
  return with_sinks(scores, column->array(), is_first);
}

// Lowers the sum of two scores. Returns null for any other op.
ScoresRef sum_of_scores(Tracer& tracer, const ScoresRef& first, const Call& call) {
  const ScoresRef other = value_as<ScoresRef>(call, "other");
  if (!is_one_of(call.op, {"add", "sub", "rsub"}) || !other || other == first) return nullptr;
  const SumFactors factors = sum_factors(call);
  const ScoresRef own = factors.self == 1.0 ? first : with_scale(*first, factors.self);
  return plus_scores(tracer.builder, *own, *other, factors.other);
}

}  // namespace

// Lowers a softmax or a reduction along a dimension of extent 1, as in images of one line.
std::optional<TracedValue> op_on_extent_one(Tracer& tracer, const Call& call) {
  const bool is_softmax = is_one_of(call.op, {"softmax", "_softmax"});
  if (!tracer.builder.fixes_rows ||
      (!is_softmax && !is_one_of(call.op, {"sum", "mean", "amax", "max"})) || !call.has("dim")) {
    return std::nullopt;
  }
  const TracedValue input = values_of(call).at(0);
  Shape shape = shape_of(input);
  const std::vector<int64_t> dims = call.integers("dim");
  const auto is_one = [&](int64_t dim) { return shape[call.dimension(dim, shape.size())] == 1; };
  if (shape.empty() || dims.size() != 1 || !is_one(dims[0]) || input.is<ScoresRef>()) return {};
  if (is_softmax) {
    const Array ones = Array::real(shape, Array::Reals(elements_of(shape), 1.0));
    return ConstantRef(std::make_shared<const Constant>(kNoValue, ones));
  }
  const LinearExprRef value = tracer.as_sum(input);
  const auto dim = static_cast<ptrdiff_t>(call.dimension(dims[0], shape.size()));
  if (!call.flag("keepdim", false)) shape.erase(shape.begin() + dim);
  return with_shape(value, shape);
}

std::optional<TracedValue> score_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const auto found = std::ranges::find_if(inputs, &TracedValue::is<ScoresRef>);
  if (found == inputs.end()) return std::nullopt;
  const ScoresRef& scores = found->as<ScoresRef>();
  const std::string& op = call.op;
  refuse_op_if(scores->is_exponential,
               "exponentials of scores are used outside a softmax; expected scores.softmax(-1)");
  if (scores->has_softmax) return op_on_weights(scores, call);
  if (concatenates(op)) return with_column(*scores, inputs, call);
  const bool is_first = value_as<ScoresRef>(call, "self") != nullptr;
  const auto constant = constant_argument(call, is_first ? "other" : "self");
  const int64_t positions = positions_max_of(call);
  if ((op == "mul" || (op == "div" && is_first)) && constant) {
    return with_factors(*scores, op == "mul" ? *constant : inverse(*constant), positions);
  }
  if (op == "neg") return with_scale(*scores, -1.0);
  // nan_to_num replaces -infinity by a large negative number, which hides keys too.
  if (op == "nan_to_num" && !call.has("neginf")) return scores;
  const TracedValue* factor = value_of(call, is_first ? "other" : "self");
  if (op == "mul" && factor != nullptr && !factor->is<ScoresRef>() && !factor->is_constant()) {
    if (auto times = times_value(tracer.builder, *scores, tracer.as_sum(*factor))) return times;
  }
  if (is_one_of(op, {"add", "sub", "rsub"}) && constant) {
    const SumFactors factors = sum_factors(call);
    const double own = is_first ? factors.self : factors.other;
    const double factor = is_first ? factors.other : factors.self;
    const ScoresRef times = own == 1.0 ? scores : with_scale(*scores, own);
    if (factor == 1.0) return with_added(*times, *constant, positions);
    const auto scale = [&](double value) { return value * factor; };
    return with_added(*times, each_of(*constant, scale), positions);
  }
  if (const auto plus = sum_of_scores(tracer, scores, call)) return plus;
  const bool is_added = factor != nullptr && (op == "add" || (op == "sub" && is_first)) &&
                        call.real("alpha", 1.0) == 1.0;
  if (is_added && is_of_ids(tracer.builder, *factor)) {
    const double sign = op == "add" ? 1.0 : -1.0;
    return mask_by_ids(tracer, *scores, *factor->as<FunctionRef>(),
                       [=](double number) { return sign * number; });
  }
  if (is_added && !factor->is<ScoresRef>() && !factor->is_constant()) {
    const LinearExprRef more = scaled(tracer.as_sum(*factor), op == "add" ? 1.0 : -1.0);
    if (auto plus = plus_value(tracer.builder, *scores, more)) return plus;
    if (auto with = with_query_terms(tracer.builder, *scores, more)) return with;
  }
  if (op == "tanh" || op == "sigmoid") return with_tanh(*scores, op == "sigmoid");
  const bool is_put =
      op == "index_put" && is_first && !call.flag("accumulate", false) && call.has("values");
  if (is_put || (op == "masked_fill" && value_of(call, "mask") != nullptr) ||
      (op == "where" && value_of(call, "condition") != nullptr)) {
    return filled(tracer, scores, call, is_first);
  }
  if (is_softmax(op) || is_log_softmax(op)) {
    const size_t rank = scores->shape.size();
    refuse_op_if(call.dimension("dim", -1, rank) + 1 != rank,
                 "the softmax of scores is not over keys; expected one over their last dimension");
    const bool is_safe = op == "_safe_softmax";
    if (scores->may_see_nothing && !is_safe) tracer.builder.may_see_nothing = true;
    if (!is_safe || !scores->may_see_nothing || scores->sinks) {
      return with_softmax(*scores, is_log_softmax(op));
    }
    // If all keys are hidden, a sink far below all scores gets the weight.
    Scores safe = *scores;
    safe.sinks = Array::real({}, {0.9 * kHiddenScoreMax});
    return with_softmax(safe);
  }
  if (is_one_of(op, {"max", "maximum", "clamp", "clamp_min"}) && !call.has("max")) {
    // A clamp to such a low number changes hidden scores only.
    const auto least = constant_argument(call, call.has("min") ? "min" : "other");
    const auto is_low = [](double value) { return value <= kHiddenScoreMax; };
    if (least && std::ranges::all_of(least->to_reals(), is_low)) return scores;
  }
  throw NotRecognised(
      "the op is not supported on attention scores; supported are scales, caps by tanh, constants, "
      "relative positions, masks, and a softmax over keys");
}

}  // namespace arenite::convert
