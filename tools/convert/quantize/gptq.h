// SPDX-License-Identifier: Apache-2.0
// GPTQ: rounds weights one column after the other, and compensates the error of each column in
// later columns, to minimize the change of the layer's outputs. Source: Frantar, Ashkboos, Hoefler,
// Alistarh 2022, GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers,
// algorithm 1.
//
//   Hessian hessian(columns);
//   hessian.add(inputs);  // [rows, columns], for each piece of calibration data
//   const QuantizedMatrix rounded = quantize_gptq(weights, rows, columns, type, hessian);
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
  // Takes sums that are known: the diagonal and above of a square matrix.
  explicit Hessian(const DenseMatrix& upper);

  // Accumulates X^T X for inputs X [rows, columns].
  void add(const ConstMatrix& inputs);

  uint32_t columns() const { return columns_; }
  uint64_t rows() const { return rows_; }  // added so far

  // Returns a copy of the sums [columns, columns]: the diagonal and above, and zeros below.
  DenseMatrix upper() const;
  std::vector<double> mean_squares() const;  // of each column

  // Returns the memory that a Hessian takes: about half of a square matrix.
  static uint64_t bytes(uint32_t columns);

 private:
  void flush() const;

  uint32_t columns_;
  uint64_t rows_ = 0;
  // Rows are buffered, since multiplying many at once takes little longer than one.
  mutable uint32_t pending_ = 0;
  mutable DenseMatrix rows_pending_;
  mutable std::vector<DenseMatrix> strips_;  // some rows of the sums, from their first column on
};

// Returns the upper triangular U with U^T U = (H + dampening I)^-1, for a symmetric H whose
// diagonal and upper triangle are in `upper`. Returns nullopt if H + dampening I is not positive
// definite within float precision, or not finite.
std::optional<DenseMatrix> inverse_factor(const DenseMatrix& upper, double dampening);

// Results of a quantization, for the report.
struct GptqReport {
  // Whether weights were rounded with the Hessian's inverse. If false, the Hessian is zero, not
  // finite, or not positive definite with any dampening, and all weights are rounded separately.
  bool compensated = false;
  // Added to the Hessian's diagonal, as a share of its mean: 0.01, increased tenfold until the
  // result is positive definite.
  double dampening = 0.0;
  uint32_t unused_inputs = 0;  // columns whose inputs are all zero
  uint64_t rounded_rows = 0;   // rows rounded weight by weight, as that loses less
  // Squared error of the layer's outputs over the calibration data, trace(D H D^T): if each weight
  // were rounded separately, and of the result, which is never larger.
  double rounding_error = 0.0;
  double error = 0.0;
  ScaleReport scales;
};

// Quantizes weights [rows, columns] for inputs with this Hessian, columns in order. The scale of a
// block is chosen when its first column is rounded, after the compensation of earlier columns.
// REQUIRES: finite weights; fits(type, columns); type is not kF32.
QuantizedMatrix quantize_gptq(std::span<const float> weights, uint32_t rows, uint32_t columns,
                              TensorType type, const Hessian& hessian,
                              GptqReport* report = nullptr);

}  // namespace arenite::convert
