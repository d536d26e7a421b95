// SPDX-License-Identifier: Apache-2.0
// Implements ops on attention scores, and on attention weights.
#include "convert/exported/recover/scores.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/query_terms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace arenite::convert {

Shape matrices_shape(Shape lead, int64_t rows, int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

LinearExprRef with_leading(const LinearExprRef& value, const Shape& lead) {
  const size_t rank = value->shape.size();
  return stretched(value, matrices_shape(lead, value->shape[rank - 2], value->shape[rank - 1]));
}

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

constexpr size_t kSoftmaxesMax = 16;  // in one sum of weights

constexpr const char* kSinkChanged =
    "scores with a sink get a second one, or an op on the sink; expected one sink, changed only by "
    "a factor or a sum";

constexpr const char* kZeroedScores =
    "masked scores are multiplied by 0, which hides no key; expected -infinity in their place, or "
    "a large negative number added to them";

// Returns function(a, b) elementwise, with broadcast.
template <typename Function>
Array combined(const Array& a, const Array& b, const Function& function) {
  Shape shape = broadcast(a.shape(), b.shape());
  std::vector<double> values = stretched_reals(a, shape);
  const std::vector<double> others = stretched_reals(b, shape);
  for (size_t i = 0; i < values.size(); ++i) values[i] = function(values[i], others[i]);
  return Array::real(std::move(shape), std::move(values));
}

// Returns a copy of scores for a change. A recorded shift becomes invalid.
std::shared_ptr<Scores> copy(const Scores& scores) {
  refuse_op_if(scores.has_softmax, kAfterSoftmax);
  auto result = std::make_shared<Scores>(scores);
  if (result->shift) result->shift = std::make_shared<const ScoreRow>();
  return result;
}

// Slices rows begin .. begin + rows - 1 of [..., rows, columns].
LinearExprRef slice_rows(const LinearExprRef& value, int64_t begin, int64_t rows) {
  const size_t rank = value->shape.size();
  const int64_t all = value->shape[rank - 2], columns = value->shape[rank - 1];
  Movement movement{.shape = matrices_shape(leading(value->shape), rows, columns)};
  std::vector<int64_t>& sources = movement.sources.emplace();
  const auto matrices = static_cast<int64_t>(elements_of(leading(value->shape)));
  for (int64_t m = 0; m < matrices; ++m) {
    for (int64_t i = 0; i < rows * columns; ++i) {
      sources.push_back((m * all + begin) * columns + i);
    }
  }
  return moved(movement, value);
}

// Whether row `row` of [..., rows, columns] is a zero row.
bool is_zero_row(const GraphBuilder& builder, const LinearExpr& value, int64_t row) {
  const size_t rank = value.shape.size();
  const auto rows = static_cast<size_t>(value.shape[rank - 2]);
  const auto columns = static_cast<size_t>(value.shape[rank - 1]);
  std::map<const Constant*, Array::Reals> tables;
  for (const Term& term : value.terms) {
    for (size_t begin = static_cast<size_t>(row) * columns; begin < value.elements();
         begin += rows * columns) {
      for (size_t i = begin; i < begin + columns; ++i) {
        const int64_t number = term.places.at(i);
        if (number == kNoElement || term.factors.at(i) == 0.0) continue;
        const Producer& from = builder.producer(number);
        if (from.kind != Producer::Kind::kTable || from.table->is_large()) return false;
        const auto [known, is_new] = tables.try_emplace(from.table.get());
        if (is_new) known->second = from.table->array().to_reals();
        if (known->second[static_cast<size_t>(index_of(number))] != 0.0) return false;
      }
    }
  }
  return true;
}

// Splits an addend of scores with a sink into the addends of the keys and of the sink.
std::pair<Array, Array> split_sink(const Array& added, int64_t sink) {
  const int64_t columns = added.shape().empty() ? 1 : added.shape().back();
  if (columns == 1) return {added, added};
  const Array::Reals all = added.to_reals();
  Array::Reals keys, sinks;
  for (size_t i = 0; i < all.size(); ++i) {
    (static_cast<int64_t>(i) % columns == sink ? sinks : keys).push_back(all[i]);
  }
  Shape shape = added.shape(), column = added.shape();
  shape.back() = columns - 1;
  column.back() = 1;
  return {Array::real(shape, std::move(keys)), Array::real(column, std::move(sinks))};
}

}  // namespace

