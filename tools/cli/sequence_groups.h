// SPDX-License-Identifier: Apache-2.0
// Splits many sequences into calls, so that an arena need not hold all of them at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arenite/session.h"

namespace arenite::tool {

// Sequences [first, first + count), which have `tokens` in all.
struct SequenceGroup {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t tokens = 0;
};

// Enough rows to keep every kernel busy; more would only take memory.
inline constexpr uint32_t kGroupTokens = 1024;

// In their order, at most kGroupTokens together; longer sequences are alone.
std::vector<SequenceGroup> group_sequences(std::span<const uint32_t> lengths);

// Sizes of a session that takes any of the groups in one call.
SessionOptions options_for(std::span<const uint32_t> lengths,
                           std::span<const SequenceGroup> groups);

}  // namespace arenite::tool
