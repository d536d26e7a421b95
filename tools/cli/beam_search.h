// SPDX-License-Identifier: Apache-2.0
// Beam search: follows several continuations side by side, and finds the most probable.
//
//   const std::vector<float> logits = writing.begin(inputs, chunk);
//   const BeamResult found = search_beams(writing, logits, tokenizer, {4, 1.0, 64});
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arenite/tokenizer.h"
#include "cli/generate_input.h"

namespace arenite::tool {

inline constexpr uint32_t kBeamsMax = 8;

struct BeamOptions {
  uint32_t beams = 1;
  // The sum of a continuation's log-probabilities is divided by its length to this power.
  double length_penalty = 1.0;
  uint32_t tokens_max = 0;  // of the continuation
};

struct BeamResult {
  std::vector<TokenId> ids;  // without an end token
  uint32_t steps = 0;
  bool has_ended = false;  // by an end token
};

// Searches as transformers does (GenerationMixin._beam_search, without early stopping). `logits`
// are those of the first token. REQUIRES: a session of options.beams + 1 sequences, of which
// `writing` began the first.
BeamResult search_beams(WriterSession& writing, const std::vector<float>& logits,
                        const std::optional<Tokenizer>& tokenizer, const BeamOptions& options);

}  // namespace arenite::tool
