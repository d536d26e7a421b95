// SPDX-License-Identifier: Apache-2.0
// Merges the symbols of a piece: while a pair has a rank, merges the pair with the lowest rank, the
// leftmost of equals. Symbols are a linked list; a tournament tree over it finds the next pair.
//   l o w e r, ranks: 0 (l, o), 1 (lo, w), 2 (e, r)   becomes   lo w e r, low e r, low er
#include "text/encoder.h"

#include <cassert>

#include "core/utf8.h"

namespace arenite::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Merge {
  uint32_t rank = format::kNoRank;
  uint32_t token = kNoToken;
};

Merge find_merge(const format::TokenizerView& view, uint32_t left, uint32_t right) {
  const size_t begin = view.merge_begin[left], count = view.merge_begin[left + 1] - begin;
  const size_t place = place_of(view.merge_rights.subspan(begin, count), right);
  if (place == count) return {};
  return {view.merge_ranks[begin + place], view.merge_tokens[begin + place]};
}

// A merge assigns the token of both to the left symbol and unlinks the right one; symbols never
// move. The leaves of the tree are the symbols, each with the rank of the pair that it begins.
class Merger {
 public:
  Merger(const format::TokenizerView& view, std::span<uint32_t> work, uint32_t symbols)
      : view_(view),
        count_(symbols),
        tokens_(work.data()),
        next_(tokens_ + symbols),
        previous_(next_ + symbols),
        ranks_(previous_ + symbols),
        winners_(ranks_ + symbols) {
    for (uint32_t i = 0; i < count_; ++i) {
      next_[i] = i + 1 < count_ ? i + 1 : kNone;
      previous_[i] = i > 0 ? i - 1 : kNone;
      rank_pair(i);
    }
    for (uint32_t node = count_ - 1; node > 0; --node) play(node);
  }

  uint32_t run() {
    while (ranks_[winners_[1]] != format::kNoRank) merge_at(winners_[1]);
    uint32_t merged = 0;
    for (uint32_t i = 0; i != kNone; i = next_[i]) tokens_[merged++] = tokens_[i];
    return merged;
  }

 private:
  void merge_at(uint32_t left) {
    const uint32_t right = next_[left];
    tokens_[left] = find_merge(view_, tokens_[left], tokens_[right]).token;
    next_[left] = next_[right];
    if (next_[left] != kNone) previous_[next_[left]] = left;
    ranks_[right] = format::kNoRank;
    replay(right);
    rank_pair(left);
    replay(left);
    if (previous_[left] != kNone) {
      rank_pair(previous_[left]);
      replay(previous_[left]);
    }
  }

  void rank_pair(uint32_t left) {
    ranks_[left] = next_[left] == kNone
                       ? format::kNoRank
                       : find_merge(view_, tokens_[left], tokens_[next_[left]]).rank;
  }

  // Nodes [1, count_) of the tree store their winners; nodes [count_, 2 * count_) are its leaves,
  // which are not stored.
  uint32_t winner(uint32_t node) const { return node >= count_ ? node - count_ : winners_[node]; }

  void play(uint32_t node) {
    const uint32_t a = winner(2 * node);
    const uint32_t b = winner(2 * node + 1);
    const bool a_wins = ranks_[a] != ranks_[b] ? ranks_[a] < ranks_[b] : a < b;
    winners_[node] = a_wins ? a : b;
  }

  void replay(uint32_t symbol) {
    for (uint32_t node = (symbol + count_) / 2; node > 0; node /= 2) play(node);
  }

  const format::TokenizerView& view_;
  const uint32_t count_;
  uint32_t* const tokens_;
  uint32_t* const next_;
  uint32_t* const previous_;
  uint32_t* const ranks_;
  uint32_t* const winners_;
};

}  // namespace

uint32_t merge(const format::TokenizerView& view, std::span<uint32_t> work, uint32_t symbols) {
  assert(work.size() >= size_t{kMergeWords} * symbols);
  if (symbols < 2 || view.merge_begin.empty()) return symbols;
  return Merger(view, work, symbols).run();
}

}  // namespace arenite::text
