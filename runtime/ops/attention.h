// SPDX-License-Identifier: Apache-2.0
// Attention over a packed key/value cache: for each head,
//   output = softmax(query * keys^T + mask + slope * distance) * values,
// where the distance is that of a key from its query: 0, or negative for earlier keys (ALiBi, Press
// et al. 2021, as BLOOM and MPT have it).
#pragma once

#include <span>

#include "arenite/parallel.h"
#include "core/cache_layout.h"
#include "core/mask_view.h"
#include "core/matrix.h"
#include "core/packing.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

struct Attention {
  uint32_t heads = 0;
  CacheShape shape;
  MaskView mask;
  const float* slopes = nullptr;  // [heads]; null: the distance adds nothing
  uint32_t cache_positions = 0;   // arena_formula.h; fewer than the sequence may have: a ring

  ConstMatrix query;  // [rows, heads * head_dim], scaled; no data where head_dim is 0
  ConstMatrix key;    // [rows, kv_heads * head_dim]
  ConstMatrix value;  // [rows, kv_heads * value_dim]
  Matrix output;      // [rows, heads * value_dim]; overlaps none of the inputs
  TensorType kv_type = TensorType::kF32;
  std::byte* cache = nullptr;  // CacheLayout::bytes per sequence, one after the other
  ScratchArea scratch;         // what the arena formula says that attention needs
};

// Appends the new keys and values to the cache, then computes the outputs of the new rows.
void attention(const KernelSet& kernels, const Attention& op,
               std::span<const SequenceRows> sequences, const ParallelFor& parallel);

}  // namespace arenite
