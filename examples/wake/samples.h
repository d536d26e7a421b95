// SPDX-License-Identifier: Apache-2.0
// Samples from the board's input: 16-bit, one channel, little-endian, by themselves or in a WAV
// file.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "board.h"

class Samples {
 public:
  // Reads the header of a WAV file, if there is one; else `rate` stays as it is. False if the file
  // has other samples than these.
  bool begin(uint32_t& rate) {
    static constexpr uint32_t kBegin = 12, kHead = 8, kFormat = 16;
    held_ = fill(bytes_, kBegin);
    if (held_ < kBegin || !is_at(0, "RIFF") || !is_at(8, "WAVE")) return true;
    for (bool is_known = false; fill(bytes_, kHead) == kHead;) {
      uint32_t left = number(4, 4);
      held_ = 0;
      if (is_at(0, "data")) {
        left_ = left;
        return is_known;
      }
      if (is_at(0, "fmt ") && left >= kFormat && fill(bytes_, kFormat) == kFormat) {
        constexpr uint32_t kPcm = 1, kExtensible = 0xFFFE;
        const uint32_t format = number(0, 2);
        is_known =
            (format == kPcm || format == kExtensible) && number(2, 2) == 1 && number(14, 2) == 16;
        rate = number(4, 4);
        left -= kFormat;
      }
      for (left += left % 2; left != 0;) {
        const size_t count = left < sizeof(bytes_) ? left : sizeof(bytes_);
        if (fill(bytes_, count) != count) return false;
        left -= static_cast<uint32_t>(count);
      }
    }
    return false;
  }

  // The next ones, at most 20 ms; none at the end.
  std::span<const int16_t> next() {
    const size_t most = left_ < sizeof(bytes_) ? left_ : sizeof(bytes_);
    const size_t count = held_ + fill(bytes_ + held_, most - held_);
    held_ = 0;
    if (left_ != kEndless) left_ -= static_cast<uint32_t>(count);
    std::memcpy(samples_, bytes_, count);
    return {samples_, count / sizeof(int16_t)};
  }

 private:
  static constexpr uint32_t kEndless = UINT32_MAX;  // also what a recorder writes beforehand

  // Bytes, fewer than `count` at the end alone.
  static size_t fill(char* bytes, size_t count) {
    size_t filled = 0;
    while (filled < count) {
      const size_t more = board::read({bytes + filled, count - filled});
      if (more == 0) break;
      filled += more;
    }
    return filled;
  }
  bool is_at(size_t place, const char* name) const {
    return std::memcmp(bytes_ + place, name, 4) == 0;
  }
  uint32_t number(size_t place, size_t bytes) const {
    uint32_t value = 0;
    for (size_t i = bytes; i-- != 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes_[place + i]);
    }
    return value;
  }

  char bytes_[640] = {};
  int16_t samples_[sizeof(bytes_) / sizeof(int16_t)] = {};
  size_t held_ = 0;  // bytes that are read and not given out
  uint32_t left_ = kEndless;
};
