// SPDX-License-Identifier: Apache-2.0
// Samples the next token from the logits of a model:
//
//     Result<Sampler> sampler = Sampler::create({.temperature = 0.8f, .top_k = 40});
//     const Result<TokenId> next = sampler->sample(output.row(0), recent, candidates);
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/status.h"
#include "arenite/token.h"

namespace arenite {

// The steps are applied in this order; each default disables its step.
struct SamplerOptions {
  // Logits of recent tokens are divided by it if positive, multiplied if negative. Above 0.
  float repetition_penalty = 1.0f;
  // Divides the logits. 0 picks the largest logit and ignores the options below.
  float temperature = 0.0f;
  // Keeps the k most probable tokens. 0: all.
  uint32_t top_k = 0;
  // Keeps the most probable tokens until their probabilities add up to top_p. Above 0, at most 1.
  float top_p = 1.0f;
  // Keeps the tokens that are at least min_p times as probable as the best. From 0 to 1.
  float min_p = 0.0f;
  // Two samplers with the same seed pick the same tokens, on every platform.
  uint64_t seed = 0;
};

struct Candidate {
  float weight;
  TokenId id;
};

// Holds its options and a count of random draws, no pointers. A copy continues from the same state.
class Sampler {
 public:
  Sampler() = default;

  // Fails with kInvalidArgument for options out of range; `why` names the field.
  static Result<Sampler> create(const SamplerOptions& options, Diagnostic* why = nullptr);

  // Returns the elements of work space that sample needs: 0 if greedy, top_k if set, else one per
  // logit.
  size_t candidates_needed(size_t logits) const;

  // Returns one token. `recent` lists the tokens that the repetition penalty applies to, in any
  // order; repeated tokens count once. Among equal logits the lowest id comes first. A logit of
  // -infinity is never picked. Fails with kInvalidArgument if a logit is NaN or +infinity, if all
  // are -infinity, or if `scratch` is smaller than candidates_needed(logits.size()); the sampler is
  // then unchanged.
  Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> recent,
                         std::span<Candidate> scratch, Diagnostic* why = nullptr);

  // The number of random numbers drawn so far: one per token, none if greedy. Setting it moves the
  // generator back or forward in O(1).
  uint64_t draws() const { return draws_; }
  void set_draws(uint64_t draws) { draws_ = draws; }

 private:
  SamplerOptions options_;
  uint64_t draws_ = 0;
};

}  // namespace arenite
