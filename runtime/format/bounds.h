// SPDX-License-Identifier: Apache-2.0
// Upper bounds on what a call of the runtime uses, whatever the model and its input: the bytes of
// stack of any call, and the steps of Model::load. Tests enforce the bounds; `arenite inspect`
// prints them.
#pragma once

#include <cstdint>

#include "format/file_layout.h"
#include "format/reader.h"

namespace arenite {

// Holds for builds with GCC 12, with -Os for Cortex-M and -O2 for other CPUs. The stack of the
// application's own callbacks (threads, hooks) comes on top.
struct StackBound {
  const char* cpu;
  uint32_t bytes;
};

enum class StackCpu : uint32_t { kX86, kArm64, kArm32, kRiscv64, kCortexM, kCortexMSoft };

inline constexpr StackBound kStackBounds[] = {
    {"x86-64", 4096},
    {"arm64", 3584},
    {"arm32", 3072},
    {"riscv64", 3584},
    {"cortex-m", 2432},
    // Float operations are function calls here, and a Cortex-M0+ saves more registers.
    {"cortex-m without an FPU", 2624},
};

constexpr const StackBound& stack_bound_here() {
#if defined(__x86_64__)
  constexpr StackCpu kCpu = StackCpu::kX86;
#elif defined(__aarch64__)
  constexpr StackCpu kCpu = StackCpu::kArm64;
#elif defined(__arm__) && defined(__linux__)
  constexpr StackCpu kCpu = StackCpu::kArm32;
#elif defined(__riscv)  // the bound holds for 32-bit RISC-V, too
  constexpr StackCpu kCpu = StackCpu::kRiscv64;
#elif defined(__ARM_FP)
  constexpr StackCpu kCpu = StackCpu::kCortexM;
#else
  constexpr StackCpu kCpu = StackCpu::kCortexMSoft;
#endif
  return kStackBounds[static_cast<uint32_t>(kCpu)];
}

}  // namespace arenite

namespace arenite::format {

// The sizes that bound the cost of Model::load. Metadata is everything but packed weights and the
// self-test.
struct LoadSize {
  uint64_t file_bytes = 0;
  uint64_t metadata_bytes = 0;
  uint64_t slots_and_states = 0;  // slots + hidden states; at most 2 * kSlotsMax
  uint64_t ops = 0;               // at most kOpsMax
  uint64_t mask_row_tiles = 0;    // tile masks: rows * tiles per row; at most 16 * metadata_bytes
};

// A step is one basic block executed in an unoptimized build (an optimized build executes fewer),
// or one byte compared. The checksum accounts for most of kLoadStepsPerByte.
inline constexpr uint64_t kLoadStepsPerByte = 1;
inline constexpr uint64_t kLoadStepsPerMetadataByte = 32;
inline constexpr uint64_t kLoadStepsPerSlotAndOp = 8;
inline constexpr uint64_t kLoadStepsPerRowTile = 48;
inline constexpr uint64_t kLoadStepsBesides = 1000;

constexpr uint64_t load_steps_max(const LoadSize& size) {
  return kLoadStepsPerByte * size.file_bytes + kLoadStepsPerMetadataByte * size.metadata_bytes +
         kLoadStepsPerSlotAndOp * size.slots_and_states * size.ops +
         kLoadStepsPerRowTile * size.mask_row_tiles + kLoadStepsBesides;
}

// REQUIRES: the file is verified.
inline LoadSize load_size(const ModelReader& reader, const Footer& footer) {
  LoadSize size = {footer.file_bytes, footer.metadata_bytes,
                   uint64_t{reader.slots()} + reader.hidden_states(), reader.ops(), 0};
  for (uint32_t i = 0; i < reader.masks(); ++i) {
    const MaskView mask = reader.mask(i);
    if (mask.kind != MaskKind::kTiles) continue;
    size.mask_row_tiles += uint64_t{mask.positions} * mask.tile_columns();
  }
  return size;
}

}  // namespace arenite::format
