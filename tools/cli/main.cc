// SPDX-License-Identifier: Apache-2.0
// The process around the command-line program: its streams, its signals, and the end of its memory.
#include <cstdlib>
#include <exception>

#include "cli/commands.h"
#include "cli/process.h"

namespace {

// Where memory is so short that not even an exception can be made. Objects that are there before
// main take memory, too, so it is set before them.
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
