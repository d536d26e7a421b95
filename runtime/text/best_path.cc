// SPDX-License-Identifier: Apache-2.0
// Unigram tokenization: finds the segmentation of a piece into tokens with the largest sum of
// scores, by dynamic programming (Viterbi) over the ends of tokens:
//   score(0) = 0, score(end) = max over tokens [begin, end) of score(begin) + score(token)
// Scores are doubles; among equal sums, the path with the longer last token wins, as in Hugging
// Face's library. SentencePiece keeps sums as floats: it adds, compares, then rounds.
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
        offer(next, at, rounded(sum + score_at(view_.whole_tokens.size())), kNoToken);
      }
      at = next;
    }
    return turn() ? BestPath{write(), false, 0} : BestPath{0, true, begin_ + refused_};
  }

 private:
  // Accessors of the best path to byte `at` of the piece, stored in kPathWords elements: its score
  // in two halves, the start of its last token, and that token, which is kNoToken for an unknown
  // character.
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
  // Returns the score of a token in whole_tokens, from the file.
  double score_at(size_t place) const {
    double value;
    std::memcpy(&value, &view_.scores[2 * place], sizeof value);
    return value;
  }

  double rounded(double sum) const {
    return view_.has(format::kAsSentencePiece) ? static_cast<double>(static_cast<float>(sum)) : sum;
  }

  void offer(uint32_t at, uint32_t from, double sum, TokenId last) {
    if (start(at) != kNowhere && !(sum > score(at))) return;
    keep_score(at, rounded(sum));
    start(at) = from;
    token(at) = last;
  }

  // Offers all tokens that begin at `at`. Returns false if none of them is exactly the character
  // [at, next).
  bool add_tokens(uint32_t at, uint32_t next, double sum) {
    bool has_single = false;
    PrefixSearch search(view_, view_.whole_tokens);
    for (uint32_t end = at; end < size_;) {
      const CodePoint code_point = part_.code_point(begin_ + end);
      bool found = true;
      for (uint32_t i = 0; found && i < code_point.bytes; ++i) {
        const bool is_space = code_point.value == kSpaceMark;
        found = search.narrow(is_space ? uint8_t{' '} : part_.byte(begin_ + end + i));
        if (is_space) break;
      }
      if (!found) break;
      end += code_point.bytes;
      const size_t place = search.whole();
      if (place == view_.whole_tokens.size()) continue;
      const TokenId whole = view_.whole_tokens[place];  // a match of unknown_token stays unknown
      offer(end, at, sum + score_at(place), whole == view_.unknown_token ? kNoToken : whole);
      has_single = has_single || end == next;
    }
    return has_single;
  }

  // Reverses the links of the best path: work_[kPathWords * start] becomes the end of the token
  // that starts there. Returns false if the path has an unknown character that must be refused.
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

  // Writes the tokens over the front of the work space, which is already read: there are at most as
  // many as bytes.
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
