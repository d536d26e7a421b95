// SPDX-License-Identifier: Apache-2.0
// Products of queries and keys on their way to attention, and the shapes of their parts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
// softmax(scale * query key^T + added), or without the softmax; with a tanh, tanh_factor *
// tanh(scale * query key^T) + added.
struct Scores {
  Shape shape;  // [..., queries, keys], with a `sink` [..., queries, keys + 1]
  // Which of [..., queries, keys] each dimension of `shape` is, where they are in another order.
  // All else is that of in_order(): ops are done there, and the order is put back.
  std::vector<size_t> order{};
  LinearExprRef query{};  // [..., queries, dim]; null: `added` alone gives the weights
  LinearExprRef key{};    // [..., keys, dim]
  double scale = 1.0;
  std::optional<Array> head_factors{};  // [..., 1, 1], besides the scale
  std::optional<double> tanh_factor{};
  std::optional<Array> added{};  // stretched to [..., queries, keys]; -infinity hides
  LinearExprRef query_terms{};   // added, too: numbers of the query's row, [..., queries, keys]
  int64_t positions_max = 0;     // of what was added
  bool may_see_nothing = false;  // a query, as all its keys may have ids that hide them
  bool has_softmax = false;
  bool is_logarithm = false;  // of what the softmax gives
  // Scores that were multiplied by 0, which a mask is to hide.
  std::optional<Array> zeroed{};
  bool is_exponential = false;  // the exponentials of them, of a softmax that is written by hand
  ScoreRowRef shift{};          // what was subtracted from all scores of a query
  // Scores of no key that the softmax is over, too, [..., 1, 1]; and the column of `shape` where
  // they stand, until it is cut off the weights.
  std::optional<Array> sinks{};
  std::optional<int64_t> sink{};
  // Of weights, which a softmax gave: what they are multiplied by, [..., 1, 1], and other weights
  // that are added to the product, which have no others themselves.
  std::optional<Array> weight{};
  std::vector<std::shared_ptr<const Scores>> also{};
};

// A number for each query, [..., queries, 1]: its largest score, or what that is clamped to; sinks
// minus that, and their exponentials; the sum of exponentials, those of sinks included; or the
// logarithm of that sum.
struct ScoreRow {
  enum class Kind { kLargest, kSinks, kSinkExponentials, kSum, kLogSum };
  ScoresRef of;
  Kind kind = Kind::kLargest;
  std::optional<Array> sinks{};  // [..., 1, 1]
  ScoreRowRef shift{};           // of sinks: what was subtracted from them
  bool is_flat = false;          // [..., queries] instead, until it gets its last dimension
};

// A score of at most this much is one of a hidden key: its weight is 0 in double precision.
inline constexpr double kHiddenScoreMax = -1000.0;

inline constexpr const char* kMovesScores =
    "it pads, cuts or moves scores of attention: not supported are relative positions by shifts, "
    "and scores of single keys";
inline constexpr const char* kAfterSoftmax =
    "it changes the weights of attention after their softmax: supported are sums and differences "
    "of those of several softmaxes, times one number for each head";

// [..., rows, columns] for these leading dimensions.
Shape joined(Shape lead, int64_t rows, int64_t columns);
// The value with other leading dimensions.
LinearExprRef with_leading(const LinearExprRef& value, const Shape& lead);

// query key^T for key^T [..., dim, keys]. A key of zeros after all others, or before them, is a
// sink of 0.
ScoresRef product_scores(const GraphBuilder& builder, const LinearExprRef& query,
                         const LinearExprRef& transposed_key);
ScoresRef with_scale(const Scores& scores, double factor);
// Times one number for each head, or 1 where keys are seen and 0 where they are hidden afterwards.
ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max);
// The hyperbolic tangent, or with `is_sigmoid` the sigmoid, which is one in other numbers.
ScoresRef with_tanh(const Scores& scores, bool is_sigmoid);
ScoresRef with_added(const Scores& scores, const Array& added, int64_t positions_max);
// Where `mask` is true, `value` instead of the score.
ScoresRef with_filled(const Scores& scores, const Array& mask, double value, int64_t positions_max);
// Plus numbers that each query brings with it; nothing for a value of another kind.
bool is_of_queries(const GraphBuilder& builder, const LinearExpr& value);
ScoresRef with_query_terms(const GraphBuilder& builder, const Scores& scores,
                           const LinearExprRef& value);