Array require_equal_queries(const Array& column) {
  Shape shape = column.shape();
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  const auto queries = static_cast<size_t>(shape[shape.size() - 2]);
  const Array::Reals all = column.to_reals();
  Array::Reals each;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % queries == 0) each.push_back(all[i]);
    refuse_op_if(all[i] != each.back(),
                 "the score of a sink differs between queries; expected one per head");
  }
  return Array::real(matrices_shape(leading(shape), 1, 1), std::move(each));
}

ScoresRef product_scores(const GraphBuilder& builder, const LinearExprRef& query,
                         const LinearExprRef& transposed_key) {
  const size_t rank = transposed_key->shape.size();
  refuse_op_if(
      query->shape.size() < 2 || rank < 2 || query->shape.back() != transposed_key->shape[rank - 2],
      "the operands of the product do not fit; expected queries [.., queries, dim] and keys [.., "
      "dim, keys]");
  const LinearExprRef key = transposed(transposed_key);
  const Shape lead = broadcast(leading(query->shape), leading(key->shape));
  const int64_t keys = transposed_key->shape[rank - 1];
  Scores scores{.shape = matrices_shape(lead, query->shape[query->shape.size() - 2], keys),
                .query = with_leading(query, lead),
                .key = with_leading(key, lead)};
  for (const int64_t row : {keys - 1, int64_t{0}}) {
    if (keys < 2 || scores.sink || !is_zero_row(builder, *scores.key, row)) continue;
    scores.sink = row;
    scores.sinks = Array::real({}, {0.0});
    scores.key = slice_rows(scores.key, row == 0 ? 1 : 0, keys - 1);
  }
  return std::make_shared<const Scores>(std::move(scores));
}

ScoresRef with_scale(const Scores& scores, double factor) {
  const auto result = copy(scores);
  (result->tanh_factor ? *result->tanh_factor : result->scale) *= factor;
  if (result->query_terms) result->query_terms = scaled(result->query_terms, factor);
  if (result->added) {
    Array::Reals values = result->added->to_reals();
    for (double& value : values) value = std::isinf(value) ? value : value * factor;
    result->added = Array::real(result->added->shape(), std::move(values));
  }
  if (result->sinks) {
    result->sinks = combined(*result->sinks, Array::real({}, {factor}), std::multiplies<>());
  }
  return result;
}

ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max) {
  const Array::Reals values = factors.to_reals();
  refuse_op_if(values.empty(),
               "the factor that multiplies scores is empty; expected at least one element");
  if (std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    return with_scale(scores, values[0]);
  }
  refuse_op_if(
      broadcast(scores.shape, factors.shape()) != scores.shape,
      "the factors do not broadcast to the scores [.., queries, keys]; expected a shape that does");
  const auto result = copy(scores);
  if (std::ranges::all_of(values, [](double value) { return value == 0.0 || value == 1.0; })) {
    refuse_op_if(result->zeroed || result->added,
                 "masked scores are multiplied by a 0/1 mask; combine both masks before");
    refuse_op_if(result->sink.has_value(), kSinkChanged);
    result->zeroed = factors;
    result->positions_max = tighter(result->positions_max, positions_max);
    return result;
  }
  const size_t rank = factors.rank();
  const bool is_of_heads =
      rank >= 2 && factors.shape()[rank - 1] == 1 && factors.shape()[rank - 2] == 1;
  if (!is_of_heads) {
    refuse_op_if(scores.sink.has_value(), kSinkChanged);
    // Factors may be those of queries, [..., queries, 1], or of keys, [..., 1, keys].
    const bool is_of_queries = rank >= 2 && factors.shape()[rank - 1] == 1;
    const bool is_of_keys = !is_of_queries && (rank == 1 || factors.shape()[rank - 2] == 1);
    refuse_op_if((!is_of_queries && !is_of_keys) || scores.tanh_factor || scores.added ||
                     scores.query_terms || !scores.query,
                 "each score is multiplied by its own factor, or scores by factors of queries or "
                 "keys after an addition; scale queries or keys before their product");
    LinearExprRef& part = is_of_queries ? result->query : result->key;
    Shape shape = factors.shape();
    if (is_of_keys && rank > 1) shape[rank - 2] = shape[rank - 1];
    if (is_of_keys && rank > 1) shape[rank - 1] = 1;
    if (is_of_keys && rank == 1) shape.push_back(1);
    part = scaled(part, factors.with_shape(shape));
    result->positions_max = tighter(result->positions_max, positions_max);
    return result;
  }
  refuse_op_if(
      scores.tanh_factor || !scores.query,
      "capped scores are multiplied by a factor for each head; scale them before torch.tanh");
  const auto times = [&](const Array& array) {
    return combined(array, factors, [](double a, double b) { return std::isinf(a) ? a : a * b; });
  };
  result->head_factors = scores.head_factors ? times(*scores.head_factors) : factors;
  if (scores.added) result->added = times(*scores.added);
  if (scores.query_terms) result->query_terms = scaled(scores.query_terms, factors);
  if (scores.sinks) result->sinks = times(*scores.sinks);
  return result;
}

