// SPDX-License-Identifier: Apache-2.0
// Parts of attention shared by a block of queries (attention.cc) and a single query
// (attention_alone.cc): the block, its scratch, the steps of a softmax, and access to masks.
#pragma once

#include <cfloat>
#include <cstdint>

#include "arenite/arena_formula.h"
#include "core/needs.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/attention.h"
#include "ops/kv_cache.h"

namespace arenite {

// Keys [begin, end).
struct KeyRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// Returns the keys that query `position` may see among the first `keys`. Empty only if a tile mask
// shows this query nothing but later keys.
KeyRange visible_keys(const MaskView& mask, uint32_t position, uint32_t keys);

// visible_keys() of a band mask, whose limits may be kUnlimited: hence the sum in 64 bits.
inline KeyRange keys_of_band(const MaskView& mask, uint32_t position, uint32_t keys) {
  const uint32_t begin = position > mask.lookback ? position - mask.lookback : 0;
  const uint64_t end = uint64_t{position} + mask.lookahead + 1;
  return {begin, end < keys ? static_cast<uint32_t>(end) : keys};
}

// True if the mask hides keys by adding -infinity to their scores, as only a strip does.
inline bool hides_by_adding(const MaskView& mask) {
  return linked(Need::kStripMask) && mask.kind == MaskKind::kStrip;
}

// The score of keys that tiles or pairs hide: their weight is 0 beside any larger score.
inline constexpr float kHiddenScore = -FLT_MAX;

// Returns what the mask adds to the score of one of the visible_keys(): -infinity to hide the key.
float mask_term(const MaskView& mask, uint32_t position, uint32_t key);

// Applies the mask to the scores of query `position`; scores[i] is that of key range.begin + i.
// Scores of hidden keys become kHiddenScore in a tile mask and -infinity (or NaN, if they were not
// finite) in a strip; a band leaves them. Scores in hidden tiles need not be initialized.
void apply_mask(const KernelSet& kernels, const MaskView& mask, uint32_t position, KeyRange range,
                float* scores);

// Returns the next run of tile columns within `range` that any query of [first, last] sees: the
// keys for which scores must be computed. Empty at the end. Other masks are one run.
// REQUIRES: range.begin is where the last run ended, or where the block begins.
KeyRange next_visible_run(const MaskView& mask, uint32_t first, uint32_t last, KeyRange range);

// A block of queries with common keys: tokens of one head, or heads of one token. Column 0 of the
// scores is key `origin`.
struct Block {
  const KvCache& cache;
  uint32_t kv_head;
  uint32_t head;  // of its first row
  uint32_t rows;
  uint32_t position;       // of its first row
  uint32_t position_step;  // from row to row: 1 for tokens, 0 for heads
  uint32_t keys;           // held by the sequence, new ones included
  ConstMatrix query;       // [rows, head_dim]
  Matrix output;           // [rows, value_dim]
  uint32_t begin = 0;      // the keys that any of its rows sees: [begin, end)
  uint32_t end = 0;
  uint32_t origin = 0;  // begin, rounded down to a page, or to a kIntegerBlock for integer kernels
  // End of the keys that are multiplied; those from `end` on have weight 0. An int8 kernel reads
  // ones after its last key, which exist only after the last stored position and at the end of a
  // page.
  uint32_t product_end = 0;
  [[no_unique_address]] LinkedPairBits pairs = {};    // of the sequence
  [[no_unique_address]] LinkedQueryTerms terms = {};  // of its rows and head

  uint32_t position_of(uint32_t row) const { return position + row * position_step; }
  uint32_t head_of(uint32_t row) const { return position_step == 0 ? head + row : head; }
};

// Returns slope * (key - position), the ALiBi term of a key. The distance is exact: within a few
// million positions the sum rounds no worse far into a context than at its start.
inline float slope_term(float slope, uint32_t position, uint32_t key) {
  return slope * static_cast<float>(static_cast<int32_t>(key - position));
}

inline bool has_table(const Attention& op) {
  return linked(Need::kScoreTables) && op.table.values != nullptr;
}
inline bool has_cap(const Attention& op) { return linked(Need::kScoreCap) && op.score_cap != 0.0f; }
inline bool has_sinks(const Attention& op) { return linked(Need::kSinks) && op.sinks != nullptr; }

// The scratch of a thread: a tile [mr, nr] for partial products, then rows of scores.
struct ScoreRows {
  float* tile;
  float* scores;
  size_t stride;  // floats between rows of scores

  ScoreRows(float* data, Packing packing, uint32_t cache_positions)
      : tile(data),
        scores(data + size_t{packing.mr} * packing.nr),
        stride(size_t{panels_of(packing, cache_positions)} * packing.nr + kScoreRowPadding) {}
};

// Sets the key ranges of the block: begin, end, origin, product_end. REQUIRES: all else is set.
void set_range(const MaskView& mask, Block& block);

// scores = query * keys^T, for the keys that any row of the block sees.
void compute_scores(const KernelSet& kernels, const Attention& op, const Block& block,
                    const ScoreRows& scratch);

// Adds the biases of a query and of keys to its scores for the keys of `range`. `index` is its row
// in the block. Linked only if a model has such biases.
void add_query_terms(const KernelSet& kernels, const Block& block, uint32_t index, KeyRange range,
                     float* scores);

// scores = cap * tanh(scores / cap). REQUIRES: has_cap.
void cap_scores(const KernelSet& kernels, const Attention& op, size_t bytes, float* scores);

// Turns `count` scores of a row into weights exp(score - max) and returns their sum. A sink becomes
// one more score after them, for which rows have room, and enters `extremes` (least, largest).
float exp_sum(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t head,
              uint32_t count, float* extremes, float* scores);

// Multiplies a row of outputs by `factor`, 1 / the sum of its weights; returns false if a result is
// not finite. Does not use a kernel, which would stall on reading the short row right after it was
// written.
bool divide_by_sum(const Attention& op, float factor, float* row);

// Multiplies weights[i] by the scale of the int8 values of key range.begin + i.
void scale_weights(const KernelSet& kernels, const Block& block, KeyRange range, float* weights);

// output = weights * values in integers, by blocks of kIntegerBlock positions, which begin at fixed
// positions like pages. With is_scaled the weights include the scales of values (scale_weights).
void weigh_in_integers(const KernelSet& kernels, const Attention& op, const Block& block,
                       const ScoreRows& scratch, bool is_scaled);

// Computes row `index` of a block from its visible keys and values alone, for rows with a score or
// a result that is not finite. The row is all NaN if it sees a NaN score or if its largest score is
// not finite. A result that is finite both ways has the same bits.
void attend_alone(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t index,
                  const ScoreRows& scratch);

}  // namespace arenite
