// SPDX-License-Identifier: Apache-2.0
// What the converter's reference makes of models that tests describe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convert/families/transformer_graph.h"
#include "convert/graph/interpreter.h"
#include "convert/modules/module_graph.h"

namespace arenite::test {

inline convert::Evaluation reference_decoder(const convert::DecoderSpec& spec,
                                             std::span<const uint32_t> tokens) {
  return convert::evaluate(convert::build_graph(spec), {.tokens = tokens});
}

inline convert::Evaluation reference_encoder(const convert::EncoderSpec& spec,
                                             std::span<const uint32_t> tokens,
                                             std::span<const uint8_t> types = {}) {
  return convert::evaluate(convert::build_graph(spec), {.tokens = tokens, .types = types});
}

inline convert::Evaluation reference_encoder(const convert::EncoderSpec& spec,
                                             std::span<const float> features) {
  return convert::evaluate(convert::build_graph(spec), {.features = features});
}

// features [tokens, module.features], one sequence.
inline convert::Evaluation reference_module(const convert::AttentionModule& module,
                                            std::span<const float> features) {
  return convert::evaluate(convert::build_graph(module), {.features = features});
}

}  // namespace arenite::test