ScoresRef with_tanh(const Scores& scores, bool is_sigmoid) {
  const auto result = copy(scores);
  refuse_op_if(scores.tanh_factor.has_value(), "scores are capped twice; expected one torch.tanh");
  refuse_op_if(scores.sink.has_value(), kSinkChanged);
  refuse_op_if(scores.added && is_sigmoid,
               "scores with a mask or a bias have a sigmoid; expected a softmax over keys");
  refuse_op_if(scores.added || scores.query_terms,
               "scores are capped after a mask or a bias was added; the runtime caps scores first, "
               "so mask them after torch.tanh");
  result->tanh_factor = 1.0;
  if (!is_sigmoid) return result;
  // sigmoid(x) = (1 + tanh(x / 2)) / 2.
  result->scale *= 0.5;
  result->tanh_factor = 0.5;
  return with_added(*result, Array::real({}, {0.5}), 0);
}

ScoresRef with_added(const Scores& scores, const Array& all_added, int64_t positions_max) {
  const auto result = copy(scores);
  refuse_op_if(
      broadcast(scores.shape, all_added.shape()) != scores.shape,
      "the mask does not broadcast to the scores [.., queries, keys]; expected a shape that does");
  Array added = all_added;
  if (scores.sink) {
    auto [to_keys, to_sinks] = split_sink(all_added, *scores.sink);
    added = std::move(to_keys);
    result->sinks = combined(*scores.sinks, require_equal_queries(to_sinks), std::plus<>());
  }
  result->positions_max = tighter(result->positions_max, positions_max);
  if (result->zeroed) {
    // A key is hidden if its score was multiplied by 0, and then gets a large negative addend.
    result->added = combined(*result->zeroed, added, [](double seen, double more) {
      refuse_op_if(seen == 0.0 && !(more <= kHiddenScoreMax), kZeroedScores);
      return seen == 0.0 ? kHidden : more;
    });
    result->zeroed.reset();
  } else if (result->added) {
    result->added = combined(*result->added, added, std::plus<>());
  } else {
    result->added = Array::real(added.shape(), added.to_reals());
  }
  return result;
}

ScoresRef with_filled(const Scores& scores, const Array& mask, double value,
                      int64_t positions_max) {
  refuse_op_if(
      !(value <= kHiddenScoreMax),
      "masked scores are filled with {}; expected -infinity, or a number far below all scores",
      value);
  Array::Reals added;
  for (const uint8_t hides : mask.to_bools()) added.push_back(hides != 0 ? kHidden : 0.0);
  return with_added(scores, Array::real(mask.shape(), std::move(added)), positions_max);
}

ScoresRef weights_times(const Scores& weights, const Array& factors) {
  const size_t rank = factors.rank();
  const bool is_one = factors.elements() == 1;
  const bool is_of_heads = rank >= 2 && factors.shape()[rank - 1] == 1 &&
                           factors.shape()[rank - 2] == 1 &&
                           broadcast(weights.shape, factors.shape()) == weights.shape;
  refuse_op_if(weights.is_logarithm || (!is_one && !is_of_heads), kAfterSoftmax);
  const Array times = is_one ? factors.with_shape({}) : factors;
  auto result = std::make_shared<Scores>(weights);
  result->weight = weights.weight ? combined(*weights.weight, times, std::multiplies<>())
                                  : Array::real(times.shape(), times.to_reals());
  for (ScoresRef& other : result->also) other = weights_times(*other, factors);
  return result;
}

