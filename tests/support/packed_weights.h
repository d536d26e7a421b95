// SPDX-License-Identifier: Apache-2.0
// Weights packed for a kernel set, at the smallest permitted alignment and right before an
// inaccessible page.
#pragma once

#include <algorithm>
#include <span>

#include "core/packing.h"
#include "core/views.h"
#include "support/guarded_buffer.h"

namespace arenite::test {

// Alignment in bytes of what GEMM kernels read as weights: packed weights, keys and values.
inline size_t weight_alignment(Packing packing) {
  return std::min(packing.nr * sizeof(float), size_t{64});
}

// weights [outputs, inputs] and bias [outputs], element by element where packing.h says.
class PackedWeights {
 public:
  PackedWeights(Packing packing, std::span<const float> weights, std::span<const float> bias,
                uint32_t inputs)
      : packing_(packing),
        outputs_(static_cast<uint32_t>(bias.size())),
        inputs_(inputs),
        packed_(
            static_cast<size_t>(
                packed_weight_bytes(packing, static_cast<uint32_t>(bias.size()), inputs).value() /
                sizeof(float)),
            0, weight_alignment(packing)) {
    std::ranges::fill(packed_.span(), 0.0f);
    const auto place = [&](uint32_t output, uint32_t input) {
      return static_cast<size_t>(packed_weight_index(packing, inputs, output, input));
    };
    for (uint32_t n = 0; n < bias.size(); ++n) {
      packed_[place(n, kBiasRow)] = bias[n];
      for (uint32_t k = 0; k < inputs; ++k) {
        packed_[place(n, k)] = weights[size_t{n} * inputs + k];
      }
    }
  }

  const float* data() const { return packed_.data(); }
  WeightView view() const {
    return {reinterpret_cast<const std::byte*>(data()), TensorType::kF32, packing_, outputs_,
            inputs_};
  }

 private:
  Packing packing_;
  uint32_t outputs_;
  uint32_t inputs_;
  GuardedFloats packed_;
};

}  // namespace arenite::test
