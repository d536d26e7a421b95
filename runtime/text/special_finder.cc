// SPDX-License-Identifier: Apache-2.0
// Searches for the names of special tokens. They are sorted by their bytes, so each byte of the
// text narrows the candidates to a smaller range:
//   names "<a>", "<ab>", "<b>"   after "<a": the range of "<a>" and "<ab>"
#include "text/special_finder.h"

#include <algorithm>

#include "core/utf8.h"

namespace arenite::text {

namespace {

// Returns the code point that ends at `end`, or an invalid one if UTF-8 is invalid there.
// REQUIRES: end > 0.
CodePoint code_point_before(std::string_view text, size_t end) {
  for (uint32_t bytes = 1; bytes <= kUtf8BytesMax && bytes <= end; ++bytes) {
    const CodePoint found = decode_utf8({text.data() + end - bytes, bytes});
    if (found.value != kInvalidCodePoint && found.bytes == bytes) return found;
  }
  return {};
}

}  // namespace

SpecialFinder::SpecialFinder(const format::TokenizerView& view, bool all) : view_(view), all_(all) {
  for (uint32_t i = 0; i < view_.special_order.size(); ++i) {
    const uint8_t first = static_cast<uint8_t>(name(i)[0]);
    if (is_read(i)) first_bytes_[first / 32] |= 1u << first % 32;
  }
}

SpecialMatch SpecialFinder::find(std::string_view text, size_t from) const {
  const uint32_t none = static_cast<uint32_t>(view_.special_order.size());
  for (size_t at = from; at < text.size(); ++at) {
    const uint8_t first = static_cast<uint8_t>(text[at]);
    if ((first_bytes_[first / 32] >> first % 32 & 1u) == 0) continue;
    const uint32_t found = longest_at({text.data() + at, text.size() - at});
    if (found == none) continue;

    SpecialMatch match{at, at + name(found).size(), view_.specials[view_.special_order[found]]};
    const uint32_t flags = view_.special_flags[view_.special_order[found]];
    while ((flags & format::kEatsSpaceBefore) != 0 && match.begin > from) {
      const CodePoint before = code_point_before(text, match.begin);
      if (!is_space(before.value)) break;
      match.begin -= before.bytes;
    }
    while ((flags & format::kEatsSpaceBehind) != 0 && match.end < text.size()) {
      const CodePoint lookback = decode_utf8({text.data() + match.end, text.size() - match.end});
      if (!is_space(lookback.value)) break;
      match.end += lookback.bytes;
    }
    return match;
  }
  return {text.size(), text.size(), kNoToken};
}

uint32_t SpecialFinder::longest_at(std::string_view text) const {
  PrefixSearch search(view_, view_.special_order, view_.specials);
  uint32_t longest = static_cast<uint32_t>(view_.special_order.size());
  for (const char byte : text) {
    if (!search.narrow(static_cast<uint8_t>(byte))) break;
    const size_t found = search.whole();
    if (found != view_.special_order.size() && is_read(static_cast<uint32_t>(found))) {
      longest = static_cast<uint32_t>(found);
    }
  }
  return longest;
}

bool SpecialFinder::is_read(uint32_t order_index) const {
  const uint8_t flags = view_.special_flags[view_.special_order[order_index]];
  return all_ || (flags & format::kReadAlways) != 0;
}

std::string_view SpecialFinder::name(uint32_t order_index) const {
  return view_.bytes(view_.specials[view_.special_order[order_index]]);
}

uint32_t special_index(const format::TokenizerView& view, TokenId token) {
  return static_cast<uint32_t>(place_of(view.specials, token));
}

uint32_t special_index(const format::TokenizerView& view, std::string_view name) {
  PrefixSearch search(view, view.special_order, view.specials);
  const size_t place = search.narrow(name) ? search.whole() : view.special_order.size();
  return place < view.special_order.size() ? view.special_order[place]
                                           : static_cast<uint32_t>(view.specials.size());
}

// Tokens are sorted: among the remaining ones, the one that equals the bytes so far comes first.

bool PrefixSearch::narrow(uint8_t byte) {
  if (whole() != order_.size()) ++begin_;
  const uint32_t narrowed = first_with(byte);
  end_ = first_with(byte + 1u);
  begin_ = narrowed;
  ++depth_;
  return begin_ < end_;
}

bool PrefixSearch::narrow(std::string_view bytes) {
  for (const char byte : bytes) {
    if (!narrow(static_cast<uint8_t>(byte))) return false;
  }
  return true;
}

size_t PrefixSearch::whole() const {
  return begin_ < end_ && bytes(begin_).size() == depth_ ? begin_ : order_.size();
}

// Returns the first place whose next byte is at least `least`.
// REQUIRES: all tokens in [begin_, end_) have more than depth_ bytes.
uint32_t PrefixSearch::first_with(uint32_t least) const {
  uint32_t low = begin_;
  uint32_t high = end_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (static_cast<uint8_t>(bytes(middle)[depth_]) < least) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace arenite::text