ScoresRef sum_of_weights(const Scores& a, const Scores& b, double factor_b) {
  refuse_op_if(
      !a.has_softmax || !b.has_softmax || a.is_logarithm || b.is_logarithm || a.shape != b.shape,
      kAfterSoftmax);
  auto other = std::make_shared<Scores>(b);
  if (factor_b != 1.0)
    other = std::make_shared<Scores>(*weights_times(b, Array::real({}, {factor_b})));
  auto result = std::make_shared<Scores>(a);
  // `also` stays a flat list, so that nested sums compute each softmax once.
  const std::vector<ScoresRef> more = std::exchange(other->also, {});
  result->also.push_back(std::move(other));
  result->also.insert(result->also.end(), more.begin(), more.end());
  refuse_op_if(result->also.size() >= kSoftmaxesMax,
               "the weights of more than {} softmaxes are added; expected fewer", kSoftmaxesMax);
  return result;
}

ScoresRef times_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value) {
  const auto result = copy(scores);
  const size_t rank = value->shape.size();
  if (rank < 2 || !scores.query || scores.tanh_factor || scores.added || scores.zeroed ||
      scores.query_terms || scores.sinks || broadcast(scores.shape, value->shape) != scores.shape) {
    return nullptr;
  }
  const bool is_of_queries = value->shape[rank - 1] == 1;
  if (!is_of_queries && value->shape[rank - 2] != 1) return nullptr;
  LinearExprRef& part = is_of_queries ? result->query : result->key;
  part = product(builder, part, is_of_queries ? value : transposed(value));
  return result;
}

namespace {

// A bias [.., queries, keys] that is the same for all queries, except where a large negative
// constant hides a key.
struct TermsOfKeys {
  LinearExprRef value;  // [.., 1, keys]
  std::optional<Array> hidden;
};
std::optional<TermsOfKeys> terms_of_keys(const GraphBuilder& builder, const LinearExpr& value) {
  const size_t rank = value.shape.size();
  if (rank < 2 || value.terms.size() != 1 || value.elements() == 0) return std::nullopt;
  const Term& term = value.terms[0];
  const auto queries = static_cast<size_t>(value.shape[rank - 2]);
  const auto keys = static_cast<size_t>(value.shape[rank - 1]);
  std::map<const Constant*, Array::Reals> tables;
  const auto is_hidden = [&](size_t i) {
    const int64_t number = term.places.at(i);
    if (number == kNoElement || builder.producer(number).kind != Producer::Kind::kTable)
      return false;
    const ConstantRef& table = builder.producer(number).table;
    const auto [known, is_new] = tables.try_emplace(table.get());
    if (is_new) known->second = table->array().to_reals();
    const double added = known->second[static_cast<size_t>(index_of(number))];
    return added * term.factors.at(i) <= kHiddenScoreMax;
  };
  std::vector<int64_t> element_ids;
  std::vector<double> factors;
  Array::Reals added(value.elements(), 0.0);
  for (size_t begin = 0; begin < value.elements(); begin += queries * keys) {
    for (size_t k = 0; k < keys; ++k) {
      std::optional<size_t> seen;
      for (size_t i = begin + k; i < begin + queries * keys; i += keys) {
        if (is_hidden(i)) {
          added[i] = kHidden;
          continue;
        }
        if (!seen) seen = i;
        if (term.places.at(i) != term.places.at(*seen)) return std::nullopt;
        if (term.factors.at(i) != term.factors.at(*seen)) return std::nullopt;
      }
      if (!seen || !builder.is_node(term.places.at(*seen))) return std::nullopt;
      element_ids.push_back(term.places.at(*seen));
      factors.push_back(term.factors.at(*seen));
    }
  }
  const Shape shape = matrices_shape(leading(value.shape), 1, static_cast<int64_t>(keys));
  TermsOfKeys terms{scaled(plain(shape, std::move(element_ids)), Array::real(shape, factors)), {}};
  const bool hides = std::ranges::any_of(added, [](double number) { return number != 0.0; });
  if (hides) terms.hidden = Array::real(value.shape, std::move(added));
  return terms;
}

}  // namespace

bool is_of_keys(const GraphBuilder& builder, const LinearExpr& value) {
  return terms_of_keys(builder, value).has_value();
}

