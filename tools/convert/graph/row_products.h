// SPDX-License-Identifier: Apache-2.0
// The product that a reference in double precision spends its time in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace arenite::convert {

// y[r, o] += sum over i of x[r, i] * weight[o * inputs + i]. Numbers are added in the order of i,
// whatever the rows are: several rows at once only keep their sums from waiting for each other.
template <typename Weights>
void add_row_products(const double* x, size_t rows, const Weights& weight, size_t outputs,
                      size_t inputs, double* y) {
  constexpr size_t kRows = 16;
  std::vector<double> columns(inputs * kRows);  // [inputs, kRows]
  for (size_t first = 0; first < rows; first += kRows) {
    const size_t count = std::min(kRows, rows - first);
    for (size_t r = 0; r < count; ++r) {
      const double* const row = x + (first + r) * inputs;
      for (size_t i = 0; i < inputs; ++i) columns[i * kRows + r] = row[i];
    }
    for (size_t o = 0; o < outputs; ++o) {
      double sums[kRows] = {};
      for (size_t r = 0; r < count; ++r) sums[r] = y[(first + r) * outputs + o];
      const double* column = columns.data();
      for (size_t i = 0; i < inputs; ++i, column += kRows) {
        const auto factor = static_cast<double>(weight[o * inputs + i]);
        for (size_t r = 0; r < kRows; ++r) sums[r] += column[r] * factor;
      }
      for (size_t r = 0; r < count; ++r) y[(first + r) * outputs + o] = sums[r];
    }
  }
}

}  // namespace arenite::convert
