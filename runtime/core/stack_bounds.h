// SPDX-License-Identifier: Apache-2.0
// The most stack that a call of the runtime takes, whatever the model and its input: what the tests
// hold it to, and `arenite inspect` prints.
#pragma once

#include <cstdint>

namespace arenite {

// Of builds with GCC 12, -Os for Cortex-M and -O2 for others. What the application's own callbacks
// take, for threads and hooks, comes on top.
struct StackBound {
  const char* cpu;
  uint32_t bytes;
};

enum class StackCpu : uint32_t { kX86, kArm64, kArm32, kRiscv64, kCortexM };

inline constexpr StackBound kStackBounds[] = {
    {"x86-64", 4096}, {"arm64", 3072}, {"arm32", 2560}, {"riscv64", 3072}, {"cortex-m", 2048},
};

// That of the CPU that this is compiled for.
constexpr const StackBound& stack_bound_here() {
#if defined(__x86_64__)
  constexpr StackCpu kCpu = StackCpu::kX86;
#elif defined(__aarch64__)
  constexpr StackCpu kCpu = StackCpu::kArm64;
#elif defined(__arm__) && defined(__linux__)
  constexpr StackCpu kCpu = StackCpu::kArm32;
#elif defined(__riscv)
  constexpr StackCpu kCpu = StackCpu::kRiscv64;
#else
  constexpr StackCpu kCpu = StackCpu::kCortexM;
#endif
  return kStackBounds[static_cast<uint32_t>(kCpu)];
}

}  // namespace arenite