ScoresRef plus_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& given) {
  const auto result = copy(scores);
  if (given->shape.size() < 2 || broadcast(scores.shape, given->shape) != scores.shape ||
      scores.tanh_factor || scores.zeroed || scores.sink) {
    return nullptr;
  }
  if (given->shape.back() == 1) return scores.sinks ? nullptr : result;
  if (!scores.query || scores.head_factors) return nullptr;
  if (given->shape[given->shape.size() - 2] != 1) {
    const auto terms = terms_of_keys(builder, *given);
    if (!terms) return nullptr;
    const ScoresRef plus = plus_value(builder, scores, terms->value);
    return plus && terms->hidden ? with_added(*plus, *terms->hidden, 0) : plus;
  }
  const LinearExprRef value = builder.materialised(given);
  const Shape lead = leading(scores.shape);
  const LinearExprRef each = stretched(value, matrices_shape(lead, 1, scores.shape.back()));
  const Producer from = builder.producer(each->at(0));
  refuse_op_if(from.kind != Producer::Kind::kNode || from.rows != builder.sizes.rows(),
               "a value that depends on the input is added to scores, but not one per key; "
               "expected one element for each token");
  // Queries get a column of ones. Their rows may be those of another input than the keys.
  const auto ones_beside = [&](const Producer& rows) {
    LinearSpec one;
    one.weight.name = builder.name + ".one";
    one.weight.rows = 1;
    one.weight.columns = rows.width;
    set_exact(one.weight, [width = rows.width] { return std::vector<double>(width, 0.0); });
    one.bias = {1.0 / scores.scale};
    return builder.producer_of_node(builder.graph.add_linear(one.weight.name, one, rows.node),
                                    builder.sizes.rows());
  };
  const auto with_column = [&](const LinearExprRef& part, const auto& number_at) {
    const LinearExprRef rows = builder.materialised(part);
    const auto width = static_cast<size_t>(rows->shape.back());
    std::vector<int64_t> element_ids;
    for (size_t i = 0, count = rows->elements(); i < count; ++i) {
      element_ids.push_back(rows->at(i));
      if (i % width + 1 == width) element_ids.push_back(number_at(i / width, rows->at(i)));
    }
    Shape shape = rows->shape;
    ++shape.back();
    return plain(std::move(shape), std::move(element_ids));
  };
  result->key = with_column(scores.key, [&](size_t row, int64_t) { return each->at(row); });
  const ScopedAxis on(builder, *scores.query);
  const LinearExprRef query = builder.materialised(scores.query);
  const uint32_t ones =
      ones_beside(from.row_axis == builder.row_axis() ? from : builder.producer(query->front()));
  result->query = with_column(
      query, [&](size_t, int64_t last) { return element_id(ones, builder.row_of(last)); });
  return result;
}

namespace {

// Concatenates the columns of two values.
LinearExprRef concat_columns(const LinearExprRef& a, const LinearExprRef& b) {
  Movement both{.shape = a->shape};
  both.shape.back() += b->shape.back();
  std::vector<int64_t>& sources = both.sources.emplace();
  const int64_t width = both.shape.back(), first = a->shape.back(), second = width - first;
  const auto all = static_cast<int64_t>(a->elements());
  for (int64_t i = 0, count = static_cast<int64_t>(elements_of(both.shape)); i < count; ++i) {
    const int64_t row = i / width, column = i % width;
    sources.push_back(column < first ? row * first + column : all + row * second + column - first);
  }
  const LinearExprRef parts[] = {a, b};
  return moved(both, parts);
}

}  // namespace

ScoresRef plus_scores(GraphBuilder& builder, const Scores& a, const Scores& given, double factor) {
  const auto is_plain = [](const Scores& scores) {
    return scores.query && !scores.tanh_factor && !scores.head_factors && !scores.zeroed &&
           !scores.sinks && !scores.has_softmax && !scores.is_exponential && scores.scale != 0.0;
  };
  if (!is_plain(a) || !is_plain(given) || a.shape != given.shape || factor == 0.0 ||
      (given.added && factor < 0.0)) {
    return nullptr;
  }
  const Scores b = factor == 1.0 ? given : *with_scale(given, factor);
  ScoresRef result = copy(a);
  if (b.added) result = with_added(*result, *b.added, b.positions_max);
  const auto joined = std::make_shared<Scores>(*result);
  const auto settled = [&](const LinearExprRef& value) { return builder.materialised(value); };
  joined->query = concat_columns(settled(a.query), settled(scaled(b.query, b.scale / a.scale)));
  joined->key = concat_columns(settled(a.key), settled(b.key));
  if (b.query_terms) {
    joined->query_terms = a.query_terms ? sum(a.query_terms, b.query_terms, 1.0) : b.query_terms;
  }
  joined->may_see_nothing = a.may_see_nothing || b.may_see_nothing;
  return joined;
}

