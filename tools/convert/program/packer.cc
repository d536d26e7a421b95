// SPDX-License-Identifier: Apache-2.0
// Panel by panel, so that a matrix much larger than the cache is read and written in order.
#include "convert/program/packer.h"

#include <algorithm>
#include <cassert>

namespace arenite::convert {

void pack_weights(const ProgramTensor& tensor, std::span<const float> weights, Packing packing,
                  std::span<float> packed) {
  assert(packed.size_bytes() == format::stored_bytes(tensor.shape(), packing).value());
  assert(weights.size() == size_t{tensor.outputs} * tensor.inputs);
  if (tensor.layout == format::Layout::kRows) {
    std::copy(weights.begin(), weights.end(), packed.begin());
    return;
  }
  std::fill(packed.begin(), packed.end(), 0.0f);
  const auto index = [&](uint32_t output, uint32_t input) {
    return static_cast<size_t>(packed_weight_index(packing, tensor.inputs, output, input));
  };
  for (uint32_t output = 0; output < tensor.outputs; ++output) {
    if (!tensor.bias.empty()) {
      packed[index(output, kBiasRow)] = tensor.bias[output];
    }
    const float* row = weights.data() + size_t{output} * tensor.inputs;
    float* to = packed.data() + index(output, 0);
    for (uint32_t input = 0; input < tensor.inputs; ++input) {
      to[size_t{input} * packing.nr] = row[input];
    }
  }
}

}  // namespace arenite::convert
