// SPDX-License-Identifier: Apache-2.0
// Adds columns to queries and keys, such that their product adds a bias that depends on both.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "convert/exported/recover/scores.h"

namespace arenite::convert {

// A score with this addend hides its key: the weight is 0.
inline constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

LinearExprRef constants(GraphBuilder& builder, Shape shape, std::vector<double> numbers);
// Returns the same constants for each row of `rows` [.., columns], as columns of a node with these
// rows. Rows may be per sequence. The result is [.., constants].
LinearExprRef same_columns(GraphBuilder& builder, const LinearExpr& rows, Shape shape,
                           std::vector<double> numbers);
std::vector<double> repeated(std::span<const double> numbers, size_t times);
// Adds a windows node for rows [.., rows, columns] of a subsampled image, such as every second
// pixel of every second line. Returns any other value unchanged.
LinearExprRef subsampled_rows(GraphBuilder& builder, const LinearExprRef& value);
// Lowers attention within windows, with queries and keys on different row axes, to attention over
// all rows that hides the keys of other windows. Returns nullopt for any other scores.
std::optional<LinearExprRef> attend_in_windows(GraphBuilder& builder, const Scores& scores,
                                               const LinearExprRef& values);
// Replaces query terms by columns of queries and keys. REQUIRES: query_terms.
ScoresRef query_terms_as_columns(GraphBuilder& builder, const Scores& scores);

}  // namespace arenite::convert
