// SPDX-License-Identifier: Apache-2.0
// Picks the next token from the logits of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/status.h"
#include "arenite/token.h"

namespace arenite {

// The steps are taken in this order; each default switches its step off.
struct SamplerOptions {
  // Logits of tokens among the recent ones are divided by it, or multiplied if negative. Above 0.
  float repetition_penalty = 1.0f;
  // Logits are divided by it. 0 takes the largest one, and nothing below is looked at.
  float temperature = 0.0f;
  // Keeps the k most probable tokens. 0: all.
  uint32_t top_k = 0;
  // Keeps the most probable tokens until their probabilities add up to it. Above 0, at most 1.
  float top_p = 1.0f;
  // Keeps the tokens at least this many times as probable as the best. From 0 to 1.
  float min_p = 0.0f;
  // Two samplers with the same seed pick the same tokens, on every platform.
  uint64_t seed = 0;
};

// An entry of the sampler's work space.
struct Candidate {
  float weight;
  TokenId id;
};

// Holds its options and two numbers; a copy of it is a point to go back to.
class Sampler {
 public:
  // Greedy.
  Sampler() = default;

  // Fails with kInvalidArgument for options out of range; `why` names the field.
  static Result<Sampler> create(const SamplerOptions& options, Diagnostic* why = nullptr);

  // Entries of work space that sample needs: none if greedy, top_k if set, else one for each logit.
  size_t candidates_needed(size_t logits) const;

  // One token. `recent` are the tokens that the repetition penalty is for, in any order, of any
  // number; each counts once. Equal logits: the lowest id goes first. Logits of -infinity are never
  // picked. Fails with kInvalidArgument if a logit is NaN or +infinity, or all are -infinity, or
  // `scratch` is smaller than candidates_needed(logits.size()); the sampler is then unchanged.
  Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> recent,
                         std::span<Candidate> scratch, Diagnostic* why = nullptr);

  // The number of random numbers drawn so far, one for each token unless greedy. Setting it goes
  // back, or ahead, at once.
  uint64_t draws() const { return draws_; }
  void set_draws(uint64_t draws) { draws_ = draws; }

 private:
  SamplerOptions options_;
  uint64_t draws_ = 0;
};

}  // namespace arenite
