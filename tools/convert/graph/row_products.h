// SPDX-License-Identifier: Apache-2.0
// The matrix product that takes most of the double-precision reference's time.
#pragma once

#include <cstddef>

namespace arenite::convert {

// A strided view of a weight matrix; element (output, input) is values[output * output_stride +
// input * input_stride].
template <typename Weight>
struct WeightView {
  const Weight* values = nullptr;
  size_t outputs = 0;
  size_t inputs = 0;
  size_t output_stride = 0;
  size_t input_stride = 0;
};

// Views values stored as [outputs, inputs], row-major.
template <typename Weight>
WeightView<Weight> by_outputs(const Weight* values, size_t outputs, size_t inputs) {
  return {values, outputs, inputs, inputs, 1};
}

// Views values stored as [inputs, outputs], row-major.
template <typename Weight>
WeightView<Weight> by_inputs(const Weight* values, size_t outputs, size_t inputs) {
  return {values, outputs, inputs, 1, outputs};
}

// y[r, o] += sum over i of x[r, i] * weight(o, i), for x [rows, inputs] and y [rows, outputs].
// Terms are added in the order of i, whatever the number of rows and the CPU.
void add_row_products(const double* x, size_t rows, const WeightView<float>& weight, double* y);
void add_row_products(const double* x, size_t rows, const WeightView<double>& weight, double* y);

}  // namespace arenite::convert
