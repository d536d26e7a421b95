// SPDX-License-Identifier: Apache-2.0
// Constants as columns of rows, for score terms that depend on both a query and a key.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "convert/exported/recover/scores.h"

namespace arenite::convert {

// Added to a score, it gives the key no weight.
inline constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

LinearExprRef constants(GraphBuilder& builder, Shape shape, std::vector<double> numbers);
// Returns these constants beside each of the rows [.., columns], which may be per sequence: [..,
// constants].
LinearExprRef same_columns(GraphBuilder& builder, const LinearExpr& rows, Shape shape,
                           std::vector<double> numbers);
std::vector<double> repeated(std::span<const double> numbers, size_t times);
// Turns rows [.., rows, columns] of a subsampled image, such as every second pixel of every second
// line, into rows of a node without the others; returns any other value as it is.
LinearExprRef with_own_rows(GraphBuilder& builder, const LinearExprRef& value);
// Lowers attention within windows whose queries and keys are on different row axes to attention
// that hides the keys of other windows; nullopt for any other scores.
std::optional<LinearExprRef> attend_in_windows(GraphBuilder& builder, const Scores& scores,
                                               const LinearExprRef& values);
// Turns query terms into columns of queries and keys, for any keys. REQUIRES: query_terms.
ScoresRef query_terms_as_columns(GraphBuilder& builder, const Scores& scores);

}  // namespace arenite::convert
