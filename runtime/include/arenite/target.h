// SPDX-License-Identifier: Apache-2.0
// The CPU targets that a model file can be packed for.
#pragma once

#include <cstdint>

namespace arenite {

// Ids are part of the file format: never renumbered, never reused. The x86-64 names are the psABI
// micro-architecture levels.
enum class Target : uint8_t {
  kPortable = 0,        // scalar kernels, every CPU
  kX86_64_v2 = 1,       // SSE4.1
  kX86_64_v3 = 2,       // AVX2, FMA3
  kX86_64_v4 = 3,       // AVX-512 F, BW, CD, DQ, VL
  kArm64 = 4,           // NEON
  kArm32 = 5,           // ARMv7-A with NEON
  kX86_64_v4_vnni = 6,  // x86-64-v4 with AVX-512 VNNI
  kArm64_dot = 7,       // arm64 with dot product
  kArm64_i8mm = 8,      // arm64 with dot product and I8MM
  kCortexMDsp = 9,      // Cortex-M with the DSP extension
  kCortexMMve = 10,     // Cortex-M with MVE, integer or floating-point
  kRv64_v128 = 11,      // 64-bit RISC-V with V, vector registers of exactly 128 bits
  kRv64_v256 = 12,      // 64-bit RISC-V with V, vector registers of 256 bits
};
inline constexpr uint32_t kTargets = 13;  // number of targets

// Returns "portable", "x86-64-v2", ..., or "unknown", as a static string.
const char* name(Target target);

// Returns the bit of a target in a bit set, such as cpu_targets().
constexpr uint32_t bit(Target target) { return 1u << static_cast<uint32_t>(target); }

// Returns the bit set of the targets whose kernels are compiled in and run on this CPU.
uint32_t cpu_targets();

// Returns the name of the kernel set that serves a target on this CPU or on a CPU of the target, as
// a static string: "scalar" ("simd128" in WebAssembly), "sse41", "avx2" ("avxvnni" on CPUs with
// AVX-VNNI), "avx512", "neon", "neon32", "avx512vnni", "neondot", "neoni8mm", "dsp", "mve",
// "rvv128" or "rvv256".
const char* kernel_set_name(Target target);

}  // namespace arenite
