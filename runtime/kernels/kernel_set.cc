// SPDX-License-Identifier: Apache-2.0
// The kernel sets of this build, and which of them serves a target on this CPU.
#include "kernels/kernel_set.h"

#include "core/targets.h"
#include "kernels/microkernels.h"

namespace arenite {
namespace {

struct BuiltSet {
  const KernelSet* kernels;
  bool (*runs_on)(const CpuFeatures& cpu);
};

// The better set of a target comes first. tools/cmake/xnnpack.cmake decides which sets are built.
constexpr BuiltSet kBuiltSets[] = {
#if defined(ARENITE_HAVE_SIMD128)
    {&kSimd128Set, [](const CpuFeatures&) { return true; }},  // else the module does not load
#endif
#if defined(ARENITE_HAVE_SCALAR)
    {&kScalarSet, [](const CpuFeatures&) { return true; }},
#endif
#if defined(ARENITE_HAVE_SSE41)
    {&kSse41Set, [](const CpuFeatures& cpu) { return cpu.sse41; }},
#endif
#if defined(ARENITE_HAVE_AVX2)
    {&kAvxVnniSet, [](const CpuFeatures& cpu) { return cpu.avx2_fma3 && cpu_has_avx_vnni(); }},
    {&kAvx2Set, [](const CpuFeatures& cpu) { return cpu.avx2_fma3; }},
#endif
#if defined(ARENITE_HAVE_AVX512)
    {&kAvx512Set, [](const CpuFeatures& cpu) { return cpu.avx512; }},
#endif
#if defined(ARENITE_HAVE_AVX512VNNI)
    {&kAvx512VnniSet, [](const CpuFeatures& cpu) { return cpu.avx512_vnni; }},
#endif
#if defined(ARENITE_HAVE_NEON)
    {&kNeonSet, [](const CpuFeatures& cpu) { return cpu.neon; }},
#endif
#if defined(ARENITE_HAVE_NEONDOT)
    {&kNeonDotSet, [](const CpuFeatures& cpu) { return cpu.arm_dot; }},
#endif
#if defined(ARENITE_HAVE_NEONI8MM)
    {&kNeonI8mmSet, [](const CpuFeatures& cpu) { return cpu.arm_i8mm; }},
#endif
#if defined(ARENITE_HAVE_DSP)
    {&kDspSet, [](const CpuFeatures&) { return true; }},  // it is only compiled for such CPUs
#endif
#if defined(ARENITE_HAVE_MVE)
    {&kMveSet, [](const CpuFeatures&) { return true; }},
#endif
// A register longer than a panel would not fit, and a shorter one would cover only a half.
#if defined(ARENITE_HAVE_RVV128)
    {&kRvv128Set, [](const CpuFeatures& cpu) { return cpu.rvv_bits == 128; }},
#endif
#if defined(ARENITE_HAVE_RVV256)
    {&kRvv256Set, [](const CpuFeatures& cpu) { return cpu.rvv_bits == 256; }},
#endif
#if defined(ARENITE_HAVE_NEON32)
    {&kNeon32Set, [](const CpuFeatures& cpu) { return cpu.neon; }},
#endif
};

// A copy, since GCC's hidden visibility does not cover variable templates.
constexpr auto kKernelSetNames = kTargetColumn<&TargetRow::kernel_set>;

}  // namespace

const KernelSet* plain_avx2_set() {
#if defined(ARENITE_HAVE_AVX2)
  return cpu_features().avx2_fma3 ? &kAvx2Set : nullptr;
#else
  return nullptr;
#endif
}

const KernelSet* kernel_set(Target target) {
  const CpuFeatures cpu = cpu_features();
  for (const BuiltSet& built : kBuiltSets) {
    if (built.kernels->target == target && built.runs_on(cpu)) return built.kernels;
  }
  return nullptr;
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
  const uint32_t index = static_cast<uint32_t>(target);
  if (index >= kTargets) return "unknown";
  const KernelSet* const kernels = kernel_set(target);
  return kernels != nullptr ? kernels->name : kKernelSetNames[index];
}

}  // namespace arenite
