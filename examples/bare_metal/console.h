// SPDX-License-Identifier: Apache-2.0
// Lines of text in and out over the board's console, in a fixed few bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "arenite/status.h"

void print(std::string_view text);
// In a column of `width` characters, if it is shorter.
void print(uint64_t number, size_t width = 0);
// Says why a call was refused; returns 1.
int fail(arenite::Status status, const arenite::Diagnostic& why);

// Text that is cut where it no longer fits.
template <size_t kBytesMax>
class FixedText {
 public:
  void clear() { bytes_ = 0; }
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }
  void add(char c) {
    if (bytes_ < kBytesMax) data_[bytes_++] = c;
  }
  bool full() const { return bytes_ == kBytesMax; }
  std::string_view view() const { return {data_, bytes_}; }

 private:
  char data_[kBytesMax] = {};
  size_t bytes_ = 0;
};

inline constexpr size_t kLineBytesMax = 120;

// Cuts the input into lines.
class LineReader {
 public:
  // False at the end of the input. Then line() is the next line, without its end, which may be
  // missing from the last one.
  bool next();

  std::string_view line() const { return line_.view().substr(0, kLineBytesMax); }
  bool too_long() const { return line_.full(); }  // of a longer line, line() is the beginning

 private:
  bool next_byte(char& byte);

  FixedText<kLineBytesMax + 1> line_;
  char held_[64] = {};  // what the board gave
  size_t held_bytes_ = 0;
  size_t taken_ = 0;
};
