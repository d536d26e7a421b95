// SPDX-License-Identifier: Apache-2.0
// Score terms that are elements of the query's row, as relative positions are: q R[query - key].
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

// Adds elements of the query's row, [..., queries, keys], as relative positions do; null for any
// other value.
bool is_of_queries(const GraphBuilder& builder, const LinearExpr& value);
ScoresRef with_query_terms(const GraphBuilder& builder, const Scores& scores,
                           const LinearExprRef& value);
// Query terms as products of columns, for each head, with a table of distances. The columns are
// those of the queries wherever possible.
struct QueryTermsFound {
  std::vector<std::vector<Column>> columns;
  RelativeBias table;
};
QueryTermsFound read_query_terms(GraphBuilder& builder, const Scores& scores,
                                 std::span<const HeadPlace> order,
                                 std::span<const std::vector<Column>> queries);

}  // namespace arenite::convert
