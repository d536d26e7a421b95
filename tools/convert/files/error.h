// SPDX-License-Identifier: Apache-2.0
// InputError, which every reader and writer of the converter throws, and the quoting of names in
// its messages.
//
//   refuse_if(rows == 0, "{}: tensor {} has no rows", quote(path), quote(name));
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace arenite::convert {

// An unreadable, unsupported or unwritable file; the program ends with exit code 1. The message
// names the file and the tensor or field, the found and the expected value, and a remedy.
class InputError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit InputError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// Throws InputError if `is_wrong`. The arguments are always evaluated: if that takes long, or is
// only valid in the failing case, use an `if` instead.
template <typename... Args>
void refuse_if(bool is_wrong, fmt::format_string<Args...> format, Args&&... args) {
  if (is_wrong) throw InputError(format, std::forward<Args>(args)...);
}

// Whether a character is invisible or changes the text around it: controls, bidirectional and
// zero-width marks, line and paragraph separators.
constexpr bool is_unseen(uint32_t code_point) {
  constexpr uint32_t kRanges[][2] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0xAD, 0xAD},
                                     {0x61C, 0x61C},   {0x180E, 0x180E},  {0x200B, 0x200F},
                                     {0x2028, 0x202E}, {0x2060, 0x206F},  {0xFEFF, 0xFEFF},
                                     {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
  for (const auto& [first, last] : kRanges) {
    if (code_point >= first && code_point <= last) return true;
  }
  return false;
}

// Escapes untrusted text for a terminal, a page or a README, since a file may name its tensors
// anything: '?' for each invisible character except those in `kept`, and \x with the value for
// bytes that are not UTF-8.
std::string visible(std::string_view text, std::string_view kept = {});

// Escapes text for one line, and cuts the middle out of very long text.
std::string printable(std::string_view text, size_t characters_max = 120);

// Like printable, in single quotes.
inline std::string quote(std::string_view text) { return fmt::format("'{}'", printable(text)); }

}  // namespace arenite::convert
