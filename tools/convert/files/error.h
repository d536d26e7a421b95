// SPDX-License-Identifier: Apache-2.0
// The error that every reader and writer of the converter throws, and how names are quoted in it.
#pragma once

#include <fmt/format.h>

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

// `text` made fit for a terminal: a file may name its tensors anything, so control characters
// become '?' and the middle of a very long name is left out.
inline std::string printable(std::string_view text, size_t characters_max = 120) {
  std::string shown(text);
  if (text.size() > characters_max) {
    const size_t half = characters_max / 2;
    shown = fmt::format("{}...{}", text.substr(0, half), text.substr(text.size() - half));
  }
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return shown;
}

// The same in single quotes.
inline std::string quote(std::string_view text) { return fmt::format("'{}'", printable(text)); }

}  // namespace arenite::convert
