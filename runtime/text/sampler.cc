// SPDX-License-Identifier: Apache-2.0
// Samples a token: keeps the top_k logits, turns them into weights, filters by top_p and min_p, and
// draws one. Heaps of candidates avoid sorting more of them than needed.
#include "arenite/sampler.h"

#include <algorithm>
#include <limits>

#include "core/message.h"
#include "text/random.h"

namespace arenite {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Whether `a` comes before `b`: a larger weight, or an equal one with a lower id.
bool better(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

// A binary heap over candidates, with the worst or the best in front. The order of its elements
// decides which token is drawn; std heaps are not used because their orders differ by library.
class Heap {
 public:
  Heap(Candidate* at, bool worst_in_front) : at_(at), worst_in_front_(worst_in_front) {}

  void make(size_t count) const {
    for (size_t place = count / 2; place-- > 0;) sink(place, count, at_[place]);
  }
  // Adds the candidate at index `count` to the heap of the first `count`.
  void push(size_t count) const { rise(count, 0, at_[count]); }
  // Moves the front of the heap to index count - 1; the candidates before it stay a heap.
  void pop(size_t count) const {
    const Candidate last = at_[count - 1];
    at_[count - 1] = at_[0];
    if (count > 1) sink(0, count - 1, last);
  }

 private:
  // Whether `b` belongs in front of `a`.
  bool is_after(const Candidate& a, const Candidate& b) const {
    return worst_in_front_ ? better(a, b) : better(b, a);
  }
  // Moves the child that belongs in front to `place`, and repeats this down to a leaf; puts
  // `candidate` there and lets it rise.
  [[gnu::noinline]] void sink(size_t place, size_t count, Candidate candidate) const {
    const size_t top = place;
    for (size_t child = 2 * place + 1; child < count; child = 2 * place + 1) {
      if (child + 1 < count && !is_after(at_[child + 1], at_[child])) ++child;
      at_[place] = at_[child];
      place = child;
    }
    rise(place, top, candidate);
  }
  [[gnu::noinline]] void rise(size_t place, size_t top, Candidate candidate) const {
    while (place > top && is_after(at_[(place - 1) / 2], candidate)) {
      at_[place] = at_[(place - 1) / 2];
      place = (place - 1) / 2;
    }
    at_[place] = candidate;
  }

  Candidate* at_;
  bool worst_in_front_;
};

bool is_among(std::span<const TokenId> ids, TokenId id) {
  for (const TokenId one : ids) {  // libraries unroll std::find even at -Os
    if (one == id) return true;
  }
  return false;
}

// The logits with the repetition penalty of recent tokens.
class Logits {
 public:
  Logits(std::span<const float> values, std::span<const TokenId> recent, float penalty)
      : values_(values), recent_(recent), penalty_(penalty) {}

  TokenId size() const { return static_cast<TokenId>(values_.size()); }

  // at_most returns a cheap upper bound; at is exact and searches the recent tokens.
  float at_most(TokenId id) const {
    return penalty_ == 1.0f ? values_[id] : std::max(values_[id], penalized(values_[id]));
  }
  float at(TokenId id) const {
    const bool is_recent = penalty_ != 1.0f && is_among(recent_, id);
    return is_recent ? penalized(values_[id]) : values_[id];
  }

 private:
  // value > 0 ? value / penalty : value * penalty; clamped, so that finite values stay finite.
  float penalized(float value) const {
    if (value == -kInfinity) return value;
    const float changed = value > 0.0f ? value / penalty_ : value * penalty_;
    return std::clamp(changed, -kLargest, kLargest);
  }

  std::span<const float> values_;
  std::span<const TokenId> recent_;
  float penalty_;
};

TokenId argmax(const Logits& logits) {
  TokenId best = 0;
  float best_value = -kInfinity;
  for (TokenId id = 0; id < logits.size(); ++id) {
    if (logits.at_most(id) <= best_value) continue;
    const float value = logits.at(id);
    if (value <= best_value) continue;
    best = id;
    best_value = value;
  }
  return best;
}

// Fills `kept` with the best logits: as a heap with the worst in front, or all in the order of ids.
void keep_best(const Logits& logits, std::span<Candidate> kept) {
  const Heap heap(kept.data(), true);
  size_t count = 0;
  for (TokenId id = 0; id < logits.size(); ++id) {
    const bool is_full = count == kept.size();
    if (is_full && logits.at_most(id) <= kept.front().weight) continue;
    const Candidate candidate{logits.at(id), id};
    if (is_full) {
      if (!better(candidate, kept.front())) continue;
      heap.pop(count--);
    }
    kept[count] = candidate;
    if (kept.size() < logits.size()) heap.push(count);
    ++count;
  }
}

// weight = exp((logit - largest logit) / temperature); the largest weight is 1.
void weigh(std::span<Candidate> candidates, float temperature) {
  float largest = -kInfinity;
  for (const Candidate& candidate : candidates) largest = std::max(largest, candidate.weight);
  for (Candidate& candidate : candidates) {
    candidate.weight = text::exp_nonpositive((candidate.weight - largest) / temperature);
  }
}

double sum(std::span<const Candidate> candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += static_cast<double>(candidate.weight);
  return total;
}

// Moves the candidates that top_p and min_p keep to the back and returns them. Never empty.
std::span<Candidate> cut(std::span<Candidate> candidates, const SamplerOptions& options) {
  if (options.top_p >= 1.0f && options.min_p <= 0.0f) return candidates;
  const double enough = options.top_p < 1.0f ? sum(candidates) * static_cast<double>(options.top_p)
                                             : static_cast<double>(kInfinity);
  const Heap heap(candidates.data(), false);
  heap.make(candidates.size());
  double total = 0.0;
  size_t left = candidates.size();
  while (left > 0 && total < enough && candidates.front().weight >= options.min_p) {
    total += static_cast<double>(candidates.front().weight);
    heap.pop(left--);
  }
  return candidates.subspan(left);
}

TokenId draw(std::span<const Candidate> candidates, double uniform) {
  const double mark = uniform * sum(candidates);
  double total = 0.0;
  TokenId picked = candidates.back().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight <= 0.0f) continue;
    picked = candidate.id;
    total += static_cast<double>(candidate.weight);
    if (total > mark) break;
  }
  return picked;
}

