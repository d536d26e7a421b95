// SPDX-License-Identifier: Apache-2.0
// Products of queries and keys on their way to attention, and the ops that may be applied to them
// before and after the softmax.
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
// softmax(scale * query key^T + added), or its argument without has_softmax; with tanh_factor,
// tanh_factor * tanh(scale * query key^T) + added.
struct Scores {
  Shape shape;  // [..., queries, keys], with a `sink` [..., queries, keys + 1]
  // Permutation of the author's dimensions: dimension d of `shape` is dimension order[d] of [...,
  // queries, keys]; empty: none. All other fields are unpermuted: ops run on in_order(), then the
  // permutation is restored.
  std::vector<size_t> order{};
  LinearExprRef query{};  // [..., queries, dim]; null: `added` alone gives the weights
  LinearExprRef key{};    // [..., keys, dim]
  double scale = 1.0;
  std::optional<Array> head_factors{};  // [..., 1, 1], in addition to the scale
  std::optional<double> tanh_factor{};
  std::optional<Array> added{};  // broadcast to [..., queries, keys]; -infinity hides a key
  LinearExprRef query_terms{};   // also added: elements of the query's row, [..., queries, keys]
  int64_t positions_max = 0;     // limit from the constants that were added
  bool may_see_nothing = false;  // the ids of all keys of a query may hide them
  bool has_softmax = false;
  bool is_logarithm = false;  // of the softmax
  // A 0/1 factor of the scores; what is added next must hide the zeros.
  std::optional<Array> zeroed{};
  bool is_exponential = false;  // exponentials of a softmax written by hand
  ScoreRowRef shift{};          // subtracted from all scores of a query
  // Scores of a sink, which the softmax includes, [..., 1, 1]; and the column of `shape` that they
  // occupy until it is cut off the weights.
  std::optional<Array> sinks{};
  std::optional<int64_t> sink{};
  // Weights after the softmax: their factor [..., 1, 1], and further weights that are added to the
  // product and have no `also` of their own.
  std::optional<Array> weight{};
  std::vector<std::shared_ptr<const Scores>> also{};
};

// One element for each query, [..., queries, 1]: its largest score, possibly clamped; sinks minus
// that, and their exponentials; the sum of exponentials with those of sinks; or its logarithm.
struct ScoreRow {
  enum class Kind { kLargest, kSinks, kSinkExponentials, kSum, kLogSum };
  ScoresRef of;
  Kind kind = Kind::kLargest;
  std::optional<Array> sinks{};  // [..., 1, 1]
  ScoreRowRef shift{};           // subtracted from the sinks
  bool is_flat = false;          // [..., queries], until it gets its last dimension
};

// A score of at most this much hides its key: the weight is 0 in double precision.
inline constexpr double kHiddenScoreMax = -1000.0;

inline constexpr const char* kMovesScores =
    "cannot pad, slice or move scores of attention; relative positions by shifts, and scores of "
    "single keys, are not supported";
inline constexpr const char* kAfterSoftmax =
    "cannot change the weights of attention after their softmax; supported are sums and "
    "differences of several softmaxes, times one number for each head";

// Returns [lead..., rows, columns].
Shape joined(Shape lead, int64_t rows, int64_t columns);
LinearExprRef with_leading(const LinearExprRef& value, const Shape& lead);

// Returns query key^T for key^T [..., dim, keys]. A last or first key of zeros is a sink of score
// 0.
ScoresRef product_scores(const GraphBuilder& builder, const LinearExprRef& query,
                         const LinearExprRef& transposed_key);
ScoresRef with_scale(const Scores& scores, double factor);
// Multiplies by a factor for each head, query or key, or by a 0/1 mask of keys to hide later.
ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max);
// Applies tanh, or with `is_sigmoid` the sigmoid, (1 + tanh(x / 2)) / 2.
ScoresRef with_tanh(const Scores& scores, bool is_sigmoid);
ScoresRef with_added(const Scores& scores, const Array& added, int64_t positions_max);
// Replaces scores by `value` where `mask` is true.
ScoresRef with_filled(const Scores& scores, const Array& mask, double value, int64_t positions_max);
// Adds a column of sink scores [..., queries, 1] before the others or after them.
ScoresRef with_sinks(const Scores& scores, const Array& sinks, bool is_first);
ScoresRef with_softmax(const Scores& scores, bool is_logarithm = false);
// Multiply weights by a factor for each head, and add two weights.
ScoresRef weights_times(const Scores& weights, const Array& factors);
ScoresRef sum_of_weights(const Scores& a, const Scores& b, double factor_b);
// Multiplies by a value of each query [..., queries, 1], or of each key [..., 1, keys]; null for
// any other value.
ScoresRef times_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value);
// Adds a value of each key as one more column of queries and keys: [..., 1, keys], or [...,
// queries, keys] with equal rows but for constants that hide keys. A value of each query [...,
// queries, 1] changes no weight. Returns null for any other value.
bool is_of_keys(const GraphBuilder& builder, const LinearExpr& value);
ScoresRef plus_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value);
// Adds other scores times a factor: a product of the concatenated queries and keys. Returns null
// unless both are products with only constants or query terms added.
ScoresRef plus_scores(GraphBuilder& builder, const Scores& a, const Scores& given, double factor);
// Removes the row of zeros that has the weight of a sink; returns values without a sink as they
// are.
LinearExprRef without_sink(const GraphBuilder& builder, const Scores& weights,
                           const LinearExprRef& values);
// Reduces [..., queries, 1] to [..., 1, 1]. Refuses elements that differ between queries.
Array of_all_queries(const Array& column);
// Applies a movement that keeps or swaps the last two dimensions, adds or cuts off a sink, takes
// whole [queries, keys] matrices, or permutes all dimensions.
ScoresRef moved_scores(const Scores& scores, const Movement& movement);
// Return the scores as [..., queries, keys], and with these dimensions permuted.
ScoresRef in_order(const Scores& scores);
ScoresRef with_order(const Scores& scores, const std::vector<size_t>& order);

// Attention within windows as attention over all tokens (windowed_attention.cc): its scores, its
// values, and the movement of its results back into windows. nullopt unless the queries of all
// windows partition the tokens.
struct WholeAttention {
  Scores scores;
  LinearExprRef values;
  Movement back;
};
std::optional<WholeAttention> without_windows(GraphBuilder& builder, const Scores& scores,
                                              const LinearExprRef& values);
// Turns a sink that was a key of zeros, but whose value is not zero, back into a key; returns other
// scores as they are.
Scores with_zero_key(GraphBuilder& builder, const Scores& scores, const LinearExprRef& values);
// Turns a first or last row of zeros, the value of a key, into a row of a node; returns other
// values as they are.
LinearExprRef with_zero_value(GraphBuilder& builder, const LinearExprRef& values);
// Refuses more elements than a model may add to scores.
void check_terms(size_t numbers);

// Returns the weights times values [..., keys, value_dim].
LinearExprRef attend(GraphBuilder& builder, const Scores& scores, const LinearExprRef& values);

}  // namespace arenite::convert
