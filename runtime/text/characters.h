// SPDX-License-Identifier: Apache-2.0
// What kind of character a code point is, as far as the patterns of tokenizers care.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace arenite::text {

// Unicode's property White_Space. It has not changed in many years, so no file needs to carry it.
constexpr bool is_space(uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 9 && code_point <= 13);
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

constexpr bool is_newline(uint32_t code_point) { return code_point == '\n' || code_point == '\r'; }

// Of ASCII, the punctuation and symbols alike.
constexpr bool is_ascii_punctuation(uint32_t code_point) {
  return (code_point >= '!' && code_point <= '/') || (code_point >= ':' && code_point <= '@') ||
         (code_point >= '[' && code_point <= '`') || (code_point >= '{' && code_point <= '~');
}

enum class CharacterClass : uint8_t { kSpace, kLetter, kNumber, kOther };

// The place of a number in a list in increasing order; the list's size if it is not there. Out of
// line, since many tables are such lists.
[[gnu::noinline]] constexpr size_t place_of(std::span<const uint32_t> sorted, uint32_t number) {
  const size_t place =
      static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin());
  return place < sorted.size() && sorted[place] == number ? place : sorted.size();
}

// Whether one of the ranges (first, last, first, last, ..., increasing) holds the code point.
constexpr bool in_ranges(std::span<const uint32_t> ranges, uint32_t code_point) {
  size_t begin = 0;
  size_t end = ranges.size() / 2;
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    if (code_point > ranges[2 * middle + 1]) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return 2 * begin < ranges.size() && code_point >= ranges[2 * begin];
}

// The ideographs that BERT's tokenizer makes words of, as Hugging Face's library has them: unified
// ones without the first page of Extension E, and compatibility forms.
inline constexpr uint32_t kIdeographs[] = {0x3400,  0x4DBF,  0x4E00,  0x9FFF,  0xF900,
                                           0xFAFF,  0x20000, 0x2A6DF, 0x2A700, 0x2B81F,
                                           0x2B920, 0x2CEAF, 0x2F800, 0x2FA1F};
constexpr bool is_ideograph(uint32_t code_point) { return in_ranges(kIdeographs, code_point); }

// `letters` and `numbers` are Unicode's general categories L and N from 128 on. What is no UTF-8
// counts as kOther, as Unicode's replacement character does.
constexpr CharacterClass classify(uint32_t code_point, std::span<const uint32_t> letters,
                                  std::span<const uint32_t> numbers) {
  if (is_space(code_point)) return CharacterClass::kSpace;
  if (code_point < 0x80) {
    const uint32_t lower = code_point | 0x20;
    if (lower >= 'a' && lower <= 'z') return CharacterClass::kLetter;
    return code_point >= '0' && code_point <= '9' ? CharacterClass::kNumber
                                                  : CharacterClass::kOther;
  }
  if (in_ranges(letters, code_point)) return CharacterClass::kLetter;
  return in_ranges(numbers, code_point) ? CharacterClass::kNumber : CharacterClass::kOther;
}

}  // namespace arenite::text
