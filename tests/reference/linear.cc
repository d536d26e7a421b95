// SPDX-License-Identifier: Apache-2.0
// Oracle of the linear op.
#include "reference/reference.h"

namespace arenite::test {

std::vector<double> reference_linear(std::span<const float> input, std::span<const float> weights,
                                     std::span<const float> bias, uint32_t inputs) {
  const size_t tokens = input.size() / inputs;
  const size_t outputs = bias.size();
  std::vector<double> output(tokens * outputs);
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t n = 0; n < outputs; ++n) {
      double sum = bias[n];
      for (size_t k = 0; k < inputs; ++k) {
        sum += double{input[t * inputs + k]} * double{weights[n * inputs + k]};
      }
      output[t * outputs + n] = sum;
    }
  }
  return output;
}

}  // namespace arenite::test