Status check_logits(std::span<const float> logits, std::span<const TokenId> recent,
                    Diagnostic* why) {
  constexpr Status kInvalid = Status::kInvalidArgument;
  if (logits.empty() || logits.size() >= kNoToken) {
    return refuse(why, kInvalid, "there are no logits, or too many", "logits");
  }
  bool has_finite = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) {
      return refuse(why, kInvalid, "a logit is NaN or infinite", "logits",
                    static_cast<uint32_t>(i));
    }
    has_finite = has_finite || logits[i] > -kInfinity;
  }
  if (!has_finite) return refuse(why, kInvalid, "every logit is -infinity", "logits");
  for (size_t i = 0; i < recent.size(); ++i) {
    if (recent[i] >= logits.size()) {
      return refuse(why, kInvalid, "a recent token has no logit", "recent",
                    static_cast<uint32_t>(i), recent[i], logits.size());
    }
  }
  return Status::kOk;
}

}  // namespace

Result<Sampler> Sampler::create(const SamplerOptions& options, Diagnostic* why) {
  clear(why);
  constexpr Status kInvalid = Status::kInvalidArgument;
  // NaN fails each of these comparisons.
  if (!(options.repetition_penalty > 0.0f && options.repetition_penalty < kInfinity)) {
    return refuse(why, kInvalid, "repetition_penalty must be finite and above 0",
                  "repetition_penalty");
  }
  if (!(options.temperature >= 0.0f && options.temperature < kInfinity)) {
    return refuse(why, kInvalid, "temperature must be finite and at least 0", "temperature");
  }
  if (!(options.top_p > 0.0f && options.top_p <= 1.0f)) {
    return refuse(why, kInvalid, "top_p must be above 0 and at most 1", "top_p");
  }
  if (!(options.min_p >= 0.0f && options.min_p <= 1.0f)) {
    return refuse(why, kInvalid, "min_p must be from 0 to 1", "min_p");
  }
  Sampler sampler;
  sampler.options_ = options;
  return sampler;
}

size_t Sampler::candidates_needed(size_t logits) const {
  if (options_.temperature == 0.0f) return 0;
  return options_.top_k == 0 ? logits : std::min(logits, size_t{options_.top_k});
}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> recent,
                                std::span<Candidate> scratch, Diagnostic* why) {
  clear(why);
  const Status status = check_logits(logits, recent, why);
  if (status != Status::kOk) return status;
  const size_t needed = candidates_needed(logits.size());
  if (scratch.size() < needed) {
    return refuse(why, Status::kInvalidArgument, "the work space is too small for these options",
                  "scratch", 0, scratch.size(), needed);
  }
  const Logits penalized(logits, recent, options_.repetition_penalty);
  if (options_.temperature == 0.0f) return argmax(penalized);
  const std::span<Candidate> candidates = scratch.first(needed);
  keep_best(penalized, candidates);
  weigh(candidates, options_.temperature);
  return draw(cut(candidates, options_), text::uniform(options_.seed, draws_++));
}

}  // namespace arenite
