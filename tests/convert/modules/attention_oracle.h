// SPDX-License-Identifier: Apache-2.0
// Attention in plain loops and double precision, on the weights of the test's checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/checkpoint_builder.h"

namespace arenite::test {

// y = x weights^T + bias
struct OracleLinear {
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  std::vector<double> weights;  // [outputs, inputs]
  std::vector<double> bias;     // [outputs], or empty
};

// Rows [begin, begin + outputs) of name.weight and of name.bias, if there is one.
OracleLinear oracle_linear(const CheckpointBuilder& weights, const std::string& name,
                           uint32_t outputs, uint32_t inputs, bool bias = true, uint32_t begin = 0);

struct AttentionOracle {
  uint32_t heads = 1;
  OracleLinear query, key, value;
  std::optional<OracleLinear> output;
  bool separate_inputs = false;  // input columns [query | key | value]
  std::function<bool(uint32_t head, uint32_t query, uint32_t key)> sees;

  uint32_t features() const;
  // input [tokens, features()] -> [tokens, outputs]
  std::vector<double> run(std::span<const float> input, uint32_t tokens) const;
};

inline bool sees_causal(uint32_t, uint32_t query, uint32_t key) { return key <= query; }
inline bool sees_all(uint32_t, uint32_t, uint32_t) { return true; }

}  // namespace arenite::test
