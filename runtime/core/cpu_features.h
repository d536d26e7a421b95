// SPDX-License-Identifier: Apache-2.0
// What this CPU can do, as far as kernels care.
#pragma once

namespace arenite {

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
};

// Asks the CPU (x86: cpuid; Linux on ARM: the auxiliary vector; else what the compiler was told).
CpuFeatures cpu_features();

// AVX-VNNI is not among them: some compilers' builtin does not know it, and the instruction that
// asks the CPU takes microseconds in a virtual machine. For those who need to know. REQUIRES: AVX2.
bool cpu_has_avx_vnni();

}  // namespace arenite
