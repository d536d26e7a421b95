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

// The steps of sampling, applied in this order; each default disables its step. NaN and infinity
// are out of range.
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

// An element of the work space of Sampler::sample.
struct Candidate {
  float weight;  // a logit, then exp((logit - largest logit) / temperature)
  TokenId id;    // index of the logit
};

// Samples tokens. Holds its options and a count of random draws, no pointers. A copy continues from
// the same state. At most one thread at a time may call `sample` of a sampler.
class Sampler {
 public:
  Sampler() = default;  // greedy

  // Fails with kInvalidArgument for options out of range; `why` names the field.
  static Result<Sampler> create(const SamplerOptions& options, Diagnostic* why = nullptr);

  // Returns the elements of work space that sample needs: 0 if greedy, top_k if set, else one per
  // logit.
  size_t candidates_needed(size_t logits) const;

  // Returns one token: an index into `logits`, float32 [vocabulary]. `recent` lists the tokens that
  // the repetition penalty applies to, in any order; repeated tokens count once. Among equal logits
  // the lowest id comes first. A logit of -infinity is never picked. Fails with kInvalidArgument if
  // a logit is NaN or +infinity, if all are -infinity or there are none, if an id in `recent` has
  // no logit, or if `scratch` is smaller than candidates_needed(logits.size()); the sampler is then
  // unchanged.
  Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> recent,
                         std::span<Candidate> scratch, Diagnostic* why = nullptr);

  // Returns the number of random numbers drawn so far: one per token, none if greedy.
  uint64_t draws() const { return draws_; }
  // Moves the generator back or forward in O(1), e.g. to a value of draws().
  void set_draws(uint64_t draws) { draws_ = draws; }

 private:
  SamplerOptions options_;
  uint64_t draws_ = 0;
};

}  // namespace arenite
