// SPDX-License-Identifier: Apache-2.0
// What attention adds to its scores, where that is no slope: a number for each head and distance,
// as relative position biases are, or for each pair of positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/op_kinds.h"

namespace arenite::convert {

struct TermTable {
  ScoreTerms by = ScoreTerms::kDistances;
  uint32_t heads = 0;  // 1, of pairs: all heads have the same
  uint32_t positions = 0;
  // [heads, 2 * positions - 1], distance 0 in the middle, or [heads, positions, positions], or
  // slopes [heads]; -infinity hides a key.
  std::vector<double> values;

  // REQUIRES: no slopes.
  double at(size_t head, size_t query, size_t key) const {
    const size_t own = heads == 1 ? 0 : head;
    if (by == ScoreTerms::kPairs) return values[(own * positions + query) * positions + key];
    return values[own * columns() + positions - 1 + key - query];
  }
  // The shape of the tensor that holds it.
  uint32_t rows() const {
    if (by == ScoreTerms::kSlopes) return 1;
    return by == ScoreTerms::kPairs ? heads * positions : heads;
  }
  uint32_t columns() const {
    if (by == ScoreTerms::kSlopes) return heads;
    return by == ScoreTerms::kPairs ? positions : 2 * positions - 1;
  }

  friend bool operator==(const TermTable&, const TermTable&) = default;
};

// The part of a table that fewer positions need. REQUIRES: no slopes, and 1 <= positions <=
// table.positions.
TermTable first_positions(const TermTable& table, uint32_t positions);

}  // namespace arenite::convert
