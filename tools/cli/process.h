// SPDX-License-Identifier: Apache-2.0
// The program as a process: standard streams that may be closed or full, or whose reader has left,
// signals that end it, and a line on the terminal while something takes long.
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

// Call it before any file is opened: a file that got the number of a closed stream would receive
// what the program prints. A stream that was closed stays an error to write to, or to read from.
void hold_standard_streams();

// A signal that ends the program removes its temporary files first, and then ends it as if nobody
// had caught it, so that a shell sees which one it was. Signals that were ignored, as below nohup,
// stay ignored. Writing to a pipe without a reader, and beyond a limit of file sizes, become errors
// like those of a full disk.
void handle_signals();

// Runs `work` in a thread of its own, whose stack is larger than what its readers may need by their
// limits, whatever `ulimit -s` says; where there can be no thread, on this one. Throws what it
// does.
void on_known_stack(const std::function<void()>& work);

// Writes to the standard error. Where that fails there is nobody to tell: the command goes on, and
// its exit code says how it ended.
void write_error(std::string_view text) noexcept;
// The parts as one text, and without memory of the heap: there may be none left.
void write_error(std::initializer_list<std::string_view> parts) noexcept;

template <typename... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  write_error(convert::visible(fmt::format(format, std::forward<Args>(args)...), "\n\t"));
}

// "warning: ..." on the standard error.
void print_warning(std::string_view text);

// Writes to the standard output, by stdio, what a terminal takes for text alone: convert::visible.
void write_output(std::string_view text);
// The same for people: on a terminal long lines are broken at spaces.
void write_lines(std::string_view text);

template <typename... Args>
void print_output(fmt::format_string<Args...> format, Args&&... args) {
  write_lines(fmt::format(format, std::forward<Args>(args)...));
}

// What was printed may still lie in a buffer; a full disk or a closed pipe shows only here. Throws
// InputError.
void flush_output();

// Says on a terminal what takes long, how much of it is done and how long the rest will take; says
// nothing in a pipe.
class Progress {
 public:
  explicit Progress(const std::string& what);
  ~Progress() { done(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Of a stage the share, 0 to 1, that is done: "packing for arm64", 0.25.
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

// --- What the standard streams are shown on ---

// Columns of the terminal that the standard output is: 80 where it is none or does not say, and
// from 40 to 100, since longer lines are hard to read.
size_t terminal_columns();

// What text keeps to: the columns of the terminal, or so many where the standard output is none.
inline constexpr size_t kTextColumns = 100;
size_t text_columns();

// `text` with lines of so many columns at most, broken at spaces, where there are none after a
// comma or a slash, or anywhere.
std::string in_columns(std::string_view text, size_t columns);
// The same where the standard output is a terminal; else as it is.
std::string for_terminal(std::string_view text);

// Whether a stream, by its descriptor, is a terminal that shows colours. Never where NO_COLOR is
// set (https://no-color.org) or TERM is "dumb".
bool shows_colours(int descriptor) noexcept;

inline constexpr const char* kBold = "\033[1m";
inline constexpr const char* kYellow = "\033[1;33m";
inline constexpr const char* kPlain = "\033[0m";

// `text` in the style, or as it is.
std::string styled(std::string_view text, const char* style, bool is_coloured);

}  // namespace arenite::tool
