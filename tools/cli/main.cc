// SPDX-License-Identifier: Apache-2.0
// The process around the command-line program: streams, signals and the end of memory.
#include <cstdlib>
#include <exception>

#include "cli/commands.h"
#include "cli/process.h"

namespace {

// The last resort if memory does not even suffice for an exception. Static objects allocate before
// main, so it is installed earlier.
[[noreturn]] void end_without_exception() {
  if (std::current_exception() != nullptr) std::abort();
  std::_Exit(arenite::tool::fail(arenite::tool::kBadInput, "there is not enough memory for this"));
}

[[gnu::constructor(101)]] void watch_for_want_of_memory() {
  std::set_terminate(end_without_exception);
}

}  // namespace

int main(int argc, char** argv) {
  arenite::tool::hold_standard_streams();
  arenite::tool::handle_signals();
  return arenite::tool::run_program(argc, argv);
}
