// SPDX-License-Identifier: Apache-2.0
// Numbers of each pair of a query and a key, as columns that both have.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// What is added to a score so that the key has no weight, and a number that comes to the same.
inline constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();
inline constexpr double kHiddenAdded = -1e9;

// Numbers [matrices, queries, keys] as products of columns that queries have and columns that keys
// have: for either of them one of these is 1, and the others are 0.
struct PairColumns {
  size_t count = 0;
  std::vector<double> queries;  // [matrices, queries, count]
  std::vector<double> keys;     // [matrices, keys, count]
};

// Keys that have the same numbers share a column, or queries, if there are fewer kinds of these.
PairColumns columns_of_pairs(const std::vector<double>& numbers, size_t queries, size_t keys);

ElementSumRef constants(GraphBuilder& builder, Shape shape, std::vector<double> numbers);
// These for each of the rows [.., columns], which may be one for each sequence: [.., numbers].
ElementSumRef same_columns(GraphBuilder& builder, const ElementSum& rows, Shape shape,
                           std::vector<double> numbers);
// The numbers so many times, one after the other.
std::vector<double> repeated(std::span<const double> numbers, size_t times);

}  // namespace arenite::convert
