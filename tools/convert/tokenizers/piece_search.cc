// SPDX-License-Identifier: Apache-2.0
// Of the pieces that are left, the one without a further byte is the first.
#include "convert/tokenizers/piece_search.h"

#include <algorithm>
#include <utility>

namespace arenite::convert {

PieceSearch::PieceSearch(std::vector<std::string_view> texts, TextEdge edge)
    : texts_(std::move(texts)), edge_(edge) {
  for (TokenId id = 0; id < texts_.size(); ++id) {
    if (!texts_[id].empty()) order_.push_back(id);
  }
  std::sort(order_.begin(), order_.end(), [&](TokenId a, TokenId b) {
    const std::string_view left = texts_[a], right = texts_[b];
    const auto is_less = [](char x, char y) {
      return static_cast<uint8_t>(x) < static_cast<uint8_t>(y);
    };
    if (edge_ == TextEdge::kBegin) return left < right;
    return std::lexicographical_compare(left.rbegin(), left.rend(), right.rbegin(), right.rend(),
                                        is_less);
  });
}

void PieceSearch::find(std::string_view text, std::vector<TokenId>& found) const {
  found.assign(text.empty() ? 0 : text.size() - 1, kNoToken);
  auto begin = order_.begin();
  auto end = order_.end();
  for (size_t depth = 0; depth < found.size() && begin != end; ++depth) {
    if (texts_[*begin].size() == depth) ++begin;  // it was found a byte ago
    const uint8_t wanted = byte(text, depth);
    const auto byte_of = [&](TokenId id) { return byte(texts_[id], depth); };
    // Many pieces may have long runs in common, along which none is left out.
    const bool all_have =
        begin != end && byte_of(*begin) == wanted && byte_of(*(end - 1)) == wanted;
    if (!all_have) {
      begin = std::partition_point(begin, end, [&](TokenId id) { return byte_of(id) < wanted; });
      end = std::partition_point(begin, end, [&](TokenId id) { return byte_of(id) == wanted; });
    }
    if (begin != end && texts_[*begin].size() == depth + 1) found[depth] = *begin;
  }
}

}  // namespace arenite::convert
