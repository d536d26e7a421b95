// SPDX-License-Identifier: Apache-2.0
// What ops do to products of queries and keys before their softmax.
#include "convert/exported/recover/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace arenite::convert {
namespace {

constexpr const char* kZeroedScores =
    "it multiplies scores by 0, which hides nothing: a key's weight is then that of the score 0. "
    "Expected -infinity in their place, or a large negative number added to them";

Shape joined(Shape lead, int64_t rows, int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

// Whether a movement makes queries of keys, and keys of queries.
bool turns_last_two(const Movement& movement, const Shape& shape) {
  const size_t rank = shape.size();
  if (movement.sources || movement.walk.size() != rank || movement.offset != 0) return false;
  Shape strides = strides_of(shape);
  Shape walk = shape;
  std::swap(strides[rank - 1], strides[rank - 2]);
  std::swap(walk[rank - 1], walk[rank - 2]);
  if (movement.walk != walk || movement.shape != walk) return false;
  for (size_t d = 0; d < rank; ++d) {
    if (walk[d] != 1 && movement.strides[d] != strides[d]) return false;
  }
  return true;
}

ElementSumRef with_leading(const ElementSumRef& value, const Shape& lead) {
  const size_t rank = value->shape.size();
  return stretched(value, joined(lead, value->shape[rank - 2], value->shape[rank - 1]));
}

std::shared_ptr<Scores> copy(const Scores& scores) {
  if (scores.has_softmax) {
    throw NotRecognised(kAfterSoftmax);
  }
  return std::make_shared<Scores>(scores);
}

int64_t element_count(const Shape& shape) { return static_cast<int64_t>(elements_of(shape)); }

}  // namespace

ScoresRef product_scores(const ElementSumRef& query, const ElementSumRef& turned_key) {
  const size_t rank = turned_key->shape.size();
  if (query->shape.size() < 2 || rank < 2 || query->shape.back() != turned_key->shape[rank - 2]) {
    throw NotRecognised("it multiplies values that are no queries and keys");
  }
  const ElementSumRef key = permuted(turned_key, swapped_last_two(rank));
  const Shape lead = broadcast(leading(query->shape), leading(key->shape));
  Scores scores;
  scores.query = with_leading(query, lead);
  scores.key = with_leading(key, lead);
  scores.shape = joined(lead, query->shape[query->shape.size() - 2], turned_key->shape[rank - 1]);
  return std::make_shared<const Scores>(std::move(scores));
}

ScoresRef with_scale(const Scores& scores, double factor) {
  const auto result = copy(scores);
  (result->tanh_factor ? *result->tanh_factor : result->scale) *= factor;
  if (result->added) {
    Array::Reals values = result->added->to_reals();
    for (double& value : values) value = std::isinf(value) ? value : value * factor;
    result->added = Array::real(result->added->shape(), std::move(values));
  }
  return result;
}

ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max) {
  const Array::Reals values = factors.to_reals();
  if (values.empty()) throw NotRecognised("it multiplies scores by nothing");
  if (std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    return with_scale(scores, values[0]);
  }
  if (broadcast(scores.shape, factors.shape()) != scores.shape) {
    throw NotRecognised("it multiplies scores by factors of another size");
  }
  if (std::ranges::all_of(values, [](double value) { return value == 0.0 || value == 1.0; })) {
    const auto result = copy(scores);
    if (result->zeroed || result->added) throw NotRecognised("it masks scores twice");
    result->zeroed = factors;
    result->positions_max = tighter(result->positions_max, positions_max);
    return result;
  }
  const Shape& shape = factors.shape();
  const size_t rank = shape.size();
  if (rank < 2 || shape[rank - 1] != 1 || shape[rank - 2] != 1) {
    throw NotRecognised("it multiplies the scores of queries or keys by numbers of their own");
  }
  if (scores.tanh_factor || !scores.query) {
    throw NotRecognised("it multiplies the capped scores of each head by another number");
  }
  const auto result = copy(scores);
  const auto times = [&](const Array& array) {
    const Shape common = broadcast(array.shape(), shape);
    std::vector<double> products = stretched_reals(array, common);
    const std::vector<double> each = stretched_reals(factors, common);
    for (size_t i = 0; i < products.size(); ++i) {
      if (!std::isinf(products[i])) products[i] *= each[i];
    }
    return Array::real(common, std::move(products));
  };
  result->head_factors = scores.head_factors ? times(*scores.head_factors) : factors;
  if (scores.added) result->added = times(*scores.added);
  return result;
}

