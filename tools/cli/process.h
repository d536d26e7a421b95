// SPDX-License-Identifier: Apache-2.0
// The program as a process: standard streams that may be closed, full or without a reader; signals
// that end it; and progress lines on the terminal.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "convert/files/error.h"

namespace arenite::tool {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Opens closed standard streams, so that no file gets their descriptors and with them the program's
// output. Reading or writing such a stream still fails. REQUIRES: no file was opened before.
void hold_standard_streams();

// Makes signals that end the program remove its temporary files first. The signal then has its
// default effect, so a shell can report it. Ignored signals, as below nohup, stay ignored. Writing
// to a pipe without a reader or beyond a file-size limit becomes an error like that of a full disk.
void handle_signals();

// Runs `work` on a thread with a stack for the deepest input that the readers' limits allow,
// whatever `ulimit -s` says; on this thread if none can be started. Rethrows exceptions.
void on_known_stack(const std::function<void()>& work);

// Writes to the standard error. Ignores failures: the exit code still tells how the command ended.
void write_error(std::string_view text) noexcept;
// Writes the parts as one text without allocating memory, because there may be none left.
void write_error(std::initializer_list<std::string_view> parts) noexcept;

template <typename... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  write_error(convert::visible(fmt::format(format, std::forward<Args>(args)...), "\n\t"));
}

// Prints "warning: ..." on the standard error.
void print_warning(std::string_view text);

// Writes to the standard output through stdio. Control characters are made visible
// (convert::visible), so that a terminal sees text alone.
void write_output(std::string_view text);
// Like write_output, but breaks long lines at spaces on a terminal.
void write_lines(std::string_view text);

template <typename... Args>
void print_output(fmt::format_string<Args...> format, Args&&... args) {
  write_lines(fmt::format(format, std::forward<Args>(args)...));
}

// Flushes the standard output. A full disk or a closed pipe may show only here. Throws InputError.
void flush_output();

// Shows on a terminal the stage that runs, its completed share and the time left. Silent in a pipe.
class Progress {
 public:
  explicit Progress(const std::string& what);
  ~Progress() { done(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share`, from 0 to 1, is the completed part of `stage`, such as "packing for arm64".
  void at(const std::string& stage, double share);

  void done();  // wipes the line

 private:
  void show(const std::string& line);

  std::string what_;
  std::string stage_;
  Clock::time_point stage_start_ = Clock::now();
  Clock::time_point shown_at_;
  bool shown_;
};

// --- Terminals ---

// Returns the columns of the terminal on the standard output, limited to 40 to 100, as longer lines
// are hard to read. Returns 80 if there is no terminal or it does not say.
size_t terminal_columns();

// text_columns returns the columns of the terminal, or kTextColumns if the standard output is none.
inline constexpr size_t kTextColumns = 100;
size_t text_columns();

// Breaks lines longer than `columns`: at a space, else after a comma or a slash, else anywhere.
std::string in_columns(std::string_view text, size_t columns);
// Breaks lines if the standard output is a terminal; else returns `text` unchanged.
std::string for_terminal(std::string_view text);

}  // namespace arenite::tool
