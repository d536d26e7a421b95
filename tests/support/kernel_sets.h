// SPDX-License-Identifier: Apache-2.0
// Runs a test once for every kernel set that this machine can run, the scalar one included.
//
//   class Linear : public KernelSetTest {};
//   ARENITE_FOR_EACH_KERNEL_SET(Linear);
//   TEST_P(Linear, DoesThis) { kernels().of(TensorType::kF32).gemm[...] }
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "kernels/kernel_set.h"

namespace arenite {

// How GoogleTest prints a target in messages and lists.
inline void PrintTo(Target target, std::ostream* out) { *out << name(target); }

namespace test {

inline std::vector<Target> targets_here() {
  std::vector<Target> targets;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    if ((cpu_targets() & bit(target)) != 0) targets.push_back(target);
  }
  return targets;
}

class KernelSetTest : public ::testing::TestWithParam<Target> {
 protected:
  const KernelSet& kernels() const { return *kernel_set(GetParam()); }
  Packing packing() const { return kernels().of(TensorType::kF32).packing; }
};

inline std::string test_name_of(const ::testing::TestParamInfo<Target>& info) {
  return kernel_set_name(info.param);
}

#define ARENITE_FOR_EACH_KERNEL_SET(suite)                                       \
  INSTANTIATE_TEST_SUITE_P(KernelSets, suite,                                    \
                           ::testing::ValuesIn(::arenite::test::targets_here()), \
                           ::arenite::test::test_name_of)

}  // namespace test
}  // namespace arenite
