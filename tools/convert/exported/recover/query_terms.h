// SPDX-License-Identifier: Apache-2.0
// Relative position bias: elements of the query's or the key's row that are added to scores, as q
// R[query - key] + k P[query - key].
//
//   (q @ R.T).gather(-1, distances)       ->  columns of q, and a table of distances
//   (k @ P.T).gather(-1, distances).mT    ->  columns of k, and a table of distances
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "convert/exported/recover/row_layout.h"
#include "convert/exported/recover/scores.h"

namespace arenite::convert {

// Whether `value`, [..., queries, keys], has elements of the query's row or of the key's row.
bool is_of_rows(const GraphBuilder& builder, const LinearExpr& value);
// with_query_terms adds a value [..., queries, keys] to scores if each of its terms has elements of
// the query's row for each key, or of the key's row for each query; it returns null for any other.
ScoresRef with_query_terms(const GraphBuilder& builder, const Scores& scores,
                           const LinearExprRef& value);
// Query terms as products of columns, [heads], with a table by distance. The columns are those of
// the queries or, with `of_keys`, of the keys, if possible. Without such terms the table is zeros,
// and has no columns for keys.
struct QueryTermsFound {
  std::vector<std::vector<Column>> columns;
  RelativeBias table;
};
QueryTermsFound read_query_terms(GraphBuilder& builder, const Scores& scores,
                                 std::span<const HeadPlace> order,
                                 std::span<const std::vector<Column>> queries,
                                 bool of_keys = false);

}  // namespace arenite::convert
