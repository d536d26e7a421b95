// SPDX-License-Identifier: Apache-2.0
#include "core/utf8.h"

#include <algorithm>

namespace arenite {

CodePoint decode_utf8(std::string_view text) {
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

uint32_t encode_utf8(uint32_t value, char (&out)[kUtf8BytesMax]) {
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

namespace arenite::text {

size_t place_of(std::span<const uint32_t> sorted, uint32_t number) {
  const size_t place =
      static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin());
  return place < sorted.size() && sorted[place] == number ? place : sorted.size();
}

bool in_ranges(std::span<const uint32_t> ranges, uint32_t code_point) {
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

}  // namespace arenite::text
