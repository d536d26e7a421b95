// SPDX-License-Identifier: Apache-2.0
// Most buffers hold a mask that two numbers describe, and nearly all layers have the same one.
#include <algorithm>
#include <utility>

#include "convert/passes/passes.h"

namespace arenite::convert {
namespace {

CompiledMask compiled(const Mask& mask, uint32_t positions_max) {
  if (const auto* buffer = std::get_if<BufferMask>(&mask)) {
    return compile_mask(*buffer->dense, buffer->origin);
  }
  CompiledMask band = std::get<CompiledMask>(mask);
  const uint32_t positions = band.positions != 0 ? band.positions : positions_max;
  const bool is_long = positions != 0 && band.lookback >= positions - 1;
  if (band.kind == MaskKind::kBand && is_long) band.lookback = kUnlimited;
  return band;
}

}  // namespace

void compile_masks(Graph& graph) {
  std::vector<Mask> masks;
  std::vector<uint32_t> numbers;
  for (const Mask& mask : graph.masks) {
    Mask found = compiled(mask, graph.positions_max);
    const auto known = std::ranges::find(masks, found);
    numbers.push_back(static_cast<uint32_t>(known - masks.begin()));
    if (known == masks.end()) masks.push_back(std::move(found));
  }
  graph.masks = std::move(masks);
  for (const ValueId value : graph.order()) {
    if (auto* attention = graph.as<AttentionNode>(value)) {
      attention->mask = numbers[attention->mask];
    }
  }
}

}  // namespace arenite::convert
