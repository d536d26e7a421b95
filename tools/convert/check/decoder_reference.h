// SPDX-License-Identifier: Apache-2.0
// Computes a decoder in double precision, straight from its DecoderSpec: the converter's own check
// and the oracle of tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convert/spec/model_spec.h"

namespace arenite::convert {

struct DecoderOutputs {
  // layers + 1 times [tokens, model_dim]: the embeddings, then the result of each layer, the last
  // one after the final norm.
  std::vector<std::vector<double>> hidden_states;
  std::vector<double> logits;  // [tokens, vocab_size]; of a headless model its last hidden states
};

// One sequence, all positions at once. Weights are read one tensor at a time, again on every call.
// Throws InputError for a token outside the vocabulary and for more than positions_max of them.
DecoderOutputs reference_decoder(const DecoderSpec& spec, std::span<const uint32_t> tokens);

}  // namespace arenite::convert
