// SPDX-License-Identifier: Apache-2.0
// One line on stderr, wiped when the work is done.
#include "cli/progress.h"

#include <unistd.h>

#include "cli/standard_streams.h"

namespace arenite::tool {

Progress::Progress(const std::string& what) : shown_(isatty(STDERR_FILENO) != 0) {
  if (!shown_) return;
  print_error("{} ...", what);
}

Progress::~Progress() { done(); }

void Progress::done() {
  if (shown_) write_error("\r\033[K");
  shown_ = false;
}

}  // namespace arenite::tool
