// SPDX-License-Identifier: Apache-2.0
#include "ops/prefix.h"

#include <cstring>

namespace arenite {

void put_prefix(const WeightView& constants, uint32_t first_row, const ConstMatrix& input,
                const StepRows& rows, const Matrix& output, const ParallelFor& parallel) {
  const size_t bytes = output.columns * sizeof(float);
  auto work = [&](uint32_t row) {
    const RowPlace place = place_of_row(rows, row);
    float* const to = output.row(row);
    const uint32_t index = place.position - first_row;  // not below `rows` in front of them
    if (place.is_prefix() && index < constants.rows) {
      read_row(constants, index, to);
    } else if (input.row(row) != to) {
      std::memcpy(to, input.row(row), bytes);
    }
  };
  for_each_row(parallel, output.rows, work);
}

}  // namespace arenite
