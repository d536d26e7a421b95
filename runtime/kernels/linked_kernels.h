// SPDX-License-Identifier: Apache-2.0
// What a kernel set leaves out where no model needs it: a question to the compiler of a build, and
// to the program that writes the sources of one.
#pragma once

#include <cstdint>

#include "core/needs.h"
#include "kernels/kernel_set.h"

namespace arenite {

// What no op of the needs calls becomes null, so that the linker leaves out the microkernel.
constexpr KernelSet linked_kernels(KernelSet set, uint64_t needs = kLinked) {
  using enum Need;
  const auto any = [needs](uint64_t of_these) { return (needs & of_these) != 0; };
  const bool quantizes = any(bits_of(kQ8, kQ4));
  if (!any(bits_of(kW8, kInt8Cache))) set.w8 = nullptr;
  if (!any(bits_of(kQ8))) set.q8 = nullptr;
  if (!any(bits_of(kQ4))) set.q4 = nullptr;
  const bool has_softmax = any(bits_of(kAttention, kSoftmax, kLogSoftmax));
  if (!has_softmax && !quantizes) set.row_extremes = nullptr;
  if (!has_softmax) set.exp_sum = nullptr;
  if (!any(bits_of(kAttention))) set.transpose = nullptr;
  if (!any(kNormNeeds) && !quantizes) set.sum = nullptr;
  if (!any(kNormNeeds | kActivationNeeds | bits_of(kInt8Cache))) set.multiply = nullptr;
  if (!any(bits_of(kRope))) set.rotate = nullptr;
  if (!any(bits_of(kGeluErf))) set.gelu = nullptr;
  if (!any(bits_of(kGeluTanh, kSilu, kSigmoid, kElu, kSoftplus, kMish))) set.sigmoid = nullptr;
  if (!any(bits_of(kSoftCap, kTanh, kScoreCap, kElu))) set.tanh = nullptr;
  return set;
}

}  // namespace arenite
