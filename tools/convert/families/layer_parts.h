// SPDX-License-Identifier: Apache-2.0
// What layers of all models consist of, as their author trained them and before anything is folded,
// fused or packed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/op_kinds.h"

namespace arenite::convert {

using arenite::Activation;
using arenite::NormKind;

// Readers refuse sizes beyond these, so that products stay far from overflow and a config that lies
// costs nothing.
inline constexpr uint32_t kSideMax = 1u << 24;  // of a matrix
inline constexpr uint32_t kLayersMax = 1024;

// A weight matrix, read from its file only when asked for: a model may be larger than memory.
// Whatever the file does differently is undone inside `load`: transposed, fused, quantized or
// reordered storage. A WeightRef keeps the files that it reads open.
struct WeightRef {
  std::string name;  // of the tensor in the file, for messages
  uint32_t rows = 0;
  uint32_t columns = 0;
  // [rows, columns], row-major, all finite. Throws InputError. Each call reads again.
  std::function<std::vector<float>()> load;
};

// y = x weight^T + bias: weight is [outputs, inputs].
struct LinearSpec {
  WeightRef weight;
  std::vector<float> bias;  // [outputs], or empty
};

// layer: (x - mean) / sqrt(variance + epsilon) * gain + bias
// rms:   x / sqrt(mean of squares + epsilon) * gain, or * (1 + gain)
struct NormSpec {
  std::string name;  // of the gain's tensor in the file
  NormKind kind = NormKind::kLayer;
  std::vector<float> gain;  // [features]
  std::vector<float> bias;  // [features], or empty
  double epsilon = 0.0;
  bool gain_plus_one = false;
};

}  // namespace arenite::convert
