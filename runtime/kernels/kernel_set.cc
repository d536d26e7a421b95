// SPDX-License-Identifier: Apache-2.0
// Which kernel set serves a target on this CPU.
#include "kernels/kernel_set.h"

#include "core/cpu_features.h"
#include "kernels/microkernels.h"

namespace arenite {

const KernelSet* plain_avx2_set() {
#if defined(ARENITE_HAVE_AVX2)
  return cpu_features().avx2_fma3 ? &kAvx2Set : nullptr;
#else
  return nullptr;
#endif
}

const KernelSet* kernel_set(Target target) {
  [[maybe_unused]] const CpuFeatures cpu = cpu_features();
  switch (target) {
#if defined(ARENITE_HAVE_SCALAR)
    case Target::kPortable:
      return &kScalarSet;
#endif
#if defined(ARENITE_HAVE_SSE41)
    case Target::kX86_64_v2:
      return cpu.sse41 ? &kSse41Set : nullptr;
#endif
#if defined(ARENITE_HAVE_AVX2)
    case Target::kX86_64_v3:
      if (!cpu.avx2_fma3) return nullptr;
      return cpu_has_avx_vnni() ? &kAvxVnniSet : &kAvx2Set;
#endif
#if defined(ARENITE_HAVE_AVX512)
    case Target::kX86_64_v4:
      return cpu.avx512 ? &kAvx512Set : nullptr;
#endif
#if defined(ARENITE_HAVE_AVX512VNNI)
    case Target::kX86_64_v4_vnni:
      return cpu.avx512_vnni ? &kAvx512VnniSet : nullptr;
#endif
#if defined(ARENITE_HAVE_NEON)
    case Target::kArm64:
      return cpu.neon ? &kNeonSet : nullptr;
#endif
#if defined(ARENITE_HAVE_NEONDOT)
    case Target::kArm64_dot:
      return cpu.arm_dot ? &kNeonDotSet : nullptr;
#endif
#if defined(ARENITE_HAVE_NEONI8MM)
    case Target::kArm64_i8mm:
      return cpu.arm_i8mm ? &kNeonI8mmSet : nullptr;
#endif
#if defined(ARENITE_HAVE_NEON32)
    case Target::kArm32:
      return cpu.neon ? &kNeon32Set : nullptr;
#endif
    default:
      return nullptr;
  }
}

uint32_t cpu_targets() {
  uint32_t targets = 0;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    if (kernel_set(target) != nullptr) targets |= bit(target);
  }
  return targets;
}

const char* kernel_set_name(Target target) {
  switch (target) {
    case Target::kPortable:
      return "scalar";
    case Target::kX86_64_v2:
      return "sse41";
    case Target::kX86_64_v3:
      return "avx2";
    case Target::kX86_64_v4:
      return "avx512";
    case Target::kArm64:
      return "neon";
    case Target::kArm32:
      return "neon32";
    case Target::kX86_64_v4_vnni:
      return "avx512vnni";
    case Target::kArm64_dot:
      return "neondot";
    case Target::kArm64_i8mm:
      return "neoni8mm";
  }
  return "unknown";
}

}  // namespace arenite
