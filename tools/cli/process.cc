// SPDX-License-Identifier: Apache-2.0
// The standard error is written without stdio, which would keep text that could not be written. A
// signal's handler does what a handler may do: remove files by name, and raise.
#include "cli/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

constexpr int kPartsMax = 8;

// SIGBUS: a mapped file was cut short, or the disk below it failed.
constexpr int kEndings[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGBUS};

// SA_RESETHAND has restored the signal's own effect, which follows when this function returns.
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

void hold_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // Open takes the lowest free number, which is this one, since those before are taken by now.
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] const int held = open("/dev/null", flags);
  }
}

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

void write_error(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_error(std::initializer_list<std::string_view> parts) noexcept {
  iovec vectors[kPartsMax];
  int count = 0;
  for (const std::string_view part : parts) {
    vectors[count++] = {const_cast<char*>(part.data()), part.size()};
    if (count == kPartsMax) break;
  }
  while (writev(STDERR_FILENO, vectors, count) < 0 && errno == EINTR) continue;
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw convert::InputError("cannot write to the standard output: {}",
                            std::strerror(errno != 0 ? errno : EIO));
}

Progress::Progress(const std::string& what) : shown_(isatty(STDERR_FILENO) != 0) {
  if (!shown_) return;
  print_error("{} ...", what);
}

void Progress::done() {
  if (shown_) write_error("\r\033[K");
  shown_ = false;
}

}  // namespace arenite::tool
