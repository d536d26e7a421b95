// SPDX-License-Identifier: Apache-2.0
// Implements the regular expressions of the pre-tokenizers, alternative by alternative in their
// order. GPT-2's cuts "I'll  go" into "I", "'ll", " ", " go".
#include "text/pre_tokenizer.h"

#include "core/needs.h"

namespace arenite::text {
namespace {

constexpr uint32_t kLongS = 0x17F;  // its upper case is S, so (?i:'s) matches it

// Returns the code point; with any_case, lowercases ASCII letters and the long s.
uint32_t lower(uint32_t code_point, bool any_case) {
  if (!any_case) return code_point;
  if (code_point == kLongS) return 's';
  return code_point >= 'A' && code_point <= 'Z' ? code_point | 0x20 : code_point;
}

}  // namespace

bool PreTokenizer::next(Piece& piece) {
  if constexpr (linked(Need::kUnigram)) {
    const bool is_clip = pattern_ == format::Pattern::kClip;
    if (is_clip) position_ = run_end(position_, CharacterClass::kSpace);
  }
  if (position_ >= part_.size()) return false;
  piece.begin = position_;
  switch (pattern_) {
    case format::Pattern::kNone:
      piece.end = part_.size();
      break;
    case format::Pattern::kGpt2:
      piece.end = gpt2_end(position_);
      break;
    case format::Pattern::kLlama3:
      piece.end = llama3_end(position_, 3);
      break;
    case format::Pattern::kQwen2:
      piece.end = llama3_end(position_, 1);
      break;
    case format::Pattern::kDigits:
      if (digits_begin_ <= position_) {
        digits_begin_ = next_where(position_, true);
        limit_ = digits_begin_;
      }
      piece.end = digits_begin_ == position_ ? position_ + part_.code_point(position_).bytes
                                             : gpt2_end(position_);
      break;
    case format::Pattern::kClip:
      if constexpr (linked(Need::kUnigram)) piece.end = clip_end(position_);
      break;
    case format::Pattern::kWords:
    case format::Pattern::kSpaces:
      piece.end = next_where(position_ + part_.code_point(position_).bytes, false);
      break;
  }
  position_ = piece.end;
  return true;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t PreTokenizer::gpt2_end(size_t begin) const {
  const size_t contraction = contraction_end(begin, false);
  if (contraction != begin) return contraction;
  const size_t run = part_.byte(begin) == ' ' && begin + 1 < limit_ ? begin + 1 : begin;
  const CharacterClass of = class_at(run);
  return of == CharacterClass::kSpace ? space_run_end(begin) : run_end(run, of);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
size_t PreTokenizer::llama3_end(size_t begin, uint32_t digits_max) const {
  const size_t contraction = contraction_end(begin, true);
  if (contraction != begin) return contraction;

  const CodePoint first = part_.code_point(begin);
  const size_t second = begin + first.bytes;
  const CharacterClass of = class_at(begin);
  const bool letter_follows = second < limit_ && class_at(second) == CharacterClass::kLetter;
  if (of == CharacterClass::kLetter) return run_end(begin, of);
  if (of == CharacterClass::kNumber) {
    size_t end = second;
    for (uint32_t i = 1; i < digits_max && end < limit_ && class_at(end) == of; ++i) {
      end += part_.code_point(end).bytes;
    }
    return end;
  }
  if (letter_follows && !is_newline(first.value)) return run_end(second, CharacterClass::kLetter);

  const bool other_follows =
      first.value == ' ' && second < limit_ && class_at(second) == CharacterClass::kOther;
  if (of == CharacterClass::kOther || other_follows) {
    size_t end = run_end(other_follows ? second : begin, CharacterClass::kOther);
    while (end < limit_ && is_newline(part_.byte(end))) ++end;
    return end;
  }
  size_t newline_end = begin;
  const size_t end = run_end(begin, CharacterClass::kSpace);
  for (size_t i = begin; i < end; ++i) {
    if (is_newline(part_.byte(i))) newline_end = i + 1;
  }
  return newline_end != begin ? newline_end : space_run_end(begin);
}

// 's|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+ ; next() skips white space.
size_t PreTokenizer::clip_end(size_t begin) const {
  const size_t contraction = contraction_end(begin, false);
  if (contraction != begin) return contraction;
  const CharacterClass of = class_at(begin);
  return of == CharacterClass::kNumber ? begin + part_.code_point(begin).bytes : run_end(begin, of);
}

// \s+(?!\S)|\s+ : a run of at least two spaces excludes its last one, unless the text ends there.
size_t PreTokenizer::space_run_end(size_t begin) const {
  size_t end = begin;
  size_t last = begin;
  while (end < limit_ && class_at(end) == CharacterClass::kSpace) {
    last = end;
    end += part_.code_point(end).bytes;
  }
  return end == limit_ || last == begin ? end : last;
}

// 's|'t|'re|'ve|'m|'ll|'d ; returns `begin` if there is no match.
size_t PreTokenizer::contraction_end(size_t begin, bool any_case) const {
  if (part_.byte(begin) != '\'' || begin + 1 >= limit_) return begin;
  const CodePoint first = part_.code_point(begin + 1);
  const size_t after_first = begin + 1 + first.bytes;
  const uint32_t letter = lower(first.value, any_case);
  if (letter == 's' || letter == 't' || letter == 'm' || letter == 'd') return after_first;
  if (after_first >= limit_) return begin;
  const uint32_t next_letter = lower(part_.byte(after_first), any_case);
  const bool found = (letter == 'r' && next_letter == 'e') ||
                     (letter == 'v' && next_letter == 'e') || (letter == 'l' && next_letter == 'l');
  return found ? after_first + 1 : begin;
}

size_t PreTokenizer::run_end(size_t begin, CharacterClass of) const {
  size_t end = begin;
  while (end < limit_ && class_at(end) == of) end += part_.code_point(end).bytes;
  return end;
}

// Returns the position of the first \p{N} from `begin` on, or without `numbers` of the first space
// (U+0020 or U+2581); the end of the part if there is none.
size_t PreTokenizer::next_where(size_t begin, bool numbers) const {
  size_t end = begin;
  while (end < part_.size()) {
    const CodePoint code_point = part_.code_point(end);
    if (numbers ? class_at(end) == CharacterClass::kNumber
                : code_point.value == ' ' || code_point.value == kSpaceMark) {
      break;
    }
    end += code_point.bytes;
  }
  return end;
}

CharacterClass PreTokenizer::class_at(size_t position) const {
  return classify(part_.code_point(position).value, letters_, numbers_);
}

}  // namespace arenite::text