// What these are made of: columns of each head, those of queries wherever they can be, and the
// table of distances.
struct QueryTermsFound {
  std::vector<std::vector<Column>> columns;
  RelativeBias table;
};
using HeadPlace = std::pair<uint32_t, uint32_t>;  // sequence and head of a leading index
QueryTermsFound read_query_terms(GraphBuilder& builder, const Scores& scores,
                                 std::span<const HeadPlace> order,
                                 std::span<const std::vector<Column>> queries);
// With a column of these scores, [..., queries, 1], before the others or after them.
ScoresRef with_sinks(const Scores& scores, const Array& sinks, bool is_first);
ScoresRef with_softmax(const Scores& scores, bool is_logarithm = false);
// Weights times one number for each head, and the sum of two.
ScoresRef weights_times(const Scores& weights, const Array& factors);
ScoresRef sum_of_weights(const Scores& a, const Scores& b, double factor_b);
// Scores times a value of each query [..., queries, 1], or of each key [..., 1, keys]; nothing for
// a value of another shape.
ScoresRef times_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value);
// Scores plus a value of each key, as one more column of queries and keys: [..., 1, keys], or for
// each query, where constants may hide some. A value of each query [..., queries, 1] changes no
// weight. Nothing for a value of another kind.
bool is_of_keys(const GraphBuilder& builder, const LinearExpr& value);
ScoresRef plus_value(GraphBuilder& builder, const Scores& scores, const LinearExprRef& value);
// Plus other scores times a factor: a product of the queries and keys of both, side by side.
// Nothing where either is more than a product to which constants or terms are added.
ScoresRef plus_scores(GraphBuilder& builder, const Scores& a, const Scores& given, double factor);
// Values without the row that has the weight of a sink, which is zeros; or as they are.
LinearExprRef without_sink(const GraphBuilder& builder, const Scores& weights,
                           const LinearExprRef& values);
// Numbers that are the same for all queries, [..., queries, 1], as [..., 1, 1].
Array of_all_queries(const Array& column);
// Moved, where the last two dimensions stay what they are, change places, or get or lose a sink, or
// all are put in another order.
ScoresRef moved_scores(const Scores& scores, const Movement& movement);
// The same as [..., queries, keys], and with these of its dimensions.
ScoresRef in_order(const Scores& scores);
ScoresRef with_order(const Scores& scores, const std::vector<size_t>& order);

// Attention within windows as one of all tokens (windowed_attention.cc): its scores, its values,
// and what puts its results back into windows. Nothing where queries of windows do not share out
// the tokens.
struct WholeAttention {
  Scores scores;
  LinearExprRef values;
  Movement back;
};
std::optional<WholeAttention> without_windows(GraphBuilder& builder, const Scores& scores,
                                              const LinearExprRef& values);
// Refuses more numbers than a model may add to scores.
void check_terms(size_t numbers);

// ---- pair_columns.cc ----

// Rows [.., rows, columns] that are some of an image's, each second one of each second line, as
// those of a node that has no others; any other value as it is.
LinearExprRef with_own_rows(GraphBuilder& builder, const LinearExprRef& value);
// Attention within windows whose queries and keys are rows of two kinds, as one that hides the keys
// of other windows; nothing for any other scores.
std::optional<LinearExprRef> attend_in_windows(GraphBuilder& builder, const Scores& scores,
                                               const LinearExprRef& values);
// Those that queries bring with them, whatever the places of keys they are for. REQUIRES: some.
ScoresRef query_terms_as_columns(GraphBuilder& builder, const Scores& scores);

// The weights times values [..., keys, value_dim].
LinearExprRef attend(GraphBuilder& builder, const Scores& scores, const LinearExprRef& values);

}  // namespace arenite::convert
