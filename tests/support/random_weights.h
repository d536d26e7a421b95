// SPDX-License-Identifier: Apache-2.0
// Random weights of test models. The name of each tensor gives its seed, so that a change in a
// shape keeps the weights of other tensors.
#ifndef ARENITE_TESTS_SUPPORT_RANDOM_WEIGHTS_H_
#define ARENITE_TESTS_SUPPORT_RANDOM_WEIGHTS_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convert/spec/model_spec.h"
#include "support/random.h"

namespace arenite::test {

// FNV-1a (Fowler, Noll, Vo).
inline uint64_t seed_of(const std::string& name) {
  uint64_t seed = 0xCBF29CE484222325u;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return seed;
}

inline std::vector<float> random_values(const std::string& name, size_t count, float limit) {
  std::vector<float> drawn(count);
  Random(seed_of(name)).fill(drawn, limit);
  return drawn;
}

// Biases and gains, which float32 holds.
inline std::vector<double> random_vector(const std::string& name, size_t count, float limit) {
  const std::vector<float> drawn = random_values(name, count, limit);
  return {drawn.begin(), drawn.end()};
}

inline convert::WeightRef random_weight(const std::string& name, uint32_t rows, uint32_t columns,
                                        float limit) {
  const auto drawn =
      std::make_shared<std::vector<float>>(random_values(name, size_t{rows} * columns, limit));
  return {name, rows, columns, [drawn] { return *drawn; }};
}

// Keeps the variance of the outputs near that of the inputs.
inline convert::LinearSpec random_linear(const std::string& name, uint32_t outputs, uint32_t inputs,
                                         bool bias) {
  convert::LinearSpec spec;
  spec.weight = random_weight(name, outputs, inputs, std::sqrt(3.0f / static_cast<float>(inputs)));
  if (bias) spec.bias = random_vector(name + ".bias", outputs, 0.2f);
  return spec;
}

inline convert::NormSpec random_norm(const std::string& name, NormKind kind, uint32_t width) {
  convert::NormSpec spec;
  spec.name = name;
  spec.kind = kind;
  for (const float gain : random_values(name, width, 0.3f)) spec.gain.push_back(gain + 1.0f);
  if (kind == NormKind::kLayer) spec.bias = random_vector(name + ".bias", width, 0.2f);
  spec.epsilon = 1e-5;
  return spec;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_RANDOM_WEIGHTS_H_
