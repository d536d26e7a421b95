// SPDX-License-Identifier: Apache-2.0
// Rounds weights so that a layer's outputs change least: what rounding one column does to them, the
// columns after it make good.
// Source: Frantar, Ashkboos, Hoefler, Alistarh 2022, GPTQ: Accurate Post-Training Quantization for
// Generative Pre-trained Transformers, algorithm 1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "convert/quantize/matrix_product.h"
#include "convert/quantize/quantizers.h"
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

// U, upper triangular, with U^T U = (H + dampening I)^-1, for a symmetric H whose diagonal and what
// is right of it are in `upper`. Nothing where H + dampening I is not positive definite as far as
// double precision can tell, or holds what is not finite.
std::optional<DenseMatrix> inverse_factor(const DenseMatrix& upper, double dampening);

// What was done, for the report.
struct GptqReport {
  // Rounded with the Hessian's inverse; false: the Hessian is zero, holds what is not finite, or
  // was not positive definite with any dampening, and all rows are rounded one weight at a time.
  bool compensated = false;
  // What was added to the Hessian's diagonal, as a share of its mean: 0.01, and ten times more as
  // long as the result was not positive definite.
  double dampening = 0.0;
  uint32_t unused_inputs = 0;  // columns that are zero in all that was seen
  uint64_t rounded_rows = 0;   // that are better rounded one weight at a time, and are
  // Squared error of the layer's outputs over all that was seen, trace(D H D^T): of rounding one
  // weight at a time, and of the result, which is never more.
  double rounding_error = 0.0;
  double error = 0.0;
  ScaleReport scales;
};

// Weights [rows, columns] for inputs such as those of the Hessian, columns in their own order.
// Scales are chosen in time: of q4 for each block when its first column is rounded, for what the
// columns before have made of it.
// REQUIRES: finite weights; fits(type, columns); type is kW8, kQ8 or kQ4.
QuantizedMatrix quantize_gptq(std::span<const float> weights, uint32_t rows, uint32_t columns,
                              TensorType type, const Hessian& hessian,
                              GptqReport* report = nullptr);

}  // namespace arenite::convert
