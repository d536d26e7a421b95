// SPDX-License-Identifier: Apache-2.0
// BPE merging by its definition, pair by pair: the oracle for the runtime's O(n log n) merging.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace arenite::reference {

struct BpeMerge {
  uint32_t rank;
  uint32_t token;
};

using BpeMerges = std::map<std::pair<uint32_t, uint32_t>, BpeMerge>;

// Merges the pair of lowest rank, the leftmost of those, until there is none.
std::vector<uint32_t> merge_pairs(const BpeMerges& merges, std::vector<uint32_t> tokens);

}  // namespace arenite::reference
