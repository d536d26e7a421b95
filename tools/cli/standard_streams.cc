// SPDX-License-Identifier: Apache-2.0
// The standard error is written without stdio, which would keep text that could not be written.
#include "cli/standard_streams.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "convert/files/error.h"

namespace arenite::tool {
namespace {

constexpr int kPartsMax = 8;

}  // namespace

void hold_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // Open takes the lowest free number, which is this one, since those before are taken by now.
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] const int held = open("/dev/null", flags);
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

}  // namespace arenite::tool
