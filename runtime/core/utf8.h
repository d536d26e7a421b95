// SPDX-License-Identifier: Apache-2.0
// UTF-8, one code point at a time. Bytes that are no UTF-8 are told apart, never refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace arenite {

inline constexpr uint32_t kCodePointMax = 0x10FFFF;
inline constexpr uint32_t kInvalidCodePoint = UINT32_MAX;
inline constexpr uint32_t kReplacementCharacter = 0xFFFD;  // what others read for such a byte
inline constexpr uint32_t kUtf8BytesMax = 4;

struct CodePoint {
  uint32_t value = kInvalidCodePoint;  // kInvalidCodePoint: one byte that is no UTF-8
  uint32_t bytes = 1;
};

// How many bytes a sequence has that begins with `first`; 0 if none begins so.
constexpr uint32_t utf8_length(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation, or an overlong form
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// Whether `second` may follow `first`: this is where overlong forms, surrogates and numbers above
// kCodePointMax show. REQUIRES: utf8_length(first) > 1.
constexpr bool utf8_may_follow(uint8_t first, uint8_t second) {
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

// The code point at the start of `text`. Out of line, since all that reads text needs it.
// REQUIRES: text is not empty.
[[gnu::noinline]] constexpr CodePoint decode_utf8(std::string_view text) {
  const uint8_t first = static_cast<uint8_t>(text[0]);
  const uint32_t length = utf8_length(first);
  if (length == 1) return {first, 1};
  if (length == 0 || text.size() < length) return {};
  if (!utf8_may_follow(first, static_cast<uint8_t>(text[1]))) return {};
  uint32_t value = first & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return {};
    value = value << 6 | (byte & 0x3Fu);
  }
  return {value, length};
}

// Writes a code point and returns its number of bytes. REQUIRES: value <= kCodePointMax.
constexpr uint32_t encode_utf8(uint32_t value, char (&out)[kUtf8BytesMax]) {
  if (value < 0x80) {
    out[0] = static_cast<char>(value);
    return 1;
  }
  const uint32_t length = value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
  for (uint32_t i = length - 1; i > 0; --i, value >>= 6) {
    out[i] = static_cast<char>(0x80 | (value & 0x3F));
  }
  out[0] = static_cast<char>((0xF00u >> length & 0xF0u) | value);
  return length;
}

}  // namespace arenite
