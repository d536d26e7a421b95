// SPDX-License-Identifier: Apache-2.0
// The process around the command-line program: streams, signals and the end of memory.
#include <cstdlib>
#include <exception>

#ifdef __GLIBC__
#include <malloc.h>
#endif

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

// Conversions allocate matrices again and again: without this, each one comes from the kernel,
// which zeroes its pages.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  arenite::tool::hold_standard_streams();
  arenite::tool::handle_signals();
  return arenite::tool::run_program(argc, argv);
}
