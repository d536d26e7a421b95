// SPDX-License-Identifier: Apache-2.0
// CPU features, targets and the kernel sets that follow from them.
#include "arenite/target.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include "arenite/arena_formula.h"
#include "core/targets.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "support/kernel_sets.h"

namespace arenite {
namespace {

TEST(CpuFeatures, BelongToOneArchitecture) {
  const CpuFeatures features = cpu_features();
#if defined(__x86_64__)
  EXPECT_FALSE(features.neon || features.arm_crc32);
#elif defined(__aarch64__)
  EXPECT_TRUE(features.neon);
  EXPECT_FALSE(features.sse41 || features.sse42 || features.avx2_fma3 || features.avx512);
#elif defined(__arm__)
  EXPECT_FALSE(features.sse41 || features.sse42 || features.avx2_fma3 || features.avx512);
#else
  EXPECT_FALSE(features.neon || features.arm_crc32 || features.sse41 || features.avx2_fma3);
#endif
}

TEST(CpuFeatures, ComeInTheOrderOfTheLadder) {
  const CpuFeatures features = cpu_features();
  EXPECT_TRUE(features.sse41 || !features.sse42);
  EXPECT_TRUE(features.sse42 || !features.avx2_fma3);
  EXPECT_TRUE(features.avx2_fma3 || !features.avx512);
}

TEST(Targets, PortableRunsEverywhere) {
  EXPECT_NE(cpu_targets() & bit(Target::kPortable), 0u);
  EXPECT_EQ(cpu_targets() >> kTargets, 0u);
}

// "scalar sse41 avx2" of this machine, from another source than the runtime's own question to the
// CPU: ARENITE_EXPECTED_KERNELS where an emulator runs the test, as it shows the flags of the
// machine below; else what the kernel says. Nothing where neither is there.
std::string expected_kernel_sets() {
  if (const char* const expected = std::getenv("ARENITE_EXPECTED_KERNELS")) return expected;
#if defined(__x86_64__)
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("flags")) continue;
    line += ' ';
    const auto has = [&](const char* flag) { return line.find(flag) != std::string::npos; };
    std::string sets = "scalar";
    if (has(" sse4_1 ")) sets += " sse41";
    if (has(" avx2 ") && has(" fma ")) sets += has(" avx_vnni ") ? " avxvnni" : " avx2";
    const bool avx512 = has(" avx512f ") && has(" avx512bw ") && has(" avx512cd ") &&
                        has(" avx512dq ") && has(" avx512vl ");
    if (avx512) sets += " avx512";
    if (avx512 && has(" avx512_vnni ")) sets += " avx512vnni";
    return sets;
  }
#endif
  return {};
}

TEST(Targets, MatchTheCpu) {
  const std::string expected = expected_kernel_sets();
  if (expected.empty()) GTEST_SKIP() << "nothing else here says what the CPU can do";
  std::string found;
  for (const Target target : test::targets_here()) {
    if (!found.empty()) found += ' ';
    found += kernel_set_name(target);
  }
  std::cout << "kernel sets run here: " << found << "\n";
  EXPECT_EQ(found, expected);
}

TEST(Targets, HaveDifferentNames) {
  std::set<std::string> names;
  std::set<std::string> kernel_names;
  for (uint32_t i = 0; i < kTargets; ++i) {
    names.insert(name(static_cast<Target>(i)));
    kernel_names.insert(kernel_set_name(static_cast<Target>(i)));
  }
  EXPECT_EQ(names.size(), kTargets);
  EXPECT_EQ(kernel_names.size(), kTargets);
  EXPECT_EQ(names.count("unknown") + kernel_names.count("unknown"), 0u);
}

TEST(Targets, UnknownOnesHaveNoKernels) {
  EXPECT_EQ(kernel_set(static_cast<Target>(kTargets)), nullptr);
}

class KernelSets : public test::KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(KernelSets);

TEST_P(KernelSets, AreCompleteAndPackedAsTheirTargetSays) {
  const KernelSet& set = kernels();
  EXPECT_EQ(set.target, GetParam());
  EXPECT_STREQ(set.name, kernel_set_name(GetParam()));
  EXPECT_EQ(set.f32.packing, packing_of(GetParam(), TensorType::kF32));
  EXPECT_EQ(set.w8->packing, packing_of(GetParam(), TensorType::kW8));
  EXPECT_EQ(set.q8->packing, packing_of(GetParam(), TensorType::kQ8));
  EXPECT_EQ(set.q4->packing, packing_of(GetParam(), TensorType::kQ4));
  ASSERT_LE(set.f32.packing.mr, kRowsMax);
  for (uint32_t rows = 1; rows <= set.f32.packing.mr; ++rows)
    EXPECT_NE(set.f32.gemm[rows], nullptr);
  for (uint32_t rows = 1; rows <= set.w8->packing.mr; ++rows)
    EXPECT_NE(set.w8->gemm[rows], nullptr);
  for (const QuantizedKernels* type : {set.q8, set.q4}) {
    EXPECT_NE(type->quantize, nullptr);
    for (uint32_t rows = 1; rows <= type->packing.mr; ++rows) EXPECT_NE(type->gemm[rows], nullptr);
  }
  EXPECT_NE(set.row_extremes, nullptr);
  EXPECT_NE(set.exp_sum, nullptr);
  EXPECT_NE(set.add, nullptr);
  EXPECT_NE(set.scale, nullptr);
}

// attention starts a product with the keys at any tile of a mask and at any page.
TEST_P(KernelSets, HaveATileThatDividesMaskTilesAndPages) {
  EXPECT_EQ(kMaskTile % packing().nr, 0u);
  EXPECT_EQ(kPagePositions % kMaskTile, 0u);
}

}  // namespace
}  // namespace arenite
