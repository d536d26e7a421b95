// SPDX-License-Identifier: Apache-2.0
// Attention over a packed key/value cache: for each head,
//   output = softmax(score + slope * distance + term + mask) * values,
// where the score is query * keys^T or, with a cap c, c * tanh(query * keys^T / c) (Gemma 2), and
// the distance is that of a key from its query: 0, or negative for earlier keys (ALiBi, Press et
// al. 2021, as BLOOM and MPT have it). Terms are those of a table, such as relative position
// biases. A head may have a sink: one more score that takes part in the sum of softmax and has no
// value (gpt-oss; 0 is softmax plus one). Queries may bring terms with them, one for each distance,
// that are made of them: products with embeddings of distances (Shaw et al. 2018; Dai et al. 2019).
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

// A term for each head, query and key, which -infinity hides. That of the query at position i and
// the key at position j is values[head * head_stride + i * query_stride + j].
// REQUIRES: kReadAheadBytes after the last one.
struct ScoreTable {
  const float* values = nullptr;  // null: there is none
  size_t head_stride = 0;         // 0: all heads have the same
  ptrdiff_t query_stride = 0;     // -1: terms go by the distance

  // Of a table [heads, 2 * positions - 1] whose middle column is distance 0.
  static ScoreTable by_distance(const float* table, uint32_t positions) {
    return {table + (positions - 1), 2 * size_t{positions} - 1, -1};
  }
  // Of a table [heads, positions, positions], or of one [positions, positions] for all heads.
  static ScoreTable by_pair(const float* table, uint32_t positions, bool by_head) {
    const size_t square = size_t{positions} * positions;
    return {table, by_head ? square : 0, static_cast<ptrdiff_t>(positions)};
  }
  const float* at(uint32_t head, uint32_t query, uint32_t key) const {
    return values + head * head_stride + static_cast<ptrdiff_t>(query) * query_stride + key;
  }
};

// Numbers of each query and head, [queries, heads * count]: the term of the query at position i and
// the key at position j is number j - i + centre of these, or the first or last one beyond them.
struct QueryTerms {
  ConstMatrix rows;  // no data: there are none
  uint32_t count = 0;
  uint32_t centre = 0;
};

// What a build has instead whose models need no tables, no caps, or no sinks: nothing.
struct NoScoreTable {
  static constexpr const float* values = nullptr;

  static NoScoreTable by_distance(const float*, uint32_t) { return {}; }
  static NoScoreTable by_pair(const float*, uint32_t, bool) { return {}; }
  const float* at(uint32_t, uint32_t, uint32_t) const { return values; }
};
struct NoScoreCap {
  constexpr NoScoreCap(float = 0.0f) {}  // NOLINT: implicit, as it stands for a number
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
  static constexpr ConstMatrix rows = {};
  static constexpr uint32_t count = 0, centre = 0;

  constexpr NoQueryTerms() = default;
  constexpr NoQueryTerms(const ConstMatrix&, uint32_t, uint32_t) {}
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
  uint32_t cache_positions = 0;  // arena_formula.h; fewer than the sequence may have: a ring

  ConstMatrix query;  // [queries, heads * head_dim], scaled; no data where head_dim is 0
  ConstMatrix key;    // [keys, kv_heads * head_dim]
  ConstMatrix value;  // [keys, kv_heads * value_dim]; no data: `cache` holds all keys
  Matrix output;      // [queries, heads * value_dim]; overlaps none of the inputs; or no data
  // The rows of query and output, and those of key and value, of the same sequences.
  std::span<const SequenceRows> queries;
  std::span<const SequenceRows> keys;
  TensorType kv_type = TensorType::kF32;
  std::byte* cache = nullptr;  // CacheLayout::bytes per sequence, one after the other
  ScratchArea scratch;         // what the arena formula says that attention needs
};

// Appends the new keys and values to the cache, then computes the outputs of the queries. Without
// an output it does the first alone.
void attention(const KernelSet& kernels, const Attention& op, const ParallelFor& parallel);

}  // namespace arenite
