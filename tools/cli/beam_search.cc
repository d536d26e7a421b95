// SPDX-License-Identifier: Apache-2.0
// In each step more candidates than beams are kept, since some of them end the text: as many more
// for each end token.
#include "cli/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

namespace arenite::tool {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Choice {
  double score = kNever;  // sum of log-probabilities
  uint32_t beam = 0;
  TokenId id = 0;
};

struct Beam {
  double score = kNever;
  std::vector<TokenId> ids{};
};

// A continuation that is complete, with its score after the length penalty.
struct Finished {
  double score = kNever;
  std::vector<TokenId> ids{};
  bool has_ended = false;
};

// Appends score + log(softmax(logits)) for each token of a beam.
void add_candidates(const std::vector<float>& logits, uint32_t index, double score,
                    std::vector<Choice>& all) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double shift = score - largest - std::log(sum);
  for (TokenId id = 0; id < logits.size(); ++id) all.push_back({logits[id] + shift, index, id});
}

void keep_best(std::vector<Choice>& all, size_t count) {
  const auto end = all.begin() + static_cast<ptrdiff_t>(std::min(count, all.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const Choice& a, const Choice& b) {
    return std::tuple(-a.score, a.beam, a.id) < std::tuple(-b.score, b.beam, b.id);
  });
  all.erase(end, all.end());
}

class Search {
 public:
  Search(const std::optional<Tokenizer>& tokenizer, const BeamOptions& options)
      : tokenizer_(tokenizer), options_(options), beams_(1) {
    beams_[0].score = 0.0;
    uint32_t ends = 0;
    for (TokenId id = 0; tokenizer && id < tokenizer->vocab_size(); ++id) {
      if (tokenizer->is_end(id)) ++ends;
    }
    kept_ = size_t{options.beams} * (1 + std::max(ends, 1u));
  }

  // Takes the logits after each beam. Returns whether to go on; parents() and last_ids() then say
  // how.
  bool advance(const std::vector<std::vector<float>>& logits) {
    std::vector<Choice> candidates;
    for (uint32_t i = 0; i < beams_.size(); ++i) {
      add_candidates(logits[i], i, beams_[i].score, candidates);
    }
    keep_best(candidates, kept_);
    ++length_;
    const bool is_full = length_ == options_.tokens_max;
    std::vector<Beam> next;
    parents_.clear();
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Choice& one = candidates[i];
      const bool ends = tokenizer_ && tokenizer_->is_end(one.id);
      std::vector<TokenId> ids = beams_[one.beam].ids;
      if (!ends) ids.push_back(one.id);
      if (ends || is_full) {
        // A candidate that ends counts if it is among the best as many as there are beams.
        if (i < options_.beams) finish({penalized(one.score), std::move(ids), ends});
      } else if (next.size() < options_.beams) {
        next.push_back({one.score, std::move(ids)});
        parents_.push_back(one.beam);
      }
    }
    beams_ = std::move(next);
    return !is_full && !beams_.empty() && can_improve();
  }

  const std::vector<uint32_t>& parents() const { return parents_; }
  std::vector<TokenId> last_ids() const {
    std::vector<TokenId> ids;
    for (const Beam& beam : beams_) ids.push_back(beam.ids.back());
    return ids;
  }

  Finished best() const { return finished_.front(); }

 private:
  double penalized(double score) const {
    return score / std::pow(double{1} * length_, options_.length_penalty);
  }

  void finish(Finished one) {
    finished_.push_back(std::move(one));
    std::ranges::stable_sort(finished_, std::greater(), &Finished::score);
    if (finished_.size() > options_.beams) finished_.pop_back();
  }

  // Whether the best beam could still replace a finished continuation.
  bool can_improve() const {
    return finished_.size() < options_.beams ||
           penalized(beams_.front().score) > finished_.back().score;
  }

  const std::optional<Tokenizer>& tokenizer_;
  const BeamOptions& options_;
  size_t kept_ = 0;  // candidates of a step
  std::vector<Beam> beams_;
  std::vector<uint32_t> parents_;   // beam that each of beams_ continues
  std::vector<Finished> finished_;  // the best first
  uint32_t length_ = 0;
};

}  // namespace

BeamResult search_beams(WriterSession& writing, const std::vector<float>& logits,
                        const std::optional<Tokenizer>& tokenizer, const BeamOptions& options) {
  Search search(tokenizer, options);
  uint32_t steps = 0;
  for (bool goes_on = search.advance({logits}); goes_on; ++steps) {
    writing.reorder(search.parents());
    goes_on = search.advance(writing.step_all(search.last_ids()));
  }
  Finished best = search.best();
  return {std::move(best.ids), steps, best.has_ended};
}

}  // namespace arenite::tool