ScoresRef with_tanh(const Scores& scores, bool is_sigmoid) {
  const auto result = copy(scores);
  if (scores.tanh_factor) throw NotRecognised("it caps scores of attention twice");
  if (scores.added && is_sigmoid) {
    throw NotRecognised(
        "it takes the sigmoid of scores in place of their softmax over keys: not supported");
  }
  if (scores.added) {
    throw NotRecognised(
        "it caps scores after a mask or a bias was added to them: the runtime caps scores first, "
        "so mask them after torch.tanh");
  }
  result->tanh_factor = 1.0;
  if (!is_sigmoid) return result;
  // sigmoid(x) = (1 + tanh(x / 2)) / 2.
  result->scale *= 0.5;
  result->tanh_factor = 0.5;
  return with_added(*result, Array::real({}, {0.5}), 0);
}

ScoresRef with_added(const Scores& scores, const Array& added, int64_t positions_max) {
  const auto result = copy(scores);
  if (broadcast(scores.shape, added.shape()) != scores.shape) {
    throw NotRecognised("it adds a mask of another size to the scores");
  }
  result->positions_max = tighter(result->positions_max, positions_max);
  if (result->zeroed) {
    // What was 0 and has become far less than all others is hidden.
    const Shape shape = broadcast(result->zeroed->shape(), added.shape());
    const std::vector<double> seen = stretched_reals(*result->zeroed, shape);
    std::vector<double> more = stretched_reals(added, shape);
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] != 0.0) continue;
      if (!(more[i] <= kHiddenScoreMax)) throw NotRecognised(kZeroedScores);
      more[i] = -std::numeric_limits<double>::infinity();
    }
    result->zeroed.reset();
    result->added = Array::real(shape, std::move(more));
    return result;
  }
  if (!result->added) {
    result->added = Array::real(added.shape(), added.to_reals());
    return result;
  }
  const Shape shape = broadcast(result->added->shape(), added.shape());
  std::vector<double> sum = stretched_reals(*result->added, shape);
  const std::vector<double> more = stretched_reals(added, shape);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  result->added = Array::real(shape, std::move(sum));
  return result;
}

ScoresRef with_filled(const Scores& scores, const Array& mask, double value,
                      int64_t positions_max) {
  if (!(value <= kHiddenScoreMax)) {
    throw NotRecognised(
        fmt::format("it puts {} in place of masked scores: expected -infinity, or a number far "
                    "below all scores",
                    value));
  }
  Array::Reals added;
  for (const uint8_t hides : mask.to_bools()) {
    added.push_back(hides != 0 ? -std::numeric_limits<double>::infinity() : 0.0);
  }
  return with_added(scores, Array::real(mask.shape(), std::move(added)), positions_max);
}

ScoresRef with_softmax(const Scores& scores, bool is_logarithm) {
  const auto result = copy(scores);
  if (result->zeroed) throw NotRecognised(kZeroedScores);
  result->is_logarithm = is_logarithm;
  result->has_softmax = true;
  return result;
}

ScoresRef without_logarithm(const Scores& scores) {
  const auto result = std::make_shared<Scores>(scores);
  result->is_logarithm = false;
  return result;
}

ScoresRef moved_scores(const Scores& scores, const Movement& movement) {
  const auto result = std::make_shared<Scores>(scores);
  const size_t rank = scores.shape.size();
  const int64_t queries = scores.shape[rank - 2];
  const int64_t keys = scores.shape[rank - 1];
  if (turns_last_two(movement, scores.shape) && !scores.has_softmax && !scores.added &&
      !scores.zeroed && scores.query && !scores.is_exponential) {
    std::swap(result->query, result->key);
    std::swap(result->shape[rank - 1], result->shape[rank - 2]);
    return result;
  }
  const bool keeps = movement.shape.size() >= 2 && movement.shape.back() == keys &&
                     movement.shape[movement.shape.size() - 2] == queries &&
                     movement.keeps_order(elements_of(scores.shape));
  if (!keeps && scores.has_softmax) throw NotRecognised(kAfterSoftmax);
  if (!keeps) {
    throw NotRecognised(
        "it pads, cuts or moves scores of attention: not supported are a key that is added for a "
        "softmax off by one, relative positions by shifts, and scores that change places between "
        "heads");
  }
  const Shape lead = leading(movement.shape);
  const auto reshaped = [&](const ElementSumRef& value) {
    const size_t last = value->shape.size() - 1;
    return with_shape(value, joined(lead, value->shape[last - 1], value->shape[last]));
  };
  result->shape = movement.shape;
  if (result->query) result->query = reshaped(result->query);
  if (result->key) result->key = reshaped(result->key);
  if (result->head_factors) {
    Array::Reals factors =
        stretched_reals(*result->head_factors, joined(leading(scores.shape), 1, 1));
    result->head_factors = Array::real(joined(lead, 1, 1), std::move(factors));
  }
  if (result->added && element_count(result->added->shape()) != queries * keys) {
    result->added = Array::real(movement.shape, stretched_reals(*result->added, scores.shape));
  } else if (result->added) {
    result->added = result->added->with_shape({queries, keys});
  }
  return result;
}

}  // namespace arenite::convert
