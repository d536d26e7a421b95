// SPDX-License-Identifier: Apache-2.0
// One line on stderr, wiped when the work is done.
#include "arenite/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace arenite::tool {

Progress::Progress(const std::string& what) : shown_(isatty(STDERR_FILENO) != 0) {
  if (!shown_) return;
  fmt::print(stderr, "{} ...", what);
  std::fflush(stderr);
}

Progress::~Progress() { done(); }

void Progress::done() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace arenite::tool
