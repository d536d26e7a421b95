// SPDX-License-Identifier: Apache-2.0
// What this CPU can do, as far as kernels care.
#pragma once

namespace arenite {

struct CpuFeatures {
  bool sse41 = false;
  bool sse42 = false;
  bool avx2_fma3 = false;
  bool avx512f = false;
  bool neon = false;
  bool arm_crc32 = false;
};

// Asks the CPU (x86: cpuid; Linux on ARM: the auxiliary vector; else what the compiler was told).
CpuFeatures cpu_features();

}  // namespace arenite
