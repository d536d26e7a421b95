// SPDX-License-Identifier: Apache-2.0
// Relative position bias: elements of the query's row that are added to its scores, as q R[query -
// key].
//
//   (q @ R.T).gather(-1, distances)  ->  columns of q, and a table of distances
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/scores.h"

namespace arenite::convert {

// Whether `value` has elements of the query's row for each key, [..., queries, keys].
// with_query_terms adds such a value to scores; it returns null for any other.
bool is_of_queries(const GraphBuilder& builder, const LinearExpr& value);
ScoresRef with_query_terms(const GraphBuilder& builder, const Scores& scores,
                           const LinearExprRef& value);
// Query terms as products of columns, [heads], with a table by distance. The columns are those of
// the queries if possible.
struct QueryTermsFound {
  std::vector<std::vector<Column>> columns;
  RelativeBias table;
};
QueryTermsFound read_query_terms(GraphBuilder& builder, const Scores& scores,
                                 std::span<const HeadPlace> order,
                                 std::span<const std::vector<Column>> queries);

}  // namespace arenite::convert
