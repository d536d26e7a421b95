// SPDX-License-Identifier: Apache-2.0
// A fuzz target: any options, logits and recent tokens. The sampled token must be one that the
// options leave, checked with a sort and double precision.
#include "arenite/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "fuzz/choices.h"
#include "fuzz/guarded_region.h"
#include "fuzz/require.h"

namespace arenite::test {
namespace {

constexpr uint32_t kLogitsMax = 300;
constexpr uint32_t kDraws = 3;
constexpr double kSlack = 1e-3;  // weights are computed in float32
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Any bits now and then, mostly what an application would pass.
float any_number(Choices& choices, float scale) {
  if (choices.one_in(16)) {
    return std::bit_cast<float>(choices.below(1u << 16) << 16 | choices.below(1u << 16));
  }
  return static_cast<float>(choices.below(256)) / 255.0f * scale;
}

SamplerOptions any_options(Choices& choices) {
  SamplerOptions options;
  if (choices.one_in(2)) options.repetition_penalty = any_number(choices, 3.0f);
  if (!choices.one_in(4)) options.temperature = any_number(choices, 2.0f);
  if (choices.one_in(2)) options.top_k = choices.below(choices.one_in(8) ? UINT32_MAX : 20);
  if (choices.one_in(2)) options.top_p = any_number(choices, 1.0f);
  if (choices.one_in(2)) options.min_p = any_number(choices, 1.0f);
  options.seed = choices.below(256);
  return options;
}

// Applies the penalty and sorts, as the header defines.
std::vector<Candidate> sorted(std::span<const float> logits, std::span<const TokenId> recent,
                              const SamplerOptions& options) {
  std::vector<Candidate> order;
  for (TokenId id = 0; id < logits.size(); ++id) {
    float value = logits[id];
    if (std::ranges::find(recent, id) != recent.end() && value != -kInfinity) {
      value =
          value > 0.0f ? value / options.repetition_penalty : value * options.repetition_penalty;
      constexpr float kLargest = std::numeric_limits<float>::max();
      value = std::clamp(value, -kLargest, kLargest);
    }
    order.push_back({value, id});
  }
  std::ranges::stable_sort(order, [](auto& a, auto& b) { return a.weight > b.weight; });
  return order;
}

void check_picked(const std::vector<Candidate>& order, const SamplerOptions& options,
                  TokenId picked) {
  const auto place = std::ranges::find(order, picked, &Candidate::id);
  require(place != order.end() && place->weight > -kInfinity, "a token that can be picked");
  const auto rank = static_cast<size_t>(place - order.begin());
  if (options.temperature == 0.0f) return require(rank == 0, "greedy takes the largest");
  require(options.top_k == 0 || rank < options.top_k, "one of the k most probable");
  const size_t kept =
      options.top_k == 0 ? order.size() : std::min<size_t>(order.size(), options.top_k);
  std::vector<double> weights;
  double total = 0.0;
  for (size_t i = 0; i < kept; ++i) {
    const double below =
        static_cast<double>(order[i].weight) - static_cast<double>(order[0].weight);
    weights.push_back(std::exp(below / static_cast<double>(options.temperature)));
    total += weights.back();
  }
  // Logits that differ may have the same weight, and then any of them may go first.
  double before = 0.0;
  for (const double weight : weights) before += weight > weights[rank] + kSlack ? weight : 0.0;
  require(before <= total * static_cast<double>(options.top_p) + kSlack * total,
          "the better ones do not reach top_p");
  require(weights[rank] + kSlack >= static_cast<double>(options.min_p), "at least min_p");
}

void sample(Sampler sampler, const SamplerOptions& options, Choices& choices) {
  static GuardedRegion logit_region(kLogitsMax * sizeof(float));
  static GuardedRegion scratch_region(kLogitsMax * sizeof(Candidate));
  const uint32_t count = choices.below(kLogitsMax + 1);
  const std::span<std::byte> memory = logit_region.lend(count * sizeof(float), alignof(float));
  const std::span<float> logits(reinterpret_cast<float*>(memory.data()), count);
  for (float& logit : logits) logit = any_number(choices, 20.0f) - 10.0f;
  std::vector<TokenId> recent(choices.below(8));
  for (TokenId& id : recent) id = choices.below(count + 1);
  const size_t needed = sampler.candidates_needed(count);
  const std::span<std::byte> space =
      scratch_region.lend(needed * sizeof(Candidate), alignof(Candidate));
  const std::span<Candidate> scratch(reinterpret_cast<Candidate*>(space.data()), needed);
  Diagnostic why;
  for (uint32_t draws = 0; draws < kDraws; ++draws) {
    if (needed > 0) {
      require(!sampler.sample(logits, recent, scratch.first(needed - 1)).ok(), "too little space");
    }
    Sampler twin = sampler;
    const Result<TokenId> picked = sampler.sample(logits, recent, scratch, &why);
    if (!picked.ok()) {
      require(why.reason != nullptr && sampler.draws() == twin.draws(), "a refusal says why");
      return;
    }
    const bool is_greedy = options.temperature == 0.0f;
    require(sampler.draws() == draws + (is_greedy ? 0 : 1) - (is_greedy ? draws : 0),
            "one random number for each token");
    check_picked(sorted(logits, recent, options), options, *picked);
    const Result<TokenId> again = twin.sample(logits, recent, scratch);
    require(again.ok() && *again == *picked, "the same seed picks the same");
  }
  scratch_region.check();
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  Choices choices({data, size});
  const arenite::SamplerOptions options = any_options(choices);
  arenite::Diagnostic why;
  const arenite::Result<arenite::Sampler> sampler = arenite::Sampler::create(options, &why);
  if (sampler.ok()) {
    sample(*sampler, options, choices);
  } else {
    require(why.field != nullptr, "a refusal names the option");
  }
  return 0;
}
