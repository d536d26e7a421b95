// SPDX-License-Identifier: Apache-2.0
#include "console.h"

#include "board.h"

void print(std::string_view text) { board::write(text); }

void print(uint64_t number, size_t width) {
  constexpr size_t kDigitsMax = 20;
  char digits[kDigitsMax];
  size_t begin = kDigitsMax;
  do {
    digits[--begin] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (begin != 0 && kDigitsMax - begin < width) digits[--begin] = ' ';
  board::write({digits + begin, kDigitsMax - begin});
}

int fail(arenite::Status status, const arenite::Diagnostic& why) {
  char text[256];
  arenite::describe(status, why, text);
  print("error: ");
  print(text);
  print("\n");
  return 1;
}

bool LineReader::next_byte(char& byte) {
  if (taken_ == held_bytes_) {
    held_bytes_ = board::read(held_);
    taken_ = 0;
    if (held_bytes_ == 0) return false;
  }
  byte = held_[taken_++];
  return true;
}

bool LineReader::next() {
  line_.clear();
  char byte = 0;
  bool any = false;
  while (next_byte(byte)) {
    if (byte == '\n') return true;
    any = true;
    if (byte != '\r') line_.add(byte);  // some terminals end lines with both
  }
  return any;
}
