// SPDX-License-Identifier: Apache-2.0
// Rows of random floats at a stride, ending at an inaccessible page: operands of row-wise ops.
#pragma once

#include <vector>

#include "arenite/arena_formula.h"
#include "core/views.h"
#include "support/guarded_buffer.h"
#include "support/random.h"

namespace arenite::test {

class FloatRows {
 public:
  static constexpr uint32_t kGap = 3;  // floats between rows that are not theirs

  FloatRows(uint32_t rows, uint32_t columns, uint64_t seed, float limit)
      : rows_(rows),
        columns_(columns),
        floats_((rows - 1) * (size_t{columns} + kGap) + columns, kReadAheadBytes) {
    Random(seed).fill(floats_.span(), limit);
  }

  Matrix matrix() const { return {floats_.data(), rows_, columns_, size_t{columns_} + kGap}; }
  ConstMatrix view() const { return {floats_.data(), rows_, columns_, size_t{columns_} + kGap}; }
  float at(uint32_t row, uint32_t column) const { return matrix().row(row)[column]; }

  // The rows without what is between them.
  std::vector<float> dense() const {
    std::vector<float> values;
    for (uint32_t r = 0; r < rows_; ++r) {
      values.insert(values.end(), matrix().row(r), matrix().row(r) + columns_);
    }
    return values;
  }
  bool surroundings_intact() const { return floats_.surroundings_intact(); }

 private:
  uint32_t rows_;
  uint32_t columns_;
  GuardedFloats floats_;
};

}  // namespace arenite::test
