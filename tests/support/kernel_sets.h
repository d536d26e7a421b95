// SPDX-License-Identifier: Apache-2.0
// Runs a test once for every kernel set that this machine can run, the scalar one included, but for
// emulators.
//
//   class Linear : public KernelSetTest {};
//   ARENITE_FOR_EACH_KERNEL_SET(Linear);
//   TEST_P(Linear, DoesThis) { kernels().f32.gemm[...] }
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "arenite/target.h"
#include "arenite/tensor_type.h"
#include "kernels/kernel_set.h"
#include "support/slow_builds.h"

namespace arenite {

// How GoogleTest prints a target in messages and lists.
inline void PrintTo(Target target, std::ostream* out) { *out << name(target); }
inline void PrintTo(TensorType type, std::ostream* out) { *out << name(type); }

namespace test {

inline std::vector<Target> targets_here() {
  std::vector<Target> targets;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    if ((cpu_targets() & bit(target)) != 0) targets.push_back(target);
  }
  return targets;
}

// The targets that a test iterates over. An emulator skips the scalar set if there are others:
// native builds test it, and tests of kernels and of whole models run it in emulators, too.
inline std::vector<Target> targets_in_tests() {
  std::vector<Target> targets = targets_here();
  if (kEmulated && targets.size() > 1) std::erase(targets, Target::kPortable);
  return targets;
}

class KernelSetTest : public ::testing::TestWithParam<Target> {
 protected:
  const KernelSet& kernels() const { return *kernel_set(GetParam()); }
  Packing packing() const { return kernels().f32.packing; }
};

inline std::string test_name_of(const ::testing::TestParamInfo<Target>& info) {
  return kernel_set_name(info.param);
}

inline bool same_products(const FloatKernels& a, const FloatKernels& b) {
  return a.packing == b.packing && std::ranges::equal(a.gemm, b.gemm);
}

// Whether two sets differ at most in products of quantized rows, which attention does not use.
inline bool same_attention(const KernelSet& a, const KernelSet& b) {
  return same_products(a.f32, b.f32) && same_products(*a.w8, *b.w8) && a.integers == b.integers &&
         a.row_extremes == b.row_extremes && a.exp_sum == b.exp_sum && a.sum == b.sum &&
         a.add == b.add && a.multiply == b.multiply && a.add_constant == b.add_constant &&
         a.scale == b.scale && a.transpose == b.transpose && a.rotate == b.rotate &&
         a.gelu == b.gelu && a.sigmoid == b.sigmoid && a.tanh == b.tanh;
}

// The targets whose kernels for attention no earlier one has. A sanitizer takes the first and the
// last: kernels of all sets run there in whole models, and here what is around them is searched.
inline std::vector<Target> attention_targets_here() {
  std::vector<Target> targets;
  for (const Target target : targets_in_tests()) {
    const auto is_same = [&](Target earlier) {
      return same_attention(*kernel_set(earlier), *kernel_set(target));
    };
    if (std::ranges::none_of(targets, is_same)) targets.push_back(target);
  }
  if (kSampled && !kEmulated && targets.size() > 2) {
    targets.erase(targets.begin() + 1, targets.end() - 1);
  }
  return targets;
}

// Runs a test for every kernel set and every type of keys and values.
class CacheTest : public ::testing::TestWithParam<std::tuple<Target, TensorType>> {
 protected:
  const KernelSet& kernels() const { return *kernel_set(std::get<Target>(GetParam())); }
  Packing packing() const { return kernels().f32.packing; }
  TensorType kv_type() const { return std::get<TensorType>(GetParam()); }
  bool is_int8() const { return kv_type() == TensorType::kInt8; }
};

inline std::string cache_test_name_of(
    const ::testing::TestParamInfo<std::tuple<Target, TensorType>>& info) {
  return std::string(kernel_set_name(std::get<Target>(info.param))) + "_" +
         name(std::get<TensorType>(info.param));
}

#define ARENITE_FOR_EACH_CACHE(suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(                                                              \
      Caches, suite,                                                                     \
      ::testing::Combine(                                                                \
          ::testing::ValuesIn(::arenite::test::attention_targets_here()),                \
          ::testing::Values(::arenite::TensorType::kF32, ::arenite::TensorType::kInt8)), \
      ::arenite::test::cache_test_name_of)

// Those that models in float32 go through: in an emulator the ones whose kernels for them no
// earlier one has, since sets that differ only in products of quantized rows give the same.
inline std::vector<Target> float_targets_in_tests() {
  return kEmulated ? attention_targets_here() : targets_in_tests();
}

#define ARENITE_FOR_EACH_FLOAT_SET(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(KernelSets, suite,                                              \
                           ::testing::ValuesIn(::arenite::test::float_targets_in_tests()), \
                           ::arenite::test::test_name_of)

#define ARENITE_FOR_EACH_KERNEL_SET(suite)                                           \
  INSTANTIATE_TEST_SUITE_P(KernelSets, suite,                                        \
                           ::testing::ValuesIn(::arenite::test::targets_in_tests()), \
                           ::arenite::test::test_name_of)

}  // namespace test
}  // namespace arenite
