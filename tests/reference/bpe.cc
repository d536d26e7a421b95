// SPDX-License-Identifier: Apache-2.0
// Scans all tokens for each merge.
#include "reference/bpe.h"

#include <cstddef>

namespace arenite::reference {

std::vector<uint32_t> merge_pairs(const BpeMerges& merges, std::vector<uint32_t> tokens) {
  while (true) {
    size_t best = tokens.size();
    BpeMerge best_merge{UINT32_MAX, 0};
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = merges.find({tokens[i], tokens[i + 1]});
      if (found == merges.end() || found->second.rank >= best_merge.rank) continue;
      best = i;
      best_merge = found->second;
    }
    if (best == tokens.size()) return tokens;
    tokens[best] = best_merge.token;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace arenite::reference
