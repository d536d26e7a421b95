// SPDX-License-Identifier: Apache-2.0
// What the standard streams are shown on: the width of a terminal, and whether colours are wanted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace arenite::tool {

// Columns of the terminal that the standard output is: 80 where it is none or does not say, and
// from 40 to 100, since longer lines are hard to read.
size_t terminal_columns();

// Whether a stream, by its descriptor, is a terminal that shows colours. Never where NO_COLOR is
// set (https://no-color.org) or TERM is "dumb".
bool shows_colours(int descriptor) noexcept;

inline constexpr const char* kBold = "\033[1m";
inline constexpr const char* kYellow = "\033[1;33m";
inline constexpr const char* kPlain = "\033[0m";

// `text` in the style, or as it is.
std::string styled(std::string_view text, const char* style, bool is_coloured);

}  // namespace arenite::tool
