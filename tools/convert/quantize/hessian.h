// SPDX-License-Identifier: Apache-2.0
// What a linear layer's inputs are like: the sums of their products, column by column. The squared
// error of the layer's outputs, summed over all inputs seen, is trace(D H D^T) for an error D of
// the weights.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/quantize/matrix_product.h"
#include "core/views.h"

namespace arenite::convert {

class Hessian {
 public:
  explicit Hessian(uint32_t columns);

  // Adds inputs, rows of `columns` numbers.
  void add(const ConstMatrix& inputs);

  uint32_t columns() const { return columns_; }
  uint64_t rows() const { return rows_; }  // added

  // [columns, columns]: the diagonal and what is right of it; the rest means nothing.
  const DenseMatrix& upper() const;
  std::vector<double> mean_squares() const;  // of each column

  // Memory that it takes.
  static uint64_t bytes(uint32_t columns);

 private:
  void flush() const;

  uint32_t columns_;
  uint64_t rows_ = 0;
  // Rows are collected, since many of them are multiplied at once in little more time than one.
  mutable uint32_t pending_ = 0;
  mutable DenseMatrix rows_pending_;
  mutable DenseMatrix sums_;
  mutable MatrixProduct product_;
};

}  // namespace arenite::convert
