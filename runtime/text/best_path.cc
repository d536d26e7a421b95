// SPDX-License-Identifier: Apache-2.0
// Unigram: of all ways to cut a word into tokens the one with the largest sum of scores. Sums are
// doubles, and equal ones keep the path that begins with the longer token, as Hugging Face's
// library has it.
#include <cassert>
#include <cstring>

#include "core/utf8.h"
#include "text/encoder.h"
#include "text/special_finder.h"

namespace arenite::text {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;

class Paths {
 public:
  Paths(const format::TokenizerView& view, const Part& part, const Piece& piece,
        std::span<uint32_t> work)
      : view_(view),
        part_(part),
        begin_(piece.begin),
        size_(static_cast<uint32_t>(piece.end - piece.begin)),
        work_(work) {
    assert(work.size() >= kPathWords * (size_ + size_t{1}));
    for (uint32_t at = 0; at <= size_; ++at) start(at) = kNowhere;
    keep_score(0, 0.0);
  }

  BestPath run() {
    for (uint32_t at = 0; at < size_;) {
      const uint32_t next = at + part_.code_point(begin_ + at).bytes;
      const double sum = score(at);
      if (!add_tokens(at, next, sum)) {
        offer(next, at, sum + score_at(view_.whole_tokens.size()), kNoToken);
      }
      at = next;
    }
    return turn() ? BestPath{write(), false, 0} : BestPath{0, true, begin_ + refused_};
  }

 private:
  // The best way to here: its score in two halves, where its last token begins, and that token;
  // no token: an unknown character.
  uint32_t& start(uint32_t at) { return work_[kPathWords * at + 2]; }
  TokenId& token(uint32_t at) { return work_[kPathWords * at + 3]; }
  double score(uint32_t at) const {
    double value;
    std::memcpy(&value, &work_[kPathWords * at], sizeof value);
    return value;
  }
  void keep_score(uint32_t at, double value) {
    std::memcpy(&work_[kPathWords * at], &value, sizeof value);
  }
  // Of the file.
  double score_at(size_t place) const {
    double value;
    std::memcpy(&value, &view_.scores[2 * place], sizeof value);
    return value;
  }

  void offer(uint32_t at, uint32_t from, double sum, TokenId last) {
    if (start(at) != kNowhere && !(sum > score(at))) return;
    keep_score(at, sum);
    start(at) = from;
    token(at) = last;
  }

  // All tokens that begin at `at`. False where none is just the character up to `next`.
  bool add_tokens(uint32_t at, uint32_t next, double sum) {
    bool has_single = false;
    PrefixSearch search(view_, view_.whole_tokens);
    for (uint32_t end = at; end < size_;) {
      const CodePoint code_point = part_.code_point(begin_ + end);
      bool found = true;
      for (uint32_t i = 0; found && i < code_point.bytes; ++i) {
        const bool is_space = code_point.value == kLowLine;
        found = search.narrow(is_space ? uint8_t{' '} : part_.byte(begin_ + end + i));
        if (is_space) break;
      }
      if (!found) break;
      end += code_point.bytes;
      const size_t place = search.whole();
      if (place == view_.whole_tokens.size()) continue;
      const TokenId whole = view_.whole_tokens[place];  // the name of the unknown one is unknown
      offer(end, at, sum + score_at(place), whole == view_.unknown_token ? kNoToken : whole);
      has_single = has_single || end == next;
    }
    return has_single;
  }

  // Turns the way around: each place on it then says where its token ends. False where that has
  // to be refused.
  bool turn() {
    bool is_known = true;
    for (uint32_t at = size_; at > 0;) {
      const uint32_t from = start(at);
      if (token(at) == kNoToken && view_.byte_tokens.empty()) {
        is_known = false;
        refused_ = from;
      }
      work_[kPathWords * from] = at;
      at = from;
    }
    return is_known || view_.unknown != format::Unknown::kRefuse;
  }

  // Writes the tokens over what has been passed: they are no more than the bytes.
  uint32_t write() {
    uint32_t count = 0;
    bool unknown_before = false;
    for (uint32_t at = 0; at < size_;) {
      const uint32_t next = work_[kPathWords * at];
      const TokenId last = token(next);
      if (last != kNoToken) {
        work_[count++] = last;
      } else if (!view_.byte_tokens.empty()) {
        for (uint32_t i = at; i < next; ++i) {
          work_[count++] = view_.byte_tokens[part_.byte(begin_ + i)];
        }
      } else if (!unknown_before && view_.unknown == format::Unknown::kToken) {
        work_[count++] = view_.unknown_token;
      }
      unknown_before = last == kNoToken;
      at = next;
    }
    return count;
  }

  const format::TokenizerView& view_;
  const Part& part_;
  const size_t begin_;
  const uint32_t size_;
  std::span<uint32_t> work_;
  uint32_t refused_ = 0;
};

}  // namespace

BestPath best_path(const format::TokenizerView& view, const Part& part, const Piece& piece,
                   std::span<uint32_t> work) {
  return Paths(view, part, piece, work).run();
}

}  // namespace arenite::text
