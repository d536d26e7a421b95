// SPDX-License-Identifier: Apache-2.0
#include "convert/graph/term_table.h"

#include <cmath>

#include "convert/graph/graph.h"

namespace arenite::convert {

double whole_score(const AttentionNode& attention, double product, size_t head, size_t query,
                   size_t key) {
  double score = attention.scale * product;
  const double cap = attention.score_cap;
  if (cap != 0.0) score = cap * std::tanh(score / cap);
  if (!attention.slopes.empty()) {
    score += attention.slopes[head] * (static_cast<double>(key) - static_cast<double>(query));
  }
  if (attention.terms) score += attention.terms->at(head, query, key);
  return score;
}

TermTable first_positions(const TermTable& table, uint32_t positions) {
  TermTable part = {table.by, table.heads, positions, {}};
  const size_t rows = part.rows() / part.heads;  // of a head
  const size_t own_rows = table.rows() / table.heads;
  const size_t first = table.by == ScoreTerms::kPairs ? 0 : table.positions - positions;
  for (size_t head = 0; head < table.heads; ++head) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t start = (head * own_rows + row) * table.columns() + first;
      const auto begin = table.values.begin() + static_cast<ptrdiff_t>(start);
      part.values.insert(part.values.end(), begin, begin + part.columns());
    }
  }
  return part;
}

}  // namespace arenite::convert
