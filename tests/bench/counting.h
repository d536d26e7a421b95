// SPDX-License-Identifier: Apache-2.0
// Shared by the programs that count instructions on a Cortex-M in QEMU: the counter, lines of text,
// and memory for operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// The system's timer, which all Cortex-M have: 24 bits, downwards.
struct SysTick {
  uint32_t control, reload, value;
};
inline constexpr uint32_t kTimerMask = 0xFFFFFF;
inline uint32_t ticks() {
  return kTimerMask - reinterpret_cast<volatile SysTick*>(0xE000E010)->value;
}

// Ticks that kLoops turns of two instructions take, once they are measured.
inline constexpr uint32_t kLoops = 4'000'000;
extern uint32_t loop_ticks;

// Returns the instructions of work() per unit, in thousandths. The timer may wrap twice.
template <typename Work>
uint64_t count(uint64_t units, Work work) {
  auto& timer = *reinterpret_cast<volatile SysTick*>(0xE000E010);
  constexpr uint32_t kPassedItsEnd = 1 << 16;  // since the last time that `control` was read
  (void)timer.control;
  const uint32_t begin = ticks();
  work();
  const uint32_t end = ticks();
  uint64_t taken = (end - begin) & kTimerMask;
  if ((timer.control & kPassedItsEnd) != 0 && end >= begin) taken += kTimerMask + 1;
  return taken * 2 * kLoops * 1000 / loop_ticks / units;
}

void print(std::string_view text);
void print(uint64_t number);
void report(std::string_view what, std::string_view set, std::string_view type, uint64_t rows,
            uint64_t thousandths);

inline constexpr uint32_t kSideMax = 512;
inline constexpr uint32_t kRowsOfAll = 64;
inline constexpr uint32_t kFloats = kRowsOfAll * kSideMax + 16;
extern std::byte memory[3u << 20];  // weights, or a model and its arena
extern float input[kFloats];        // numbers between -1 and 1
extern float output[kFloats];
ScratchArea scratch();

// Shapes of the products that are counted; the printed lines carry these names.
inline constexpr struct {
  const char* name;
  uint32_t outputs, inputs;
} kProductShapes[] = {{"64x64", 64, 64}, {"128x512", 128, 512}, {"384x384", 384, 384}};

// Counts these products in CMSIS-NN. Defined in cmsis_nn_counts.cc, if the build names a folder
// with CMSIS-NN.
void count_cmsis_nn();

// Ops of several shapes, which rates are fitted to: op_counts.cc. Prints "op:NAME:SIZE:SIZE...".
void count_ops(const KernelSet& kernels);

}  // namespace arenite
