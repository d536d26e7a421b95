// SPDX-License-Identifier: Apache-2.0
// An attention problem with random tokens and its expected outputs. Runs the op on it in memory
// with guard pages.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/kernel_set.h"
#include "ops/attention.h"
#include "ops/kv_cache.h"
#include "reference/reference.h"
#include "support/guarded_buffer.h"
#include "support/masks.h"

namespace arenite::test {

// Rows of each sequence that are fed in one call.
using Step = std::vector<uint32_t>;

// [tokens, ...] of one sequence.
struct SequenceTokens {
  std::vector<float> query, key, value;
  std::vector<float> terms{};  // that queries bring with them, or none
};

struct AttentionCase {
  TensorType kv_type;
  AttentionShape shape;
  TestMask mask;
  uint32_t positions_max;         // of the longest sequence
  uint32_t cache_positions;       // the same, or fewer: then the cache is a ring
  std::vector<uint32_t> lengths;  // of each sequence; at most positions_max
  std::vector<SequenceTokens> tokens;
  std::vector<float> slopes;  // of each head; or none
  // Attention bias instead of slopes: [heads, 2 * positions_max - 1] by distance, or by pair
  // [heads, positions_max, positions_max] or without heads; or none.
  std::vector<float> table;
  float score_cap = 0.0f;
  std::vector<float> sinks;  // of each head; or none
  uint32_t term_count = 0;   // of each query and head
  uint32_t term_centre = 0;

  // Tokens in [-1, 1), queries in [-query_limit, query_limit).
  AttentionCase(TensorType kv_type_in, const AttentionShape& shape_in, TestMask mask_in,
                std::vector<uint32_t> lengths_in, float query_limit = 1.0f);

  CacheShape cache_shape() const { return {shape.kv_heads, shape.head_dim, shape.value_dim}; }
  // Output of each sequence, for keys and values as the cache keeps them.
  std::vector<std::vector<double>> expected() const;
  std::vector<float> as_cached(std::vector<float> numbers, uint32_t width) const;
  // Returns the pair biases of a sequence's queries, [heads, positions_max, positions_max].
  std::vector<float> pairs_of(const SequenceTokens& sequence) const;
  // Gives each head a slope, as ALiBi does: 2^(-8 h / heads) for h from 1 on.
  void add_slopes();
  // Gives each head a sink, from below all scores to above them.
  void add_sinks();
  enum class Table { kDistances, kPairs, kPairsOfAllHeads, kQueries, kQueriesBefore };
  // Gives scores terms in [-2, 2). With `hides`, a third of them is -infinity, but never that of a
  // token and itself.
  void add_table(Table kind, bool hides);
  // Gives each query relative position biases in [-2, 2), by distance.
  void add_query_terms(bool are_before);
  bool has_distances() const {
    return table.size() == shape.heads * (2 * size_t{positions_max} - 1);
  }
  // Whether a head's query sees a key, by mask and table.
  bool sees(uint32_t head, uint32_t query, uint32_t key) const;

  // How far from it an output may be.
  double tolerance(const KernelSet& kernels) const;

  // All tokens in one call, or at most `rows` of each sequence in each call.
  std::vector<Step> in_chunks(uint32_t rows) const;
  std::vector<Step> at_once() const { return in_chunks(positions_max); }
};

// Runs the op on a case, call by call. Cache and scratch begin full of `garbage`, scratch anew at
// each step. Both have exactly the size of the arena formula and end at inaccessible pages, as do
// inputs and output after kReadAheadBytes.
class AttentionRun {
 public:
  AttentionRun(const KernelSet& kernels, const AttentionCase& problem,
               const ParallelFor& parallel = {}, float garbage = NAN);

  // Feeds the next rows of each sequence; checks that nothing else was written.
  void feed(const Step& step);
  // Keeps the first tokens of a sequence; the next step continues there.
  void rewind(uint32_t sequence, uint32_t positions);
  // The cache of a sequence, to be spoiled.
  KvCache cache(uint32_t sequence) const;

  // Outputs so far, of each sequence.
  const std::vector<std::vector<float>>& outputs() const { return outputs_; }

 private:
  CacheLayout layout() const;  // of one sequence's cache
  // Rows of all sequences, one after the other, as they are fed.
  GuardedFloats gather(const Step& step, std::vector<float> SequenceTokens::*part,
                       uint32_t width) const;

  ScoreTable score_table() const;

  const KernelSet& kernels_;
  const AttentionCase& problem_;
  ParallelFor parallel_;
  float garbage_;
  size_t scratch_floats_;
  GuardedFloats cache_;
  GuardedFloats scratch_;
  GuardedFloats table_;
  std::vector<uint32_t> positions_;
  std::vector<std::vector<float>> outputs_;
};

// Outputs of all sequences after all steps.
std::vector<std::vector<float>> run_attention(const KernelSet& kernels,
                                              const AttentionCase& problem,
                                              const std::vector<Step>& steps,
                                              const ParallelFor& parallel = {},
                                              float garbage = NAN);

}  // namespace arenite::test
