// SPDX-License-Identifier: Apache-2.0
// Tests that instruction counts follow from the board's ticks, with loops of known length. For QEMU
// with -icount shift=0.
#include "board.h"

static uint64_t instructions_of_loop(uint32_t turns) {
  const uint32_t begin = board::ticks();
  asm volatile("1: subs %0, #1\n bne 1b" : "+r"(turns)::"cc");  // two instructions a turn
  return uint64_t{board::ticks() - begin} * board::kInstructionsPerTick;
}

int main() {
  for (const uint32_t turns : {100'000u, 1'000'000u, 10'000'000u}) {
    const uint64_t expected = uint64_t{2} * turns;
    const uint64_t found = instructions_of_loop(turns);
    // A tick at either end, and reading the counter.
    if (found < expected || found > expected + 4 * board::kInstructionsPerTick) {
      board::write("ticks and instructions differ\n");
      return 1;
    }
  }
  return 0;
}