ScoresRef with_sinks(const Scores& scores, const Array& sinks, bool is_first) {
  const auto result = copy(scores);
  Shape column = scores.shape;
  column.back() = 1;
  refuse_op_if(scores.sinks || scores.zeroed || broadcast(column, sinks.shape()) != column,
               kSinkChanged);
  result->sinks = require_equal_queries(sinks);
  result->sink = is_first ? 0 : scores.shape.back();
  ++result->shape.back();
  return result;
}

LinearExprRef without_sink(const GraphBuilder& builder, const Scores& weights,
                           const LinearExprRef& values) {
  if (!weights.sink || values->shape.size() < 2) return values;
  const int64_t rows = values->shape[values->shape.size() - 2];
  if (rows != weights.shape.back()) return values;
  refuse_op_if(!is_zero_row(builder, *values, *weights.sink),
               "the sink, a zero row of keys, has a nonzero value; expected a zero row of values");
  return slice_rows(values, *weights.sink == 0 ? 1 : 0, rows - 1);
}

namespace {

// Adds a row of zeros before or after the rows of nodes along the last dimension but one.
std::optional<LinearExprRef> with_row_of_zeros(GraphBuilder& builder, const LinearExprRef& rows,
                                               bool is_first) {
  const Shape shape = {1, rows->shape.back()};
  const auto zeros = std::make_shared<const Constant>(
      kNoValue, Array::real(shape, Array::Reals(elements_of(shape), 0.0)));
  const auto row = rows_of_constants(builder, zeros, rows);
  if (!row) return std::nullopt;
  std::vector<LinearExprRef> both = {rows, *row};
  if (is_first) std::swap(both[0], both[1]);
  return concat_rows(builder, both, rows->shape.size() - 2);
}

}  // namespace

Scores with_zero_key(GraphBuilder& builder, const Scores& scores, const LinearExprRef& values) {
  const size_t rank = scores.shape.size();
  const bool has_row =
      values->shape.size() == rank && values->shape[rank - 2] == scores.shape[rank - 1];
  if (!scores.sink || !scores.key || scores.added || !has_row ||
      is_zero_row(builder, *values, *scores.sink)) {
    return scores;
  }
  for (const double sink : scores.sinks->to_reals()) {
    if (sink != 0.0) return scores;
  }
  const auto key = with_row_of_zeros(builder, scores.key, *scores.sink == 0);
  if (!key) return scores;
  Scores result = scores;
  result.key = *key;
  result.sink.reset();
  result.sinks.reset();
  return result;
}

LinearExprRef with_zero_value(GraphBuilder& builder, const LinearExprRef& values) {
  if (values->shape.size() < 2) return values;
  const int64_t rows = values->shape[values->shape.size() - 2];
  for (const int64_t row : {rows - 1, int64_t{0}}) {
    if (rows < 2 || !is_zero_row(builder, *values, row)) continue;
    const LinearExprRef others = slice_rows(values, row == 0 ? 1 : 0, rows - 1);
    return with_row_of_zeros(builder, others, row == 0).value_or(values);
  }
  return values;
}

ScoresRef with_softmax(const Scores& scores, bool is_logarithm) {
  const auto result = copy(scores);
  refuse_op_if(result->zeroed.has_value(), kZeroedScores);
  result->is_logarithm = is_logarithm;
  result->has_softmax = true;
  return result;
}

