// SPDX-License-Identifier: Apache-2.0
// Products of queries and keys on their way to attention.
#pragma once

#include <cstdint>
#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
// softmax(scale * query key^T + added), or without the softmax; with a tanh, tanh_factor *
// tanh(scale * query key^T) + added.
struct Scores {
  Shape shape;            // [..., queries, keys]
  ElementSumRef query{};  // [..., queries, dim]; null: `added` alone gives the weights
  ElementSumRef key{};    // [..., keys, dim]
  double scale = 1.0;
  std::optional<Array> head_factors{};  // [..., 1, 1], besides the scale
  std::optional<double> tanh_factor{};
  std::optional<Array> added{};  // stretched to `shape`; -infinity hides
  int64_t positions_max = 0;     // of what was added
  bool has_softmax = false;
  bool is_logarithm = false;  // of what the softmax gives
  // Scores that were multiplied by 0, which a mask is to hide.
  std::optional<Array> zeroed{};
  bool is_exponential = false;  // the exponentials of them, of a softmax that is written by hand
};

// The largest score of each query, or the sum of the exponentials: [..., queries, 1].
struct ScoreRow {
  ScoresRef of;
  bool is_sum = false;
};

// A score of at most this much is one of a hidden key: its weight is 0 in double precision.
inline constexpr double kHiddenScoreMax = -1000.0;

inline constexpr const char* kAfterSoftmax =
    "it changes the weights of attention after their softmax: not supported. A difference of "
    "two attentions, (a - b) @ v, can be written a @ v - b @ v";

// query key^T for key^T [..., dim, keys].
ScoresRef product_scores(const ElementSumRef& query, const ElementSumRef& turned_key);
ScoresRef with_scale(const Scores& scores, double factor);
// Times one number for each head, or 1 where keys are seen and 0 where they are hidden afterwards.
ScoresRef with_factors(const Scores& scores, const Array& factors, int64_t positions_max);
// The hyperbolic tangent, or with `is_sigmoid` the sigmoid, which is one in other numbers.
ScoresRef with_tanh(const Scores& scores, bool is_sigmoid);
ScoresRef with_added(const Scores& scores, const Array& added, int64_t positions_max);
// Where `mask` is true, `value` instead of the score.
ScoresRef with_filled(const Scores& scores, const Array& mask, double value, int64_t positions_max);
ScoresRef with_softmax(const Scores& scores, bool is_logarithm = false);
// Moved, where the last two dimensions stay what they are, or change places.
ScoresRef moved_scores(const Scores& scores, const Movement& movement);

// The weights times values [..., keys, value_dim].
ElementSumRef attend(GraphBuilder& builder, const Scores& scores, const ElementSumRef& values);

}  // namespace arenite::convert
