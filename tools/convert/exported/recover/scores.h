// SPDX-License-Identifier: Apache-2.0
// Attention scores, products of queries and keys, until they become attention nodes; and the ops
// that may be applied to them before and after the softmax.
//
//   q @ k.mT * 0.125 + mask   ->  Scores{query q, key k, scale 0.125, added mask}
//   softmax(scores, -1)       ->  Scores{.., has_softmax}
//   weights @ v               ->  attend(): one attention node
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
// The scores scale * query key^T + added or, with has_softmax, their softmax. With tanh_factor, the
// scores are tanh_factor * tanh(scale * query key^T) + added.
struct Scores {
  Shape shape;  // [..., queries, keys], with a `sink` [..., queries, keys + 1]
  // Permutation of the program's tensor: dimension d of `shape` is dimension order[d] of [...,
  // queries, keys]; empty: none. All other fields are unpermuted. Ops are applied to in_order(),
  // then with_order() restores the permutation.
  std::vector<size_t> order{};
  LinearExprRef query{};  // [..., queries, dim]; null: the weights are constants, by `added`
  LinearExprRef key{};    // [..., keys, dim]
  double scale = 1.0;
  std::optional<Array> head_factors{};  // [..., 1, 1], in addition to the scale
  std::optional<double> tanh_factor{};
  std::optional<Array> added{};  // broadcast to [..., queries, keys]; -infinity hides a key
  LinearExprRef query_terms{};   // also added: elements of rows, [..., queries, keys]
  int64_t positions_max = 0;     // limit from the constants that were added
  bool may_see_nothing = false;  // all keys of a query may be hidden by their ids
  bool has_softmax = false;
  bool is_logarithm = false;  // log_softmax
  // A 0/1 mask that multiplied the scores. The next addend must hide the zeros.
  std::optional<Array> zeroed{};
  bool is_exponential = false;  // exp(scores) of a decomposed softmax
  ScoreRowRef shift{};          // the largest score, subtracted from all scores of a query
  // The scores of a sink, which the softmax includes, [..., 1, 1]; and its column in `shape`, until
  // that is sliced off the weights.
  std::optional<Array> sinks{};
  std::optional<int64_t> sink{};
  // After the softmax: a factor [..., 1, 1] of the weights, and further weights that are added.
  // These have no `also` of their own.
  std::optional<Array> weight{};
  std::vector<std::shared_ptr<const Scores>> also{};
};

// One element for each query, [..., queries, 1], in a decomposed softmax: its largest score,
// possibly clamped; sinks minus the largest score; exponentials of that; the sum of all
// exponentials; or the logarithm of the sum.
struct ScoreRow {
  enum class Kind { kLargest, kSinks, kSinkExponentials, kSum, kLogSum };
  ScoresRef of;
  Kind kind = Kind::kLargest;
  std::optional<Array> sinks{};  // [..., 1, 1]
  ScoreRowRef shift{};           // the largest score, subtracted from the sinks
  bool is_flat = false;          // [..., queries], before an unsqueeze
};

// A score at or below this limit hides its key: the weight is 0 in double precision.
inline constexpr double kHiddenScoreMax = -1000.0;

inline constexpr const char* kMovesScores =
    "attention scores are padded, sliced or permuted; expected whole scores, as relative position "
    "shifts of scores, and scores of single keys, are not supported";
inline constexpr const char* kAfterSoftmax =
    "attention weights are changed after their softmax; supported are sums and differences of "
    "several softmaxes, each times a factor for each head";

// Returns [lead..., rows, columns].
Shape matrices_shape(Shape lead, int64_t rows, int64_t columns);
LinearExprRef with_leading(const LinearExprRef& value, const Shape& lead);

// Returns the scores query key^T for key^T [..., dim, keys]. A zero row as last or first key is a
// sink of score 0.
ScoresRef product_scores(const GraphBuilder& builder, const LinearExprRef& query,
                         const LinearExprRef& transposed_key);
