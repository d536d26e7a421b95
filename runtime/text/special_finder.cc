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

// Calls `use` with each normalized name of the file and its index into specials.
template <typename Use>
void for_each_name(const format::TokenizerView& view, const Use& use) {
  for (size_t i = 0; i < view.steps.size(); i += format::kStepNumbers) {
    if (view.steps[i] != static_cast<uint32_t>(format::TextStep::kName)) continue;
    use(view.fold_sequences.subspan(view.steps[i + 1], view.steps[i + 2]), view.steps[i + 3]);
  }
}

}  // namespace

SpecialFinder::SpecialFinder(const format::TokenizerView& view, bool all, bool in_normalized)
    : view_(view), all_(all), in_normalized_(in_normalized) {
  if (in_normalized && !linked(Need::kUnigram)) return;
  const auto add = [&](uint8_t first) {
    first_bytes_[first / 32] |= 1u << first % 32;
    finds_none_ = false;
  };
  for (uint32_t i = 0; i < view_.specials.size(); ++i) {
    if (is_read(i)) add(static_cast<uint8_t>(view_.bytes(view_.specials[i])[0]));
  }
  if constexpr (linked(Need::kUnigram)) {
    for_each_name(view_, [&](std::span<const uint32_t> name, uint32_t special) {
      char form[kUtf8BytesMax];
      (void)encode_utf8(name[0], form);
      if (is_read(special)) add(static_cast<uint8_t>(form[0]));
    });
  }
}

SpecialMatch SpecialFinder::find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    const uint8_t first = static_cast<uint8_t>(text[at]);
    if ((first_bytes_[first / 32] >> first % 32 & 1u) == 0) continue;
    const Name found = longest_at({text.data() + at, text.size() - at});
    if (found.bytes == 0) continue;

    SpecialMatch match{at, at + found.bytes, view_.specials[found.special]};
    const uint32_t flags = view_.special_flags[found.special];
    if (linked(Need::kUnigram) && (flags & format::kSingleWord) != 0 &&
        !is_single_word(text, match.begin, match.end)) {
      at = match.end - 1;  // names within it are not found, either
      continue;
    }
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

SpecialFinder::Name SpecialFinder::longest_at(std::string_view text) const {
  PrefixSearch search(view_, view_.special_order, view_.specials);
  Name longest;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!search.narrow(static_cast<uint8_t>(text[i]))) break;
    const size_t found = search.whole();
    if (found == view_.special_order.size()) continue;
    const uint32_t special = view_.special_order[found];
    if (!is_read(special)) continue;
    bool is_other = false;  // texts write another name
    if constexpr (linked(Need::kUnigram)) {
      for_each_name(view_, [&](auto, uint32_t named) { is_other = is_other || named == special; });
    }
    if (!is_other) longest = {special, i + 1};
  }
  if constexpr (linked(Need::kUnigram)) {
    for_each_name(view_, [&](std::span<const uint32_t> name, uint32_t special) {
      size_t end = 0, same = 0;
      while (same < name.size() && end < text.size()) {
        const CodePoint next = decode_utf8({text.data() + end, text.size() - end});
        if (next.value != name[same]) break;
        end += next.bytes;
        ++same;
      }
      if (same == name.size() && end > longest.bytes && is_read(special)) longest = {special, end};
    });
  }
  return longest;
}

bool SpecialFinder::is_read(uint32_t special) const {
  const uint8_t flags = view_.special_flags[special];
  return (all_ || (flags & format::kReadAlways) != 0) &&
         ((flags & format::kNormalized) != 0) == in_normalized_;
}

bool SpecialFinder::is_word_character(CodePoint code_point) const {
  for (size_t i = 0; i < view_.steps.size(); i += format::kStepNumbers) {
    if (view_.steps[i] != static_cast<uint32_t>(format::TextStep::kWordCharacters)) continue;
    return in_ranges(view_.fold_sequences.subspan(view_.steps[i + 1], view_.steps[i + 2]),
                     code_point.value);
  }
  return false;
}

bool SpecialFinder::is_single_word(std::string_view text, size_t begin, size_t end) const {
  return (begin == 0 || !is_word_character(code_point_before(text, begin))) &&
         (end == text.size() ||
          !is_word_character(decode_utf8({text.data() + end, text.size() - end})));
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
