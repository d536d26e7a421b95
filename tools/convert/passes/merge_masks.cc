// SPDX-License-Identifier: Apache-2.0
// Every layer of a model comes with its own mask; nearly all of them say the same.
#include <algorithm>
#include <utility>

#include "convert/passes/passes.h"

namespace arenite::convert {

void merge_masks(Graph& graph) {
  std::vector<CompiledMask> masks;
  std::vector<uint32_t> numbers;
  for (CompiledMask& mask : graph.masks) {
    const bool is_long = mask.lookback != kUnlimited && graph.positions_max != 0 &&
                         mask.lookback >= graph.positions_max - 1;
    if (mask.kind == MaskKind::kBand && mask.positions == 0 && is_long) mask.lookback = kUnlimited;
    const auto known = std::ranges::find(masks, mask);
    numbers.push_back(static_cast<uint32_t>(known - masks.begin()));
    if (known == masks.end()) masks.push_back(std::move(mask));
  }
  graph.masks = std::move(masks);
  for (const ValueId value : graph.order()) {
    if (auto* attention = graph.as<AttentionNode>(value)) {
      attention->mask = numbers[attention->mask];
    }
  }
}

}  // namespace arenite::convert
