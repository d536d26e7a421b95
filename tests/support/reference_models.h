// SPDX-License-Identifier: Apache-2.0
// Computes models that tests describe with the converter's reference.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convert/families/families.h"
#include "convert/graph/interpreter.h"
#include "convert/modules/attention_modules.h"

namespace arenite::convert {

inline Evaluation reference_decoder(const TransformerSpec& spec, std::span<const uint32_t> tokens) {
  return evaluate(build_graph(spec), {.tokens = tokens});
}

inline Evaluation reference_encoder(const TransformerSpec& spec, std::span<const uint32_t> tokens,
                                    std::span<const uint8_t> types = {}) {
  return evaluate(build_graph(spec), {.tokens = tokens, .types = types});
}

inline Evaluation reference_encoder(const TransformerSpec& spec, std::span<const float> features) {
  return evaluate(build_graph(spec), {.features = features});
}

// features [tokens, module.features], one sequence.
inline Evaluation reference_module(const AttentionModule& module, std::span<const float> features) {
  return evaluate(build_graph(module), {.features = features});
}

}  // namespace arenite::convert
