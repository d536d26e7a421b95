// SPDX-License-Identifier: Apache-2.0
// Constants as columns of rows, for numbers that depend on a query and on a key.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// What is added to a score so that the key has no weight.
inline constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

LinearExprRef constants(GraphBuilder& builder, Shape shape, std::vector<double> numbers);
// These for each of the rows [.., columns], which may be one for each sequence: [.., numbers].
LinearExprRef same_columns(GraphBuilder& builder, const LinearExpr& rows, Shape shape,
                           std::vector<double> numbers);
// The numbers so many times, one after the other.
std::vector<double> repeated(std::span<const double> numbers, size_t times);

}  // namespace arenite::convert
