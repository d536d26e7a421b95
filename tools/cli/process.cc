// SPDX-License-Identifier: Apache-2.0
// Standard error bypasses stdio, which would keep unwritten text. The signal handler only does what
// is safe there: it removes files by name and raises the signal again.
#include "cli/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

constexpr int kVectorsMax = 8;
constexpr size_t kStackBytes = size_t{16} << 20;  // see input_limits.h, kExportedLevelsMax
constexpr size_t kProgressCharacters = 40;        // leaves room for the stage in a terminal line
constexpr size_t kColumnsUnknown = 80;
constexpr std::chrono::milliseconds kProgressPause(100);

// SIGBUS: a mapped file was truncated, or its disk failed.
constexpr int kEndings[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGBUS};

// SA_RESETHAND has restored the default action, which follows when this function returns.
void clean_up(int signal_number) {
  convert::remove_temporary_files();
  raise(signal_number);
}

// Returns "8 s" or "3 min".
std::string duration(double seconds) {
  return seconds < 90.0 ? fmt::format("{:.0f} s", seconds)
                        : fmt::format("{:.0f} min", seconds / 60.0);
}

size_t columns_of(int descriptor) {
  winsize size = {};
  const bool is_known = isatty(descriptor) != 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return is_known && size.ws_col != 0 ? size.ws_col : kColumnsUnknown;
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
    // open() takes the lowest free descriptor. Those before this one are in use by now.
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

void on_known_stack(const std::function<void()>& work) {
  struct Call {
    const std::function<void()>& work;
    std::exception_ptr error;
  } call{work, nullptr};
  const auto run = [](void* data) -> void* {
    Call& given = *static_cast<Call*>(data);
    try {
      given.work();
    } catch (...) {
      given.error = std::current_exception();
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  const int failure = pthread_create(&thread, &attributes, run, &call);
  pthread_attr_destroy(&attributes);
  if (failure != 0) return work();
  pthread_join(thread, nullptr);
  if (call.error) std::rethrow_exception(call.error);
}

void write_error(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_error(std::initializer_list<std::string_view> parts) noexcept {
  iovec vectors[kVectorsMax];
  int count = 0;
  for (const std::string_view part : parts) {
    vectors[count++] = {const_cast<char*>(part.data()), part.size()};
    if (count == kVectorsMax) break;
  }
  while (writev(STDERR_FILENO, vectors, count) < 0 && errno == EINTR) continue;
}

void print_warning(std::string_view text) {
  write_error(fmt::format("warning: {}\n", convert::visible(text, "\n")));
}

void write_output(std::string_view text) {
  const std::string shown = convert::visible(text, "\n\t");
  errno = 0;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size()) return;
  throw convert::InputError("cannot write to the standard output: {}",
                            std::strerror(errno != 0 ? errno : EIO));
}

void write_lines(std::string_view text) {
  write_output(for_terminal(convert::visible(text, "\n\t")));
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw convert::InputError("cannot write to the standard output: {}",
                            std::strerror(errno != 0 ? errno : EIO));
}

Progress::Progress(const std::string& what)
    : what_(convert::printable(what, kProgressCharacters)), shown_(isatty(STDERR_FILENO) != 0) {
  if (shown_) show(what_ + " ...");
}

// Shortens the line to fit, because a wrapped line could not be erased.
void Progress::show(const std::string& line) {
  write_error("\r\033[K" +
              convert::printable(line, std::max<size_t>(columns_of(STDERR_FILENO), 8) - 4));
}

void Progress::at(const std::string& stage, double share) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  const bool is_new = stage != stage_;
  if (!is_new && now - shown_at_ < kProgressPause) return;
  if (is_new) stage_start_ = now;
  stage_ = stage;
  shown_at_ = now;
  std::string line = fmt::format("{}: {}", what_, stage);
  if (share > 0.0) line += fmt::format(" {:.0f} %", 100.0 * std::min(share, 1.0));
  const double seconds = std::chrono::duration<double>(now - stage_start_).count();
  if (share > 0.0 && seconds >= 1.0) {
    line += fmt::format(", {} left", duration(seconds * (1.0 - share) / share));
  }
  show(line);
}

void Progress::done() {
  if (shown_) write_error("\r\033[K");
  shown_ = false;
}

// --- Terminals ---

namespace {

constexpr size_t kColumnsMin = 40;

}  // namespace

size_t terminal_columns() {
  return std::clamp(columns_of(STDOUT_FILENO), kColumnsMin, kTextColumns);
}

size_t text_columns() { return isatty(STDOUT_FILENO) != 0 ? terminal_columns() : kTextColumns; }

std::string for_terminal(std::string_view text) {
  if (isatty(STDOUT_FILENO) == 0) return std::string(text);
  std::string lines = in_columns(text, terminal_columns());
  if (!text.ends_with('\n') && !lines.empty()) lines.pop_back();
  return lines;
}

namespace {

// Returns the bytes of `line` that take at most `columns` columns; UTF-8 continuation bytes take
// none.
size_t bytes_within(std::string_view line, size_t columns) {
  for (size_t i = 0, used = 0; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80 && ++used > columns) return i;
  }
  return line.size();
}

}  // namespace

std::string in_columns(std::string_view text, size_t columns) {
  std::string result;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // Continuation lines align with the text after a title, if that column is not too far right.
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = std::min(line.find("  ", begin), line.size());
    const size_t after = std::min(line.find_first_not_of(' ', gap), line.size());
    const size_t indent = after < columns / 3 ? after : begin;
    size_t least = indent, room = columns;  // of the first line
    for (size_t fit = 0; (fit = bytes_within(line, room)) < line.size();) {
      size_t end = line.rfind(' ', fit);
      if (end == line.npos || end <= least) {
        end = line.find_last_of(",/", fit - 1) + 1;  // 0 if there is neither
        if (end <= least) end = fit;
      }
      result += line.substr(0, line.find_last_not_of(' ', end - 1) + 1);
      result += '\n' + std::string(indent, ' ');
      line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
      least = 0;
      room = columns - indent;
    }
    result.append(line) += '\n';
  }
  return result;
}

}  // namespace arenite::tool
