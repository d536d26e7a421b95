// SPDX-License-Identifier: Apache-2.0
// Attention over a packed key/value cache: for each head,
//   output = softmax(query * keys^T + mask) * values.
#pragma once

#include <span>

#include "arenite/parallel.h"
#include "core/mask_view.h"
#include "core/matrix.h"
#include "core/packing.h"
#include "kernels/kernel_set.h"

namespace arenite {

// One sequence's share of the rows of a step.
struct SequenceRows {
  uint32_t positions = 0;  // held before the step
  uint32_t row_begin = 0;  // its rows among those of the step
  uint32_t rows = 0;       // new tokens; may be 0
  uint32_t reserved = 0;   // keeps the size the same everywhere
};

struct Attention {
  uint32_t heads = 0;
  CacheShape shape;
  MaskView mask;
  uint32_t positions_max = 0;  // of the cache

  ConstMatrix query;       // [rows, heads * head_dim], scaled; no data where head_dim is 0
  ConstMatrix key;         // [rows, kv_heads * head_dim]
  ConstMatrix value;       // [rows, kv_heads * value_dim]
  Matrix output;           // [rows, heads * value_dim]; overlaps none of the inputs
  float* cache = nullptr;  // KvCache::floats per sequence, one after the other

  float* scratch = nullptr;   // scratch_floats per thread
  size_t scratch_floats = 0;  // at least the arena formula's scratch per thread
};

// Appends the new keys and values to the cache, then computes the outputs of the new rows.
void attention(const KernelSet& kernels, const Attention& op,
               std::span<const SequenceRows> sequences, const ParallelFor& parallel);

}  // namespace arenite
