// SPDX-License-Identifier: Apache-2.0
// Compiles attention masks into what the runtime reads: a band, a strip or tiles.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "convert/masks/dense_mask.h"
#include "core/mask_view.h"

namespace arenite::convert {

// Bytes of the mask in a model file, without the fields around it.
size_t mask_bytes(const MaskView& mask);

// "causal", "causal window of 16", "tiles, 12 of 1024 stored", ...
std::string describe_mask(const MaskView& mask);

// Owns what a MaskView points to.
struct CompiledMask {
  MaskKind kind = MaskKind::kBand;
  uint32_t positions = 0;  // 0: any number (band only)
  uint32_t lookback = kUnlimited;
  uint32_t lookahead = kUnlimited;
  std::vector<float> values;
  std::vector<uint16_t> map;
  std::vector<uint32_t> bits;
  std::vector<uint32_t> row_begin;
  std::vector<uint32_t> row_end;

  MaskView view() const;
  size_t bytes() const { return mask_bytes(view()); }
  std::string describe() const { return describe_mask(view()); }

  friend bool operator==(const CompiledMask&, const CompiledMask&) = default;
};

// A band of any length; `positions` 0: any number.
CompiledMask band_mask(uint32_t lookback, uint32_t lookahead, uint32_t positions);

// A mask that a buffer of the author's model holds.
struct BufferMask {
  std::shared_ptr<const DenseMask> dense;
  std::string origin;  // the file and the tensor, for messages

  friend bool operator==(const BufferMask& a, const BufferMask& b) { return *a.dense == *b.dense; }
};

// A mask of a graph: keys by their distance or, until the pass compile-masks looks for structure in
// it, what the author's buffer shows.
using Mask = std::variant<CompiledMask, BufferMask>;

uint32_t positions_of(const Mask& mask);  // 0: any number
bool is_causal(const Mask& mask);         // no key is later than a query that sees it
std::string describe(const Mask& mask);

// The smallest form that says exactly the same: a band where the visible distances are one range
// around 0, a strip where only the distance counts, tiles otherwise. Checks the result against
// `dense` with the runtime's own mask code. Throws InputError if a row is hidden whole or the mask
// is too large for its form; `origin` names where the mask comes from.
CompiledMask compile_mask(const DenseMask& dense, const std::string& origin);

// As tiles, whatever its structure. Throws as compile_mask does.
CompiledMask tile_mask(const DenseMask& dense, const std::string& origin);

// The mask of the first `positions` positions as the runtime applies it.
DenseMask expand_mask(const MaskView& mask, uint32_t positions);
// The same of any mask; a buffer's as it is. REQUIRES: it has so many positions.
DenseMask expand_mask(const Mask& mask, uint32_t positions);

}  // namespace arenite::convert
