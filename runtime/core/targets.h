// SPDX-License-Identifier: Apache-2.0
// The targets that a model file can be packed for, one table row each: names, and the tile sizes of
// their kernels, which are part of the file format. Also detects the features of this CPU. The
// kernels themselves are in kernels/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "arenite/target.h"

namespace arenite {

// Tile of a GEMM kernel: `nr` outputs side by side, groups of `kr` adjacent inputs per output, `mr`
// rows of activations per call (packing.h). If a tile widens, its kernels multiply int16 by int16,
// and each thread keeps a block of rows widened to int16.
struct Tile {
  uint8_t nr, kr, mr;
  bool widens = false;
};

// The compiler target that can build the kernels.
enum class Architecture : uint8_t {
  kAny,
  kX86_64,
  kAarch64,
  kArm,
  kCortexMDsp,
  kCortexMMve,
  kRiscV64
};

struct TargetRow {
  Target target;
  const char* name;        // as in options and reports
  const char* kernel_set;  // its sources are listed in tools/cmake/kernel_sources.cmake
  Architecture architecture;
  Tile floats;  // f32, w8 and caches
  Tile q8;
  Tile q4;
  const char* cpus;  // for display
};
// CMake also parses the first line of each row: the kernel set and the architecture.
// clang-format off
inline constexpr TargetRow kTargetRows[] = {
    {Target::kPortable, "portable", "scalar", Architecture::kAny,
     {4, 1, 4}, {4, 1, 4}, {4, 1, 4}, "every CPU"},
    {Target::kX86_64_v2, "x86-64-v2", "sse41", Architecture::kX86_64,
     {8, 1, 4}, {4, 8, 4}, {4, 8, 4}, "x86-64 with SSE4.1: nearly all since 2008"},
    {Target::kX86_64_v3, "x86-64-v3", "avx2", Architecture::kX86_64,
     {16, 1, 4}, {8, 8, 4}, {8, 8, 4},
     "x86-64 with AVX2 and FMA: Intel since Haswell, AMD since Zen"},
    // AVX-512 without VNNI has no kernels of its own for q4 and uses those of AVX2.
    {Target::kX86_64_v4, "x86-64-v4", "avx512", Architecture::kX86_64,
     {32, 1, 8}, {16, 8, 8}, {8, 8, 4},
     "x86-64 with AVX-512: Intel since Skylake-SP, AMD since Zen 4"},
    {Target::kArm64, "arm64", "neon", Architecture::kAarch64,
     {8, 1, 6}, {16, 1, 6}, {16, 1, 6}, "64-bit ARM"},
    {Target::kArm32, "arm32", "neon32", Architecture::kArm,
     {8, 1, 4}, {8, 1, 4}, {16, 1, 4}, "32-bit ARM with NEON: Cortex-A"},
    {Target::kX86_64_v4_vnni, "x86-64-v4-vnni", "avx512vnni", Architecture::kX86_64,
     {32, 1, 8}, {16, 8, 8}, {16, 8, 8},
     "x86-64 with AVX-512 VNNI: Intel since Cascade Lake, AMD since Zen 4"},
    {Target::kArm64_dot, "arm64-dot", "neondot", Architecture::kAarch64,
     {8, 1, 6}, {16, 4, 6}, {16, 4, 6},
     "64-bit ARM with dot product: Cortex-A55, A75 and later"},
    {Target::kArm64_i8mm, "arm64-i8mm", "neoni8mm", Architecture::kAarch64,
     {8, 1, 6}, {16, 8, 8}, {16, 8, 8},
     "64-bit ARM with I8MM: Cortex-A510, A710 and later"},
    {Target::kCortexMDsp, "cortex-m-dsp", "dsp", Architecture::kCortexMDsp,
     {4, 1, 4}, {4, 8, 4, true}, {4, 4, 4, true},
     "Cortex-M with the DSP extension: M4, M7, M33, M35P; M55 and M85, too"},
    {Target::kCortexMMve, "cortex-m-mve", "mve", Architecture::kCortexMMve,
     {4, 1, 4}, {4, 16, 4}, {4, 16, 4}, "Cortex-M with MVE (Helium): M52, M55, M85"},
    {Target::kRv64_v128, "rv64-v128", "rvv128", Architecture::kRiscV64,
     {16, 1, 4}, {16, 1, 4}, {16, 1, 2}, "64-bit RISC-V with vectors of 128 bits"},
    {Target::kRv64_v256, "rv64-v256", "rvv256", Architecture::kRiscV64,
     {32, 1, 4}, {32, 1, 4}, {32, 1, 2}, "64-bit RISC-V with vectors of 256 bits"},
};
// clang-format on

// One column of the table as an array: programs link only the columns that they use.
template <auto kMember>
inline constexpr auto kTargetColumn = [] {
  std::array<std::remove_cvref_t<decltype(kTargetRows[0].*kMember)>, kTargets> column = {};
  for (uint32_t i = 0; i < kTargets; ++i) column[i] = kTargetRows[i].*kMember;
  return column;
}();

// Returns the kernel set whose tiles the files of a target have, e.g. "avx2" for x86-64-v3, even if
// another set runs them on this CPU (kernel_set_name). REQUIRES: a known target.
inline const char* packed_for(Target target) {
  return kTargetColumn<&TargetRow::kernel_set>[static_cast<size_t>(target)];
}

constexpr bool targets_are_in_order() {
  for (uint32_t i = 0; i < kTargets; ++i) {
    if (kTargetRows[i].target != static_cast<Target>(i)) return false;
  }
  return std::size(kTargetRows) == kTargets;
}
static_assert(targets_are_in_order());

// The CPU features that kernels use.

struct CpuFeatures {
  bool sse41 = false;
  bool sse42 = false;
  bool avx2_fma3 = false;
  bool avx512 = false;  // F, BW, CD, DQ and VL
  bool avx512_vnni = false;
  bool neon = false;
  bool arm_dot = false;
  bool arm_i8mm = false;
  bool arm_crc32 = false;
  uint32_t rvv_bits = 0;  // bits of a RISC-V vector register; 0: no vectors
};

// Detects the features of this CPU (x86: cpuid; Linux on ARM and RISC-V: the auxiliary vector; else
// the compiler flags).
CpuFeatures cpu_features();

// Returns whether the CPU has AVX-VNNI. It is separate from CpuFeatures because the builtin of some
// compilers lacks it, and cpuid takes microseconds in a virtual machine. REQUIRES: AVX2.
bool cpu_has_avx_vnni();

}  // namespace arenite
