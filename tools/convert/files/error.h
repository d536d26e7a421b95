// SPDX-License-Identifier: Apache-2.0
// The error that every reader and writer of the converter throws, and how names are quoted in it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace arenite::convert {

// A file cannot be read, understood or written; the program ends with exit code 1. The message
// names the file, the tensor or field, what was found, what was expected and what to do.
class InputError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit InputError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// Throws InputError if something is wrong. What the message needs is computed in any case: where
// that takes long, or is only there if something is wrong, an `if` comes first.
template <typename... Args>
void refuse_if(bool is_wrong, fmt::format_string<Args...> format, Args&&... args) {
  if (is_wrong) throw InputError(format, std::forward<Args>(args)...);
}

// Whether a reader sees something else than a character of its own there: controls, marks that turn
// or hide the text around them, breaks of lines and paragraphs.
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

// Text of others made fit for a terminal, a page or a README, as a file may name its tensors
// anything: '?' for each unseen character but those in `kept`, and bytes that are no UTF-8 as \x
// and their value.
std::string visible(std::string_view text, std::string_view kept = {});

// The same on a line, without the middle of a text that is very long.
std::string printable(std::string_view text, size_t characters_max = 120);

// The same in single quotes.
inline std::string quote(std::string_view text) { return fmt::format("'{}'", printable(text)); }

}  // namespace arenite::convert