namespace {

// Whether a movement swaps the last two dimensions.
bool swaps_last_two(const Movement& movement, const Shape& shape) {
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

// Maps each [queries, keys] matrix of the result to its source matrix, for a movement of whole
// matrices, such as a slice or a permutation of heads. Empty for any other movement.
std::vector<int64_t> moved_matrices(const Movement& movement, const Shape& shape) {
  const size_t rank = movement.shape.size();
  const int64_t queries = shape[shape.size() - 2], keys = shape.back(), block = queries * keys;
  if (rank < 2 || movement.shape[rank - 1] != keys || movement.shape[rank - 2] != queries)
    return {};
  std::vector<int64_t> all(elements_of(shape));
  std::iota(all.begin(), all.end(), int64_t{1});  // 0 is no element
  const std::vector<int64_t> moved = movement.apply<int64_t>(all);
  std::vector<int64_t> matrices;
  for (size_t i = 0; i < moved.size(); ++i) {
    const auto inner = static_cast<int64_t>(i) % block;
    if (inner == 0) matrices.push_back((moved[i] - 1) / block);
    if (moved[i] == 0 || moved[i] - 1 != matrices.back() * block + inner) return {};
  }
  return matrices;
}

// Returns the column that a movement pads with zeros or, with `is_cut`, slices off, if this is the
// first or the last one; else nullopt.
std::optional<int64_t> changed_column(const Movement& movement, const Shape& shape, bool is_cut) {
  Shape after = shape;
  after.back() += is_cut ? -1 : 1;
  if (movement.shape != after || after.back() < 1) return std::nullopt;
  std::vector<int64_t> all(elements_of(shape));
  std::iota(all.begin(), all.end(), int64_t{1});  // 0 is no element
  const std::vector<int64_t> moved = movement.apply<int64_t>(all);
  const int64_t before = shape.back(), width = after.back();
  for (const int64_t column : {std::max(before, width) - 1, int64_t{0}}) {
    bool fits = true;
    for (size_t i = 0; i < moved.size() && fits; ++i) {
      const int64_t row = static_cast<int64_t>(i) / width, at = static_cast<int64_t>(i) % width;
      const bool is_new = !is_cut && at == column;
      const int64_t from = is_cut ? at + (column == 0 ? 1 : 0) : at - (column == 0 ? 1 : 0);
      fits = moved[i] == (is_new ? 0 : row * before + from + 1);
    }
    if (fits) return column;
  }
  return std::nullopt;
}

// Moves fields of scores to other leading dimensions: all [queries, keys] matrices in order, or
// those in `matrices`.
class MovedParts {
 public:
  MovedParts(const Shape& before, const Shape& after, std::vector<int64_t> matrices)
      : before_(leading(before)), lead_(leading(after)), matrices_(std::move(matrices)) {}

  void move(LinearExprRef& value) const {
    if (value == nullptr) return;
    const size_t rank = value->shape.size();
    value = matrices_.empty()
                ? with_leading(value, lead_)
                : moved(of_matrices(value->shape[rank - 2], value->shape[rank - 1]), value);
  }

  // [..., rows, columns]
  void move(std::optional<Array>& array, int64_t rows, int64_t columns) const {
    if (!array) return;
    if (array->elements() == 1) {
      array = array->with_shape({});
      return;
    }
    Array::Reals all = stretched_reals(*array, matrices_shape(before_, rows, columns));
    if (!matrices_.empty()) all = of_matrices(rows, columns).apply<double>(all);
    array = Array::real(matrices_shape(lead_, rows, columns), std::move(all));
  }

 private:
  Movement of_matrices(int64_t rows, int64_t columns) const {
    Movement movement{.shape = matrices_shape(lead_, rows, columns)};
    std::vector<int64_t>& sources = movement.sources.emplace();
    for (const int64_t matrix : matrices_) {
      for (int64_t i = 0; i < rows * columns; ++i) sources.push_back(matrix * rows * columns + i);
    }
    return movement;
  }

  Shape before_, lead_;
  std::vector<int64_t> matrices_;  // empty: all in order
};

}  // namespace

ScoresRef in_order(const Scores& scores) {
  auto result = std::make_shared<Scores>(scores);
  for (size_t d = 0; d < scores.order.size(); ++d) {
    result->shape[scores.order[d]] = scores.shape[d];
  }
  result->order.clear();
  return result;
}

ScoresRef with_order(const Scores& scores, const std::vector<size_t>& order) {
  auto result = std::make_shared<Scores>(*in_order(scores));
  if (std::ranges::is_sorted(order)) return result;
  const Shape shape = result->shape;
  for (size_t d = 0; d < order.size(); ++d) result->shape[d] = shape[order[d]];
  result->order = order;
  return result;
}

namespace {

// Returns the source dimension of each dimension of the result; empty if the movement is not a
// permutation.
std::vector<size_t> permutation_of(const Movement& movement, const Shape& shape) {
  const size_t rank = shape.size();
  const bool is_walk = !movement.sources && movement.offset == 0 && movement.walk.size() == rank &&
                       movement.walk == movement.shape;
  if (!is_walk) return {};
  const Shape strides = strides_of(shape);
  std::vector<size_t> order(rank, rank);
  std::vector<bool> is_taken(rank, false);
  // Dimensions of extent 1 fit any stride, so they are matched last.
  for (const bool are_of_one : {false, true}) {
    for (size_t d = 0; d < rank; ++d) {
      if ((movement.walk[d] == 1) != are_of_one) continue;
      for (size_t from = 0; from < rank && order[d] == rank; ++from) {
        const bool fits = !is_taken[from] && shape[from] == movement.walk[d] &&
                          (are_of_one || strides[from] == movement.strides[d]);
        if (fits) order[d] = from;
      }
      if (order[d] == rank) return {};
      is_taken[order[d]] = true;
    }
  }
  return order;
}

// Permutes the dimensions of scores. Returns null if the movement is not a permutation.
ScoresRef permuted_scores(const Scores& scores, const Movement& movement) {
  if (movement.shape == scores.shape && movement.keeps_order(elements_of(scores.shape))) {
    return std::make_shared<const Scores>(scores);
  }
  std::vector<size_t> order = permutation_of(movement, scores.shape);
  if (order.empty()) return nullptr;
  for (size_t& d : order) d = scores.order.empty() ? d : scores.order[d];
  return with_order(scores, order);
}

}  // namespace

ScoresRef moved_scores(const Scores& scores, const Movement& movement) {
  if (!scores.order.empty()) {
    const ScoresRef made = permuted_scores(scores, movement);
    refuse_op_if(made == nullptr, kMovesScores);
    return made;
  }
  const auto result = std::make_shared<Scores>(scores);
  const size_t rank = scores.shape.size();
  const int64_t queries = scores.shape[rank - 2];
  const int64_t keys = scores.shape[rank - 1];
  if (scores.has_softmax && scores.sink &&
      changed_column(movement, scores.shape, true) == scores.sink) {
    result->shape = movement.shape;
    result->sink.reset();
    for (ScoresRef& other : result->also) other = moved_scores(*other, movement);
    return result;
  }
  if (!scores.has_softmax && !scores.is_exponential) {
    if (const auto column = changed_column(movement, scores.shape, false)) {
      return with_sinks(scores, Array::real({}, {0.0}), *column == 0);
    }
  }
  if (swaps_last_two(movement, scores.shape) && !scores.has_softmax && !scores.added &&
      !scores.zeroed && scores.query && !scores.is_exponential && !scores.sinks &&
      !scores.query_terms) {
    std::swap(result->query, result->key);
    std::swap(result->shape[rank - 1], result->shape[rank - 2]);
    return result;
  }
  const bool keeps = movement.shape.size() >= 2 && movement.shape.back() == keys &&
                     movement.shape[movement.shape.size() - 2] == queries &&
                     movement.keeps_order(elements_of(scores.shape));
  std::vector<int64_t> matrices;
  if (!keeps) {
    matrices = moved_matrices(movement, scores.shape);
    if (matrices.empty() && !scores.zeroed && !scores.is_exponential) {
      if (ScoresRef made = permuted_scores(scores, movement)) return made;
    }
    refuse_op_if(scores.has_softmax && matrices.empty(), kAfterSoftmax);
    refuse_op_if(matrices.empty(), kMovesScores);
    refuse_op_if(scores.zeroed || scores.is_exponential, kAfterSoftmax);
  }
  const MovedParts parts(scores.shape, movement.shape, std::move(matrices));
  result->shape = movement.shape;
  parts.move(result->query);
  parts.move(result->key);
  parts.move(result->query_terms);
  parts.move(result->head_factors, 1, 1);
  parts.move(result->weight, 1, 1);
  parts.move(result->sinks, 1, 1);
  if (result->shift) result->shift = std::make_shared<const ScoreRow>();
  for (ScoresRef& other : result->also) other = moved_scores(*other, movement);
  const int64_t own_keys = keys - (scores.sink ? 1 : 0);
  if (result->added && static_cast<int64_t>(result->added->elements()) == queries * own_keys) {
    result->added = result->added->with_shape({queries, own_keys});
  } else {
    parts.move(result->added, queries, own_keys);
  }
  return result;
}

}  // namespace arenite::convert
