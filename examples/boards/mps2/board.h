// SPDX-License-Identifier: Apache-2.0
// The services of a board for a program without an operating system: text in and out, an end, a
// counter. start.cc calls the program's main. Programs in C have the functions at the end.
#pragma once

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace board {

// Waits for input and returns how many bytes it put into `bytes`, which is not empty: at least 1,
// or 0 at the end of the input, or if there is none to read.
size_t read(std::span<char> bytes);

// Gives out bytes as they are.
void write(std::string_view bytes);

// Ends the program; a status other than 0 says that something went wrong.
[[noreturn]] void leave(int status);

// A counter that counts up at 25 MHz and wraps after 171 s.
uint32_t ticks();

// Instructions in a tick when QEMU runs with -icount shift=0, where each takes a nanosecond. On a
// CPU of silicon a tick is time, and has nothing to do with instructions.
inline constexpr uint32_t kInstructionsPerTick = 40;

}  // namespace board
#else
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif
size_t board_read(char* bytes, size_t size);
void board_write(const char* text, size_t bytes);
uint32_t board_ticks(void);
#ifdef __cplusplus
}
#endif
