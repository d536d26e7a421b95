// SPDX-License-Identifier: Apache-2.0
// A block of queries and what a thread computes it with; the parts of attention that a row computed
// by itself has in common with a block; and how both read a mask.
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

// The keys that query `position` may see among the first `keys`. Empty only for a tile mask that
// shows this query nothing but later keys.
KeyRange visible_keys(const MaskView& mask, uint32_t position, uint32_t keys);

// The same of a band. Unlimited or not, neither sum overflows: positions are below 2^32 - 1.
inline KeyRange keys_of_band(const MaskView& mask, uint32_t position, uint32_t keys) {
  const uint32_t begin = position > mask.lookback ? position - mask.lookback : 0;
  const uint64_t end = uint64_t{position} + mask.lookahead + 1;
  return {begin, end < keys ? static_cast<uint32_t>(end) : keys};
}

// Whether scores of hidden keys become -infinity by an addition, as only a strip's do.
inline bool hides_by_adding(const MaskView& mask) {
  return linked(Need::kStripMask) && mask.kind == MaskKind::kStrip;
}

// What a tile mask makes of the scores of hidden keys: their weight is 0 beside any larger score.
inline constexpr float kHiddenScore = -FLT_MAX;

// What the mask adds to the score of one of the visible_keys: -infinity where it hides the key.
float mask_term(const MaskView& mask, uint32_t position, uint32_t key);

// Applies the mask to scores of query `position`; scores[i] is that of key range.begin + i. Hidden
// keys become kHiddenScore in a tile mask and -infinity (or NaN, if their scores were not finite)
// in a strip; a band has no work to do. Scores that lie in hidden tiles need not be initialised.
void apply_mask(const KernelSet& kernels, const MaskView& mask, uint32_t position, KeyRange range,
                float* scores);

// The next run of tile columns, within `range`, that any query of [first, last] sees: the keys for
// which scores must be computed. Other masks are one run. Empty at the end.
// REQUIRES: range.begin is where the last run ended, or where the block begins.
KeyRange next_visible_run(const MaskView& mask, uint32_t first, uint32_t last, KeyRange range);

// A block of queries that share their keys: tokens of one head, or heads of one token. Scores of
// key `origin` are in column 0.
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
  uint32_t origin = 0;  // begin, rounded down to a page, or to a block that integers sum up
  // To here keys are multiplied, beyond `end` with the weight 0: a kernel for int8 reads ones after
  // the last, which are only there. The last position held, or the end of the page.
  uint32_t product_end = 0;
  [[no_unique_address]] LinkedPairBits pairs = {};    // of the sequence
  [[no_unique_address]] LinkedQueryTerms terms = {};  // of its rows and head

  uint32_t position_of(uint32_t row) const { return position + row * position_step; }
  uint32_t head_of(uint32_t row) const { return position_step == 0 ? head + row : head; }
};

// What a slope adds to the score of a key. The distance is exact: within a few million positions
// the sum rounds no worse far into a context than at its start.
inline float slope_term(float slope, uint32_t position, uint32_t key) {
  return slope * static_cast<float>(static_cast<int32_t>(key - position));
}

inline bool has_table(const Attention& op) {
  return linked(Need::kScoreTables) && op.table.values != nullptr;
}
inline bool has_cap(const Attention& op) { return linked(Need::kScoreCap) && op.score_cap != 0.0f; }
inline bool has_sinks(const Attention& op) { return linked(Need::kSinks) && op.sinks != nullptr; }

// What a thread works with: a tile for partial products, then rows of scores.
struct ScoreRows {
  float* tile;
  float* scores;
  size_t stride;  // floats between rows of scores

  ScoreRows(float* data, Packing packing, uint32_t cache_positions)
      : tile(data),
        scores(data + size_t{packing.mr} * packing.nr),
        stride(size_t{panels_of(packing, cache_positions)} * packing.nr + kScoreRowPadding) {}
};

// Finds the keys that the block sees. REQUIRES: all of `block` but those is set.
void set_range(const MaskView& mask, Block& block);

// scores = query * keys^T, for the keys that any row of the block sees.
void compute_scores(const KernelSet& kernels, const Attention& op, const Block& block,
                    const ScoreRows& scratch);

// Adds a query's terms to its scores of the keys of `range`; row `index` is that of the block. Only
// where the build has such terms.
void add_query_terms(const KernelSet& kernels, const Block& block, uint32_t index, KeyRange range,
                     float* scores);

// scores = cap * tanh(scores / cap). REQUIRES: has_cap.
void cap_scores(const KernelSet& kernels, const Attention& op, size_t bytes, float* scores);

// Turns a row's scores into weights, exp(score - max), and gives their sum. A head's sink is one
// more score after them, for which rows have room; `extremes` become those with it.
float exp_sum(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t head,
              uint32_t count, float* extremes, float* scores);

// The last step of a row of outputs; `factor` is 1 / sum of its weights. Own code, as kernels for
// it would read short rows that were just written, which stalls. False if a result is not finite.
bool divide_by_sum(const Attention& op, float factor, float* row);

// Multiplies weights[i] with what the values of key range.begin + i were divided by.
void scale_weights(const KernelSet& kernels, const Block& block, KeyRange range, float* weights);

// output = weights * values, both as integers, block by block of kIntegerBlock positions, which lie
// at fixed positions like pages. Weights may be scaled before (scale_weights).
void weigh_in_integers(const KernelSet& kernels, const Attention& op, const Block& block,
                       const ScoreRows& scratch, bool is_scaled);

// Computes row `index` of a block from the keys and values that it sees, and no others: where those
// of the other rows may not be finite, or a score is not. All NaN if the row sees a score that is
// NaN or if its largest one is not finite. A result that is finite both ways has the same bits.
void attend_alone(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t index,
                  const ScoreRows& scratch);

}  // namespace arenite
