// SPDX-License-Identifier: Apache-2.0
// Constants as columns of rows, for score terms that depend on both a query and a key.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Added to a score, it gives the key no weight.
inline constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

LinearExprRef constants(GraphBuilder& builder, Shape shape, std::vector<double> numbers);
// Returns these numbers in each of the rows [.., columns], which may be per sequence: [..,
// numbers].
LinearExprRef same_columns(GraphBuilder& builder, const LinearExpr& rows, Shape shape,
                           std::vector<double> numbers);
std::vector<double> repeated(std::span<const double> numbers, size_t times);

}  // namespace arenite::convert
