// SPDX-License-Identifier: Apache-2.0
// Counts instructions of CMSIS-NN's fully connected layers for comparison with Arenite's, where the
// build names a folder with CMSIS-NN. Their inputs and outputs are int8 with scales fixed by the
// model, so their counts do not include quantizing floats.
#include <cstring>

#include "arm_nnfunctions.h"
#include "bench/counting.h"

namespace arenite {

void count_cmsis_nn() {
  auto* const rows_in = reinterpret_cast<int8_t*>(input);
  auto* const rows_out = reinterpret_cast<int8_t*>(output);
  const auto* const weights = reinterpret_cast<const int8_t*>(memory);
  std::memset(memory, 0x3C, sizeof(memory));
  // Sums of weights, which kernels for MVE read, and biases.
  static constinit int32_t sums[kSideMax] = {};
  const cmsis_nn_context context = {sums, sizeof(sums)};
  const cmsis_nn_per_tensor_quant_params scale = {1 << 30, -8};
  const cmsis_nn_fc_params layer = {
      .input_offset = 3, .filter_offset = 0, .output_offset = 0, .activation = {-128, 127}};
  for (const auto& [name, outputs, inputs] : kProductShapes) {
    for (const uint32_t rows : {1u, 8u, 16u}) {
      const uint64_t products = uint64_t{rows} * outputs * inputs;
      const auto n = static_cast<int32_t>(inputs), c = static_cast<int32_t>(outputs);
      const cmsis_nn_dims from = {static_cast<int32_t>(rows), 1, 1, n};
      const cmsis_nn_dims matrix = {n, 1, 1, c}, bias = {1, 1, 1, c};
      const cmsis_nn_dims to = {static_cast<int32_t>(rows), 1, 1, c};
      report(name, "cmsis-nn", "q8", rows, count(products, [&] {
               arm_fully_connected_s8(&context, &layer, &scale, &from, rows_in, &matrix, weights,
                                      &bias, sums, &to, rows_out);
             }));
      report(name, "cmsis-nn", "q4", rows, count(products, [&] {
               arm_fully_connected_s4(&context, &layer, &scale, &from, rows_in, &matrix, weights,
                                      &bias, sums, &to, rows_out);
             }));
    }
  }
}

}  // namespace arenite
