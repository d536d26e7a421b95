// SPDX-License-Identifier: Apache-2.0
// The product that a reference in double precision spends its time in.
#pragma once

#include <cstddef>

namespace arenite::convert {

// A matrix of weights where it lies: weight (output, input) is
// values[output * output_stride + input * input_stride].
template <typename Weight>
struct WeightView {
  const Weight* values = nullptr;
  size_t outputs = 0;
  size_t inputs = 0;
  size_t output_stride = 0;
  size_t input_stride = 0;
};

// [outputs, inputs], row-major.
template <typename Weight>
WeightView<Weight> by_outputs(const Weight* values, size_t outputs, size_t inputs) {
  return {values, outputs, inputs, inputs, 1};
}

// [inputs, outputs], row-major.
template <typename Weight>
WeightView<Weight> by_inputs(const Weight* values, size_t outputs, size_t inputs) {
  return {values, outputs, inputs, 1, outputs};
}

// y[r, o] += sum over i of x[r, i] * weight (o, i), for x [rows, inputs] and y [rows, outputs].
// Numbers are added in the order of i, whatever the rows and the CPU are.
void add_row_products(const double* x, size_t rows, const WeightView<float>& weight, double* y);
void add_row_products(const double* x, size_t rows, const WeightView<double>& weight, double* y);

}  // namespace arenite::convert
