// SPDX-License-Identifier: Apache-2.0
// Detects CPU features without a library.
#include "core/targets.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if (defined(__aarch64__) || defined(__arm__) || defined(__riscv)) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace arenite {

CpuFeatures cpu_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  features.sse41 = __builtin_cpu_supports("sse4.1") != 0;
  features.sse42 = __builtin_cpu_supports("sse4.2") != 0;
  features.avx2_fma3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  features.avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0;
  features.avx512_vnni = features.avx512 && __builtin_cpu_supports("avx512vnni") != 0;
#elif defined(__aarch64__)
  features.neon = true;  // mandatory in ARMv8-A
#if defined(__linux__)
  constexpr unsigned long kHwcapCrc32 = 1ul << 7;
  constexpr unsigned long kHwcapDot = 1ul << 20;
  constexpr unsigned long kHwcap2I8mm = 1ul << 13;
  const unsigned long hwcap = getauxval(AT_HWCAP);
  features.arm_crc32 = (hwcap & kHwcapCrc32) != 0;
  features.arm_dot = (hwcap & kHwcapDot) != 0;
  features.arm_i8mm = features.arm_dot && (getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0;
#else
#if defined(__ARM_FEATURE_CRC32)
  features.arm_crc32 = true;
#endif
#if defined(__ARM_FEATURE_DOTPROD)
  features.arm_dot = true;
#endif
#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8)
  features.arm_i8mm = true;
#endif
#endif
#elif defined(__arm__)
#if defined(__linux__)
  constexpr unsigned long kHwcapNeon = 1ul << 12;
  features.neon = (getauxval(AT_HWCAP) & kHwcapNeon) != 0;
#elif defined(__ARM_NEON)
  features.neon = true;
#endif
#elif defined(__riscv)
#if defined(__linux__)
  const bool has_vectors = (getauxval(AT_HWCAP) >> ('V' - 'A') & 1) != 0;
#elif defined(__riscv_v)
  constexpr bool has_vectors = true;
#else
  constexpr bool has_vectors = false;
#endif
  if (has_vectors) {
    // Encoded as numbers, since assemblers may not know them: the register vlenb, and "vsetvli a0,
    // zero, e32, m4, ta, ma". A group of four registers has as many floats as one register has
    // bytes, except in the draft of the vector extension that older CPUs implement and that some
    // operating system kernels report in the same way.
    unsigned long bytes = 0;
    unsigned long floats = 0;
    asm volatile("csrr %0, 0xC22" : "=r"(bytes));
    asm volatile(".4byte 0x0D207557\nmv %0, a0" : "=r"(floats)::"a0");
    if (floats == bytes) features.rvv_bits = static_cast<uint32_t>(bytes) * 8;
  }
#endif
  return features;
}

bool cpu_has_avx_vnni() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
  return __builtin_cpu_supports("avxvnni") != 0;
#elif defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1u) != 0;
#else
  return false;
#endif
}

}  // namespace arenite
