// SPDX-License-Identifier: Apache-2.0
// CPU feature detection without a library of its own.
#include "core/cpu_features.h"

#if (defined(__aarch64__) || defined(__arm__)) && defined(__linux__)
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
  features.avx512f = __builtin_cpu_supports("avx512f") != 0;
#elif defined(__aarch64__)
  features.neon = true;  // part of every ARMv8-A
#if defined(__linux__)
  constexpr unsigned long kHwcapCrc32 = 1ul << 7;
  features.arm_crc32 = (getauxval(AT_HWCAP) & kHwcapCrc32) != 0;
#elif defined(__ARM_FEATURE_CRC32)
  features.arm_crc32 = true;
#endif
#elif defined(__arm__)
#if defined(__linux__)
  constexpr unsigned long kHwcapNeon = 1ul << 12;
  features.neon = (getauxval(AT_HWCAP) & kHwcapNeon) != 0;
#elif defined(__ARM_NEON)
  features.neon = true;
#endif
#endif
  return features;
}

}  // namespace arenite
