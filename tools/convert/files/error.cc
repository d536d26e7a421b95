// SPDX-License-Identifier: Apache-2.0
#include "convert/files/error.h"

#include <vector>

#include "core/utf8.h"

namespace arenite::convert {

std::string visible(std::string_view text, std::string_view kept) {
  std::string shown;
  while (!text.empty()) {
    const CodePoint next = decode_utf8(text);
    if (next.value == kInvalidCodePoint) {
      shown += fmt::format("\\x{:02X}", static_cast<uint8_t>(text.front()));
    } else if (is_unseen(next.value) && kept.find(text.front()) == kept.npos) {
      shown += '?';
    } else {
      shown += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return shown;
}

std::string printable(std::string_view text, size_t characters_max) {
  const std::string shown = visible(text);
  std::vector<size_t> characters;  // where each begins
  for (size_t i = 0; i < shown.size(); ++i) {
    if ((static_cast<unsigned char>(shown[i]) & 0xC0) != 0x80) characters.push_back(i);
  }
  if (characters.size() <= characters_max) return shown;
  const size_t half = characters_max / 2;
  return shown.substr(0, characters[half]) + "..." +
         shown.substr(characters[characters.size() - half]);
}

}  // namespace arenite::convert
