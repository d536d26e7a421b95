// SPDX-License-Identifier: Apache-2.0
// The numbers of tensors, unpacked from where they lie in the file, and how they are distributed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/weights.h"

namespace arenite::tool {

// Whether a packed tensor has a bias other than zero.
bool has_bias(const WeightView& view);

// A histogram. What is not finite counts as `not_finite` and nowhere else.
struct Distribution {
  std::string tensor{};     // its name
  uint64_t numbers = 0;     // of the tensor
  uint64_t sampled = 0;     // of these: whole rows, evenly spaced
  uint64_t not_finite = 0;  // of the sampled
  double mean = 0.0;
  double deviation = 0.0;
  double least = 0.0;
  double most = 0.0;
  // counts[i] is of numbers from -limit + i * 2 * limit / counts.size() on; what lies beyond the
  // limit is in `beyond`.
  double limit = 0.0;
  uint64_t beyond = 0;
  std::vector<uint64_t> counts;  // empty: nothing could be read
};

inline constexpr uint32_t kDistributionBins = 41;  // odd: zero has a bin of its own
inline constexpr uint64_t kSampledNumbers = 1u << 16;
inline constexpr uint32_t kSampledRows = 16;  // at least, however long they are

Distribution distribution_of(const WeightView& view);

}  // namespace arenite::tool
