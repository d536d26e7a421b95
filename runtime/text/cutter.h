// SPDX-License-Identifier: Apache-2.0
// Cuts a text into the pieces within which tokens are merged ("pre-tokenization").
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/utf8.h"
#include "format/tokenizer_reader.h"

namespace arenite::text {

inline constexpr uint32_t kLowLine = 0x2581;  // SentencePiece's space

// Hangul syllables become their letters by arithmetic: the Unicode Standard, 3.12.
inline constexpr uint32_t kSyllables = 0xAC00, kSyllableCount = 11172;
inline constexpr uint32_t kInitials = 0x1100, kVowels = 0x1161, kFinals = 0x11A7;
inline constexpr uint32_t kVowelCount = 21, kFinalCount = 28;

// Reads as if the space were there; the text itself is never copied.
class Part {
 public:
  Part(std::string_view text, bool has_prefix) : text_(text), prefix_bytes_(has_prefix ? 1 : 0) {}

  size_t size() const { return text_.size() + prefix_bytes_; }

  // REQUIRES for both: position < size().
  uint8_t byte(size_t position) const {
    assert(position < size());
    if (position < prefix_bytes_) return ' ';
    return static_cast<uint8_t>(text_[position - prefix_bytes_]);
  }
  CodePoint code_point(size_t position) const {
    assert(position < size());
    if (position < prefix_bytes_) return {' ', 1};
    const size_t begin = position - prefix_bytes_;
    return decode_utf8({text_.data() + begin, text_.size() - begin});
  }

  // Where the byte lies in memory. REQUIRES: position <= size().
  const char* at(size_t position) const { return text_.data() + text_offset(position); }

  // Where `position` lies in the text without the prefix.
  size_t text_offset(size_t position) const {
    return position < prefix_bytes_ ? 0 : position - prefix_bytes_;
  }

 private:
  std::string_view text_;
  size_t prefix_bytes_;
};

// Bytes [begin, end) of a part.
struct Piece {
  size_t begin = 0;
  size_t end = 0;
};

// Gives what the regular expressions of the pattern's origin match, one after the other, without a
// regular expression: each alternative looks ahead over one run of a class of characters, so that
// a part is read a bounded number of times.
class Cutter {
 public:
  Cutter(const format::TokenizerView& view, const Part& part)
      : pattern_(view.pattern), letters_(view.letters), numbers_(view.numbers), part_(part) {
    limit_ = part.size();
  }

  // The next piece, never empty. False at the end of the part.
  bool next(Piece& piece);

 private:
  size_t gpt2_end(size_t begin) const;
  size_t llama3_end(size_t begin, uint32_t digits_max) const;
  size_t clip_end(size_t begin) const;
  size_t space_run_end(size_t begin) const;
  size_t contraction_end(size_t begin, bool any_case) const;
  size_t run_end(size_t begin, CharacterClass of) const;
  size_t next_where(size_t begin, bool numbers) const;
  CharacterClass class_at(size_t position) const;

  format::Pattern pattern_;
  std::span<const uint32_t> letters_, numbers_;
  const Part& part_;
  size_t position_ = 0;
  size_t limit_ = 0;         // nothing after it is looked at; digits cut a text into texts
  size_t digits_begin_ = 0;  // the next digit, once known
};

}  // namespace arenite::text
