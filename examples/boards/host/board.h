// SPDX-License-Identifier: Apache-2.0
// The board of boards/mps2 on a PC, for programs that run on both: the standard input and output.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>

namespace board {

inline size_t read(std::span<char> bytes) {
  return std::fread(bytes.data(), 1, bytes.size(), stdin);
}

inline void write(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

// Nothing is counted here.
inline uint32_t ticks() { return 0; }
inline constexpr uint32_t kInstructionsPerTick = 0;

}  // namespace board
