// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace arenite::tool {
namespace {

constexpr size_t kColumnsMin = 40;
constexpr size_t kColumnsMax = 100;
constexpr size_t kColumnsUnknown = 80;

}  // namespace

size_t terminal_columns() {
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return kColumnsUnknown;
  }
  return std::clamp<size_t>(size.ws_col, kColumnsMin, kColumnsMax);
}

bool shows_colours(int descriptor) noexcept {
  if (isatty(descriptor) == 0) return false;
  const char* const none = std::getenv("NO_COLOR");
  if (none != nullptr && *none != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return terminal == nullptr || std::string_view(terminal) != "dumb";
}

std::string styled(std::string_view text, const char* style, bool is_coloured) {
  if (!is_coloured) return std::string(text);
  return std::string(style).append(text).append(kPlain);
}

}  // namespace arenite::tool