ScoresRef with_scale(const Scores& scores, double factor);
// Multiplies by a factor for each head, query or key, or by a 0/1 mask whose zeros are hidden by
// the next addend.
ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max);
// Applies tanh or, with `is_sigmoid`, the sigmoid (1 + tanh(x / 2)) / 2.
ScoresRef with_tanh(const Scores& scores, bool is_sigmoid);
ScoresRef with_added(const Scores& scores, const Array& added, int64_t positions_max);
// Replaces scores by `value` where `mask` is true.
ScoresRef with_filled(const Scores& scores, const Array& mask, double value, int64_t positions_max);
// Concatenates a column of sink scores [..., queries, 1] before or after the scores.
ScoresRef with_sinks(const Scores& scores, const Array& sinks, bool is_first);
ScoresRef with_softmax(const Scores& scores, bool is_logarithm = false);
// Multiply weights by a factor for each head, or add two weights.
ScoresRef weights_times(const Scores& weights, const Array& factors);
ScoresRef sum_of_weights(const Scores& a, const Scores& b, double factor_b);
// Multiplies by a value for each query [..., queries, 1], or for each key [..., 1, keys]. Returns
// null for any other value.
ScoresRef times_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value);
// Adds a value for each key, [..., 1, keys], as a column of queries and keys. The value may also be
// [..., queries, keys] with equal rows except for constants that hide keys. A value for each query,
// [..., queries, 1], changes no weight. Returns null for any other value.
bool is_of_keys(const GraphBuilder& builder, const LinearExpr& value);
ScoresRef plus_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value);
// Adds two scores, `given` times a factor, as one product of concatenated queries and keys. Returns
// null unless both are products with only constants or query terms added.
ScoresRef plus_scores(GraphBuilder& builder, const Scores& a, const Scores& given, double factor);
// Slices off the zero row among the values that the weight of a sink multiplies. Returns values
// unchanged if there is no sink.
LinearExprRef without_sink(const GraphBuilder& builder, const Scores& weights,
                           const LinearExprRef& values);
// Reduces [..., queries, 1] to [..., 1, 1]. Throws NotRecognised if elements differ between
// queries.
Array require_equal_queries(const Array& column);
// Applies a movement that keeps or swaps the last two dimensions, adds or slices off a sink,
// gathers whole [queries, keys] matrices, or permutes all dimensions. Throws NotRecognised for
// others.
ScoresRef moved_scores(const Scores& scores, const Movement& movement);
// Return the scores in the order [..., queries, keys], or with its dimensions permuted by `order`.
ScoresRef in_order(const Scores& scores);
ScoresRef with_order(const Scores& scores, const std::vector<size_t>& order);

// Attention within windows, lowered to attention over all tokens (windowed_attention.cc): its
// scores, its values, and the movement of results back into windows. nullopt unless the queries of
// all windows partition the tokens.
struct WholeAttention {
  Scores scores;
  LinearExprRef values;
  Movement back;
};
std::optional<WholeAttention> lower_windows(GraphBuilder& builder, const Scores& scores,
                                            const LinearExprRef& values);
// Undoes product_scores for a sink from a zero row of keys whose value is nonzero: makes it a key
// again. Returns other scores unchanged.
Scores with_zero_key(GraphBuilder& builder, const Scores& scores, const LinearExprRef& values);
// Turns a first or last zero row, the value of a key, into a row of a node. Returns other values
// unchanged.
LinearExprRef with_zero_value(GraphBuilder& builder, const LinearExprRef& values);
// Throws NotRecognised if attention biases of a model have more elements than supported.
void check_bias_size(size_t numbers);

// Adds attention nodes for the weights times values [..., keys, value_dim].
LinearExprRef attend(GraphBuilder& builder, const Scores& scores, const LinearExprRef& values);

}  // namespace arenite::convert
