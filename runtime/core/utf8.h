// SPDX-License-Identifier: Apache-2.0
// Decodes and encodes UTF-8, one code point at a time, and finds code points in lists. Bytes that
// are not UTF-8 are reported, never refused:
//
//     decode_utf8("\u00E9a") -> {0xE9, 2 bytes};  decode_utf8("\xFFa") -> {invalid, 1 byte}
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace arenite {

inline constexpr uint32_t kCodePointMax = 0x10FFFF;
inline constexpr uint32_t kInvalidCodePoint = UINT32_MAX;
inline constexpr uint32_t kReplacementCharacter = 0xFFFD;  // how others read invalid bytes
inline constexpr uint32_t kUtf8BytesMax = 4;

struct CodePoint {
  uint32_t value = kInvalidCodePoint;  // kInvalidCodePoint: one byte that is not UTF-8
  uint32_t bytes = 1;
};

// Returns the length of a sequence that begins with `first`; 0 if no sequence does.
constexpr uint32_t utf8_length(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation byte, or an overlong form
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// Whether `second` may follow `first`. Excludes overlong forms, surrogates and values above
// kCodePointMax. REQUIRES: utf8_length(first) > 1.
constexpr bool utf8_may_follow(uint8_t first, uint8_t second) {
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

// Returns the code point at the start of `text`. REQUIRES: text is not empty.
CodePoint decode_utf8(std::string_view text);

// Writes a code point and returns its number of bytes. REQUIRES: value <= kCodePointMax.
uint32_t encode_utf8(uint32_t value, char (&out)[kUtf8BytesMax]);

}  // namespace arenite

namespace arenite::text {

// Whether Unicode's property White_Space holds. It has not changed in many years, so files need no
// table of it.
constexpr bool is_space(uint32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 9 && code_point <= 13);
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

// ASCII punctuation and symbols.
constexpr bool is_ascii_punctuation(uint32_t code_point) {
  return (code_point >= '!' && code_point <= '/') || (code_point >= ':' && code_point <= '@') ||
         (code_point >= '[' && code_point <= '`') || (code_point >= '{' && code_point <= '~');
}

// Returns the index of a number in an ascending list; the list's size if absent.
size_t place_of(std::span<const uint32_t> sorted, uint32_t number);

// Whether one of the ranges (first, last, first, last, ..., ascending) contains the code point.
bool in_ranges(std::span<const uint32_t> ranges, uint32_t code_point);

// Ideographs that BERT's tokenizer treats as words, as in Hugging Face's library: the unified ones
// without the first page of Extension E, and compatibility forms.
inline constexpr uint32_t kIdeographs[] = {0x3400,  0x4DBF,  0x4E00,  0x9FFF,  0xF900,
                                           0xFAFF,  0x20000, 0x2A6DF, 0x2A700, 0x2B81F,
                                           0x2B920, 0x2CEAF, 0x2F800, 0x2FA1F};
inline bool is_ideograph(uint32_t code_point) { return in_ranges(kIdeographs, code_point); }

}  // namespace arenite::text
