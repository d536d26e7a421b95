// SPDX-License-Identifier: Apache-2.0
// Ops on scores of attention: masks, factors and softmax.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/constant_arguments.h"
#include "convert/exported/reducer.h"

namespace arenite::convert {
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
std::optional<Reduced> Reducer::softmax_of_rows(const Operation& operation) {
  const std::string& op = operation.call.op;
  const bool is_log = is_one_of(op, {"log_softmax", "_log_softmax", "special_log_softmax"});
  if (!is_log && !is_one_of(op, {"softmax", "_softmax", "special_softmax"})) return std::nullopt;
  const AffineRef value = as_affine(operation.inputs.at(0));
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
std::optional<Reduced> Reducer::written_softmax(const Operation& operation) {
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

std::optional<Reduced> Reducer::score_op(const Operation& operation) {
  const ScoresRef* scores = nullptr;
  for (const Reduced& input : operation.inputs) {
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
