// SPDX-License-Identifier: Apache-2.0
// Attention over a packed KV cache. For each head
//   output = softmax(score + slope * distance + bias + mask) * values,
// where
//   score     query * keys^T or, with a cap c, c * tanh(query * keys^T / c) (Gemma 2)
//   distance  position of the key less that of the query: 0, or negative for earlier keys (ALiBi,
//             Press et al. 2021, as in BLOOM and MPT)
//   bias      from a table, such as a relative position bias, or brought by the query: its products
//             with embeddings of distances (Shaw et al. 2018; Dai et al. 2019)
// A head may have a sink: one more score that enters the sum of softmax and has no value (gpt-oss;
// 0 is softmax plus one).
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "arenite/parallel.h"
#include "core/cache_layout.h"
#include "core/needs.h"
#include "core/packing.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// An attention bias for each head, query and key; -infinity hides the key. The query at position i
// and the key at position j get values[head * head_stride + i * query_stride + j]. Not owned.
// REQUIRES: kReadAheadBytes after the last value.
struct ScoreTable {
  const float* values = nullptr;  // null: there is none
  size_t head_stride = 0;         // in floats; 0: all heads share one table
  ptrdiff_t query_stride = 0;     // in floats; -1: the bias depends on the distance alone

  // `table` is [heads, 2 * positions - 1]; its middle column is distance 0.
  static ScoreTable by_distance(const float* table, uint32_t positions) {
    return {table + (positions - 1), 2 * size_t{positions} - 1, -1};
  }
  // `table` is [heads, queries, keys], or [queries, keys] for all heads.
  static ScoreTable by_pair(const float* table, uint32_t queries, uint32_t keys, bool by_head) {
    return {table, by_head ? size_t{queries} * keys : 0, static_cast<ptrdiff_t>(keys)};
  }
  const float* at(uint32_t head, uint32_t query, uint32_t key) const {
    return values + head * head_stride + static_cast<ptrdiff_t>(query) * query_stride + key;
  }
};

// Relative position biases that come with each query, [queries, heads * count]. The query at
// position i and the key at position j get the head's element j - i + centre, clamped to its ends.
// Those that come with keys, [keys, heads * key_count], have distance 0 in the middle.
struct QueryTerms {
  ConstMatrix rows;  // no data: there are none
  uint32_t count = 0;
  uint32_t centre = 0;
  ConstMatrix key_rows;  // no data: there are none
  uint32_t key_count = 0;
};

// Empty stand-ins for builds whose models need no bias tables, caps, sinks or query biases.
struct NoScoreTable {
  static constexpr const float* values = nullptr;

  static NoScoreTable by_distance(const float*, uint32_t) { return {}; }
  static NoScoreTable by_pair(const float*, uint32_t, uint32_t, bool) { return {}; }
  const float* at(uint32_t, uint32_t, uint32_t) const { return values; }
};
struct NoScoreCap {
  constexpr NoScoreCap(float = 0.0f) {}  // NOLINT: implicit, as it stands for a float
  constexpr operator float() const { return 0.0f; }
};
using LinkedScoreTable = std::conditional_t<linked(Need::kScoreTables), ScoreTable, NoScoreTable>;
struct NoSinks {
  constexpr NoSinks(const float* = nullptr) {}  // NOLINT: implicit, as it stands for a pointer
  constexpr operator const float*() const { return nullptr; }
};
using LinkedScoreCap = std::conditional_t<linked(Need::kScoreCap), float, NoScoreCap>;
using LinkedSinks = std::conditional_t<linked(Need::kSinks), const float*, NoSinks>;
struct NoQueryTerms {
  static constexpr ConstMatrix rows = {}, key_rows = {};
  static constexpr uint32_t count = 0, centre = 0, key_count = 0;

  constexpr NoQueryTerms() = default;
  constexpr NoQueryTerms(const ConstMatrix&, uint32_t, uint32_t, const ConstMatrix&, uint32_t) {}
};
using LinkedQueryTerms = std::conditional_t<linked(Need::kQueryTerms), QueryTerms, NoQueryTerms>;

struct Attention {
  uint32_t heads = 0;
  CacheShape shape;
  MaskView mask;
  const float* slopes = nullptr;  // [heads]; null: the distance adds nothing
  [[no_unique_address]] LinkedScoreTable table;
  [[no_unique_address]] LinkedScoreCap score_cap = 0.0f;  // 0: there is none
  [[no_unique_address]] LinkedSinks sinks = nullptr;      // [heads]; null: there are none
  [[no_unique_address]] LinkedPairBits pairs;
  [[no_unique_address]] LinkedQueryTerms query_terms;
  uint32_t cache_positions = 0;  // arena_formula.h; if the sequence may have more, it is a ring

  ConstMatrix query;  // [queries, heads * head_dim], already scaled; no data if head_dim is 0
  ConstMatrix key;    // [keys, kv_heads * head_dim]
  ConstMatrix value;  // [keys, kv_heads * value_dim]; no data: `cache` holds all keys
  Matrix output;      // [queries, heads * value_dim]; overlaps no input; no data: none
  // Rows of query and output, and rows of key and value, of the same sequences.
  std::span<const SequenceRows> queries;
  std::span<const SequenceRows> keys;
  TensorType kv_type = TensorType::kF32;
  std::byte* cache = nullptr;  // CacheLayout::bytes for each sequence, back to back
  ScratchArea scratch;         // sized by the arena formula for attention
};

// Appends the new keys and values, if any, to the cache, then computes the output, if it has data.
void attention(const KernelSet& kernels, const Attention& op, const ParallelFor& parallel);

}  // namespace arenite
