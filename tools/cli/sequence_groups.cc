// SPDX-License-Identifier: Apache-2.0
#include "cli/sequence_groups.h"

#include <algorithm>

namespace arenite::tool {

std::vector<SequenceGroup> group_sequences(std::span<const uint32_t> lengths) {
  std::vector<SequenceGroup> groups;
  for (uint32_t i = 0; i < lengths.size(); ++i) {
    const bool fits =
        !groups.empty() && uint64_t{groups.back().tokens} + lengths[i] <= kGroupTokens;
    if (!fits) groups.push_back({i, 0, 0});
    ++groups.back().count;
    groups.back().tokens += lengths[i];
  }
  return groups;
}

SessionOptions options_for(std::span<const uint32_t> lengths,
                           std::span<const SequenceGroup> groups) {
  SessionOptions options;
  options.positions_max = *std::ranges::max_element(lengths);
  for (const SequenceGroup& group : groups) {
    options.sequences_max = std::max(options.sequences_max, group.count);
    options.tokens_max = std::max(options.tokens_max, group.tokens);
  }
  return options;
}

}  // namespace arenite::tool
