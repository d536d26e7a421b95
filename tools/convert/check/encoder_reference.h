// SPDX-License-Identifier: Apache-2.0
// Computes an encoder in double precision, straight from its EncoderSpec: the converter's own check
// and the oracle of tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convert/spec/model_spec.h"

namespace arenite::convert {

struct EncoderOutputs {
  // layers + 1 times [tokens, model_dim]: the embeddings after their norm and projection, then the
  // result of each layer, the last one after the final norm.
  std::vector<std::vector<double>> hidden_states;
  std::vector<double> values;  // [rows, features], after pooling, head and normalization
};

// One sequence of at least one token. `types` has the type of each token; empty: 0 for all.
// Weights are read one tensor at a time, again on every call. Throws InputError for ids outside
// their tables and for more than positions_max tokens.
EncoderOutputs reference_encoder(const EncoderSpec& spec, std::span<const uint32_t> tokens,
                                 std::span<const uint8_t> types = {});

// The same for an encoder of features, [tokens, input_features].
EncoderOutputs reference_encoder(const EncoderSpec& spec, std::span<const float> features);

}  // namespace arenite::convert
