// SPDX-License-Identifier: Apache-2.0
// The handler does what a handler may do: remove files by name, and raise.
#include "cli/signals.h"

#include <signal.h>

#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

// SIGBUS: a mapped file was cut short, or the disk below it failed.
constexpr int kEndings[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGBUS};

// The signal's own effect is back by now, and waits for this function to return.
void clean_up(int signal_number) {
  convert::remove_temporary_files();
  raise(signal_number);
}

bool has_default_effect(int signal_number) {
  struct sigaction action = {};
  sigaction(signal_number, nullptr, &action);
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

}  // namespace

void handle_signals() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  for (const int signal_number : {SIGPIPE, SIGXFSZ}) sigaction(signal_number, &ignore, nullptr);

  struct sigaction end = {};
  end.sa_handler = clean_up;
  end.sa_flags = static_cast<int>(SA_RESETHAND);
  sigfillset(&end.sa_mask);
  for (const int signal_number : kEndings) {
    if (has_default_effect(signal_number)) sigaction(signal_number, &end, nullptr);
  }
}

}  // namespace arenite::tool
