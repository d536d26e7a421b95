// SPDX-License-Identifier: Apache-2.0
// The attention op. For each head and each block of mr queries: scores of the visible keys, mask,
// exp and sum, product with the values, division by the sum. No buffer is as large as rows x keys:
// a thread holds mr rows of scores.
#include "ops/attention.h"

#if defined(__ARM_FEATURE_MVE) && !defined(__clang__)
#pragma GCC optimize("O2")  // the kernels are so fast that code around them counts
#endif

#include <cmath>
#include <cstring>

#include "core/float_bits.h"
#include "ops/attention_block.h"
#include "ops/row_ops.h"
#include "ops/rows.h"

namespace arenite {

void set_range(const MaskView& mask, Block& block) {
  block.begin = UINT32_MAX;
  block.end = 0;
  const bool is_band = kMveLinked && mask.kind == MaskKind::kBand;
  if (is_band) {
    block.begin = keys_of_band(mask, block.position, block.keys).begin;
    block.end = keys_of_band(mask, block.position_of(block.rows - 1), block.keys).end;
  }
  for (uint32_t r = 0; !is_band && r < block.rows; ++r) {
    const KeyRange range = visible_keys(mask, block.position_of(r), block.keys);
    if (range.begin < block.begin) block.begin = range.begin;
    if (range.end > block.end) block.end = range.end;
  }
  const bool in_integers = block.cache.for_integers();
  block.origin = block.begin - block.begin % (in_integers ? kIntegerBlock : kPagePositions);
  block.product_end = block.end;
  if (!block.cache.is_int8() || in_integers) return;
  const uint32_t rest = (kPagePositions - block.end % kPagePositions) % kPagePositions;
  const uint32_t held = block.keys - block.end;
  block.product_end += held < rest ? held : rest;
}

void compute_scores(const KernelSet& kernels, const Attention& op, const Block& block,
                    const ScoreRows& scratch) {
  if (op.shape.head_dim == 0) {
    for (uint32_t r = 0; r < block.rows; ++r) {
      std::memset(scratch.scores + r * scratch.stride, 0,
                  (block.end - block.origin) * sizeof(float));
    }
    return;
  }
  const bool in_integers = block.cache.for_integers();
  const uint32_t nr = kernels.f32.packing.nr;
  const size_t query_stride = block.query.stride * sizeof(float);
  RowSteps steps[kIntegerRows];
  for (uint32_t r = 0; in_integers && r < block.rows; ++r) {
    const QueryStepsKernel kernel = kernels.integers->query_steps;
    steps[r] = kernel != nullptr ? kernel(op.shape.head_dim, block.query.row(r))
                                 : integer_steps(kernels, {block.query.row(r), op.shape.head_dim});
  }
  KeyRange run = {block.begin, block.begin};
  while (true) {
    run = next_visible_run(op.mask, block.position,
                           block.position + (block.rows - 1) * block.position_step,
                           {run.end, block.end});
    if (run.begin == run.end) break;
    const uint32_t panel_begin = run.begin - run.begin % nr;
    // A ring wraps around at its end.
    const uint32_t panels_end = panel_begin + block.cache.positions_in_a_row(panel_begin);
    if (run.end > panels_end) run.end = panels_end;
    const uint32_t keys = run.end - panel_begin;
    float* const scores = scratch.scores + (panel_begin - block.origin);
    if (in_integers) {
      kernels.integers->scores(block.rows, keys, op.shape.head_dim, block.query.data, query_stride,
                               steps, block.cache.integer_keys(block.kv_head, panel_begin),
                               block.cache.integer_key_scales(block.kv_head, panel_begin), scores,
                               scratch.stride * sizeof(float));
    } else {
      kernels.of_cache(block.cache.is_int8())
          .gemm[block.rows](block.rows, keys, op.shape.head_dim * sizeof(float), block.query.data,
                            query_stride, block.cache.keys(block.kv_head, panel_begin), scores,
                            scratch.stride * sizeof(float));
    }
  }
}

void scale_weights(const KernelSet& kernels, const Block& block, KeyRange range, float* weights) {
  while (range.begin < range.end) {
    const uint32_t in_a_row = block.cache.positions_in_a_row(range.begin);
    const uint32_t left = range.end - range.begin;
    const uint32_t count = left < in_a_row ? left : in_a_row;
    kernels.multiply(count * sizeof(float), weights,
                     block.cache.value_scales(block.kv_head, range.begin), weights);
    range.begin += count;
    weights += count;
  }
}

void weigh_in_integers(const KernelSet& kernels, const Attention& op, const Block& block,
                       const ScoreRows& scratch, bool is_scaled) {
  const float* scales = nullptr;
  const std::byte* values = nullptr;
  for (uint32_t first = block.origin; first < block.end; first += kIntegerBlock) {
    const uint32_t left = block.end - first;
    if (!kMveLinked || first == block.origin || first % kPagePositions == 0) {
      scales = block.cache.value_scales(block.kv_head, first);
      values = block.cache.integer_values(block.kv_head, first);
    } else {
      scales += kIntegerBlock;
      values += kIntegerBlock * op.shape.value_dim;
    }
    kernels.integers->values(
        block.rows, op.shape.value_dim, left < kIntegerBlock ? left : kIntegerBlock,
        scratch.scores + (first - block.origin), scratch.stride * sizeof(float),
        is_scaled ? nullptr : scales, values, block.output.data,
        block.output.stride * sizeof(float), first != block.origin);
  }
}

// Adds the biases that keys bring. REQUIRES: the block's sequence has a row for each key.
void add_key_terms(const Block& block, uint32_t index, KeyRange range, float* scores) {
  const uint32_t count = block.terms.key_count;
  const size_t column = size_t{block.head_of(index)} * count;
  for (uint32_t key = range.begin; key < range.end; ++key) {
    const int64_t place = int64_t{key} - block.position_of(index) + count / 2;
    const int64_t last = int64_t{count} - 1;
    const int64_t clamped = place < 0 ? 0 : place < last ? place : last;
    *scores++ += block.terms.key_rows.row(key)[column + static_cast<size_t>(clamped)];
  }
}

[[gnu::noinline]] void add_query_terms(const KernelSet& kernels, const Block& block, uint32_t index,
                                       KeyRange range, float* scores) {
  if (block.terms.rows.data == nullptr) return;
  if (block.terms.key_rows.data != nullptr) add_key_terms(block, index, range, scores);
  const float* const terms = block.terms.rows.row(index);
  for (uint32_t key = range.begin; key < range.end;) {
    const int64_t place = int64_t{key} - block.position_of(index) + block.terms.centre;
    const int64_t left = int64_t{block.terms.count} - place;
    if (place < 0 || left <= 0) {
      *scores++ += terms[place < 0 ? 0 : block.terms.count - 1];
      ++key;
      continue;
    }
    const uint32_t keys = range.end - key;
    const uint32_t count = keys < left ? keys : static_cast<uint32_t>(left);
    kernels.add(count * sizeof(float), scores, terms + place, scores);
    scores += count;
    key += count;
  }
}

void cap_scores(const KernelSet& kernels, const Attention& op, size_t bytes, float* scores) {
  if constexpr (linked(Need::kScoreCap)) {
    soft_cap(kernels, bytes, op.score_cap, scores, scores);
  }
}

float exp_sum(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t head,
              uint32_t count, float* extremes, float* scores) {
  if (has_sinks(op)) {
    const float sink = op.sinks[head];
    scores[count++] = sink;
    if (sink < extremes[0]) extremes[0] = sink;
    if (sink > extremes[1]) extremes[1] = sink;
  }
  float sum;
  const bool in_integers = block.cache.for_integers();
  const ExpSumKernel kernel = in_integers ? kernels.integers->exp_sum : kernels.exp_sum;
  kernel(count * sizeof(float), scores, in_integers ? extremes : extremes + 1, scores, &sum);
  return sum;
}

// x = x * factor. The highest bit of the result is set if x is not finite.
[[gnu::always_inline]] inline uint32_t divide_number(float& x, float factor) {
  // An underflowed sum may be -0, or +0 if a hidden key added its 0: both become +0.
  x = x * factor + 0.0f;
  return carry_of_not_finite(x);
}

bool divide_by_sum(const Attention& op, float factor, float* row) {
  constexpr uint32_t kChunk = 32;  // a constant length, for the vectorizer
  uint32_t carried = 0;
  uint32_t left = op.shape.value_dim;
  for (; left >= kChunk; left -= kChunk, row += kChunk) {
    uint32_t carries = 0;
    for (uint32_t i = 0; i < kChunk; ++i) carries |= divide_number(row[i], factor);
    carried |= carries;
  }
  if (left != 0) {
    do {
      carried |= divide_number(*row++, factor);
    } while (--left != 0);
  }
  return carried >> 31 == 0;
}

namespace {

// Adds the ALiBi terms to scores; scores[i] is that of key range.begin + i. Not inlined, so that
// `terms` is not on the stack of models without slopes.
[[gnu::noinline]] void add_slope(const KernelSet& kernels, float slope, uint32_t position,
                                 KeyRange range, float* scores) {
  constexpr uint32_t kChunk = 256;
  float terms[kChunk];
  for (uint32_t key = range.begin; key < range.end; key += kChunk) {
    // The length is constant, for the vectorizer.
    for (uint32_t i = 0; i < kChunk; ++i) terms[i] = slope_term(slope, position, key + i);
    const uint32_t left = range.end - key;
    float* const sums = scores + (key - range.begin);
    kernels.add((left < kChunk ? left : kChunk) * sizeof(float), sums, terms, sums);
  }
}

// Hides the keys with seen[i] = 0, of [keys]. Copies chunks of `seen` first, since its bytes may
// alias the scores. Not inlined, so that the copy is not on the stack of models without pairs.
[[gnu::noinline, maybe_unused]] void hide_pairs(const uint8_t* seen, uint32_t keys, float* scores) {
  const auto hide = [](const uint8_t* own, float* x, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) x[i] = own[i] != 0 ? x[i] : kHiddenScore;
  };
  constexpr uint32_t kChunk = 32;  // a constant length, for the vectorizer
  uint8_t own[kChunk];
  uint32_t begin = 0;
  for (; keys - begin >= kChunk; begin += kChunk) {
    std::memcpy(own, seen + begin, kChunk);
    hide(own, scores + begin, kChunk);
  }
  hide(seen + begin, scores + begin, keys - begin);
}

// Applies the pairs of the call to the scores of query `position` for the keys of `range`.
inline void hide_pairs(const Block& block, uint32_t position, KeyRange range, float* scores) {
  if (block.pairs.bits == nullptr) return;
  hide_pairs(block.pairs.of_query(position) + range.begin, range.end - range.begin, scores);
}

// Caps a row's scores. Returns false if one is infinite, which could not be detected afterwards.
bool cap_row(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t position,
             KeyRange range, float* scores) {
  const size_t bytes = (range.end - range.begin) * sizeof(float);
  // Scores in hidden tiles are not initialized: the mask sets them.
  if (!hides_by_adding(op.mask)) apply_mask(kernels, op.mask, position, range, scores);
  hide_pairs(block, position, range, scores);
  float extremes[2];
  kernels.row_extremes(bytes, scores, extremes);
  cap_scores(kernels, op, bytes, scores);
  return extremes[0] > -INFINITY && extremes[1] < INFINITY;
}

// Turns scores into weights without the division by their sum; `factor` becomes 1 / sum, or NaN
// where a score may not be finite. Keys of the block that this row does not see get weight 0.
void softmax_row(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t row,
                 float* scores, float& factor) {
  const uint32_t position = block.position_of(row);
  const KeyRange range = visible_keys(op.mask, position, block.keys);
  float* visible = scores + (range.begin - block.origin);
  const size_t bytes = (range.end - range.begin) * sizeof(float);
  bool overflows = false;
  if (has_cap(op)) overflows = !cap_row(kernels, op, block, position, range, visible);
  // Biases come before the mask, which hides keys whatever their scores are.
  if (op.slopes != nullptr) {
    add_slope(kernels, op.slopes[block.head_of(row)], position, range, visible);
  }
  if constexpr (linked(Need::kQueryTerms)) add_query_terms(kernels, block, row, range, visible);
  float extremes[2] = {};
  // A strip or a table may add -infinity, so the smallest score is found before.
  const bool mask_adds = hides_by_adding(op.mask) || has_table(op);
  if (mask_adds) kernels.row_extremes(bytes, visible, extremes);
  float least = extremes[0];
  if (has_table(op)) {
    const float* const terms = op.table.at(block.head_of(row), position, range.begin);
    kernels.add(bytes, visible, terms, visible);
  }
  apply_mask(kernels, op.mask, position, range, visible);
  hide_pairs(block, position, range, visible);
  kernels.row_extremes(bytes, visible, extremes);
  if (!mask_adds) least = extremes[0];
  const float sum =
      exp_sum(kernels, op, block, block.head_of(row), range.end - range.begin, extremes, visible);
  std::memset(scores, 0, (range.begin - block.origin) * sizeof(float));
  std::memset(scores + (range.end - block.origin), 0,
              (block.product_end - range.end) * sizeof(float));
  // The sum is NaN if a score is NaN, or if the largest one is infinite.
  const bool finite = least > -INFINITY && extremes[1] > kHiddenScore && sum == sum && !overflows;
  factor = finite ? 1.0f / sum : NAN;
  if (block.cache.is_int8() && !block.cache.for_integers()) {
    scale_weights(kernels, block, range, visible);
  }
}

// Whether weights are just the exponentials of scores: a band mask without cap, biases, sinks or
// pairs, and no scales of values to multiply by.
[[maybe_unused]] inline bool is_plain(const Attention& op, const Block& block) {
  return op.mask.kind == MaskKind::kBand && op.slopes == nullptr && !has_table(op) &&
         !has_cap(op) && !has_sinks(op) && block.pairs.bits == nullptr &&
         block.terms.rows.data == nullptr && block.cache.is_int8() == block.cache.for_integers();
}

// softmax_row() for a plain block. Kernels are so fast that the code around them matters.
[[maybe_unused]] void softmax_plain_row(const KernelSet& kernels, const Attention& op,
                                        const Block& block, uint32_t row, float* scores,
                                        float& factor) {
  const KeyRange range = keys_of_band(op.mask, block.position_of(row), block.keys);
  float* const visible = scores + (range.begin - block.origin);
  const size_t bytes = (range.end - range.begin) * sizeof(float);
  float extremes[2], sum;
  kernels.row_extremes(bytes, visible, extremes);
  if (block.cache.for_integers()) {
    kernels.integers->exp_sum(bytes, visible, extremes, visible, &sum);
  } else {
    kernels.exp_sum(bytes, visible, extremes + 1, visible, &sum);
  }
  const auto clear = [](float* from, uint32_t count) {
    if (count != 0) std::memset(from, 0, count * sizeof(float));
  };
  clear(scores, range.begin - block.origin);
  clear(scores + (range.end - block.origin), block.product_end - range.end);
  const bool finite = extremes[0] > -INFINITY && extremes[1] > kHiddenScore && sum == sum;
  factor = finite ? 1.0f / sum : NAN;
}

// output = weights * values, page by page. Pages begin at fixed positions, so the order of
// additions does not depend on the block.
void weigh_values(const KernelSet& kernels, const Attention& op, const Block& block,
                  const ScoreRows& scratch) {
  if (block.cache.for_integers()) return weigh_in_integers(kernels, op, block, scratch, false);
  const FloatKernels& products = kernels.of_cache(block.cache.is_int8());
  const uint32_t nr = products.packing.nr;
  for (uint32_t first = block.origin; first < block.end; first += kPagePositions) {
    const uint32_t page = first / kPagePositions;
    const uint32_t left = block.product_end - first;
    const uint32_t keys = left < kPagePositions ? left : kPagePositions;
    const bool is_first = first == block.origin;
    // Kernels step by panels of whole pages. The tile, for later pages, holds a single panel.
    const bool is_whole = is_first && keys == block.cache.layout().page_positions(page);
    const uint32_t columns_max = is_whole ? op.shape.value_dim : nr;
    const std::byte* panel = block.cache.values(block.kv_head, page, 0);
    const size_t panel_bytes = block.cache.value_panel_bytes(page);
    for (uint32_t column = 0; column < op.shape.value_dim; column += columns_max) {
      const uint32_t columns_left = op.shape.value_dim - column;
      const uint32_t columns = columns_left < columns_max ? columns_left : columns_max;
      float* const output = block.output.data + column;
      products.gemm[block.rows](
          block.rows, columns, keys * sizeof(float), scratch.scores + (first - block.origin),
          scratch.stride * sizeof(float), panel, is_first ? output : scratch.tile,
          (is_first ? block.output.stride : size_t{nr}) * sizeof(float));
      for (uint32_t r = 0; r < block.rows && !is_first; ++r) {
        float* row = output + r * block.output.stride;
        kernels.add(columns * sizeof(float), row, scratch.tile + r * nr, row);
      }
      panel += panel_bytes;
    }
  }
}

void attend(const KernelSet& kernels, const Attention& op, Block& block, float* scratch_data) {
  const ScoreRows scratch(scratch_data, kernels.f32.packing, op.cache_positions);
  set_range(op.mask, block);

  float factors[kRowsMax];
  compute_scores(kernels, op, block, scratch);
  bool is_done = false;
  if constexpr (kMveLinked) {
    is_done = kernels.divide != nullptr && is_plain(op, block);
    for (uint32_t r = 0; is_done && r < block.rows; ++r) {
      softmax_plain_row(kernels, op, block, r, scratch.scores + r * scratch.stride, factors[r]);
    }
  }
  for (uint32_t r = 0; !is_done && r < block.rows; ++r) {
    softmax_row(kernels, op, block, r, scratch.scores + r * scratch.stride, factors[r]);
  }
  weigh_values(kernels, op, block, scratch);
  const DivideRowKernel divide = kernels.divide;
  for (uint32_t r = 0; r < block.rows; ++r) {
    float* const row = block.output.row(r);
    const bool finite = divide != nullptr ? divide(op.shape.value_dim, factors[r], row)
                                          : divide_by_sum(op, factors[r], row);
    // 0 * NaN is NaN: the result may include values that the row does not see, which have weight 0.
    if (!finite) attend_alone(kernels, op, block, r, scratch);
  }
}

// Returns a view of `rows` rows of one head or, `by_head`, of `rows` heads of one row.
template <typename Float>
MatrixView<Float> head_rows(const MatrixView<Float>& matrix, uint32_t row, uint32_t rows,
                            uint32_t head, uint32_t width, bool by_head = false) {
  if (matrix.data == nullptr) return {};
  return {matrix.row(row) + size_t{head} * width, rows, width, by_head ? width : matrix.stride};
}

KvCache cache_of(const Attention& op, const CacheLayout& layout, size_t sequence) {
  return KvCache(op.cache + sequence * layout.bytes(), layout);
}

// Appends the new rows of KV heads [begin, end) to the caches of their sequences.
void append_heads(const KernelSet& kernels, const Attention& op, const CacheLayout& layout,
                  const ParallelFor& parallel, uint32_t begin, uint32_t end) {
  const uint32_t heads = end - begin;
  const uint32_t row_work = (op.shape.head_dim + op.shape.value_dim) * kRoundWork;
  if (op.value.rows == 0) return;
  const uint32_t rows_max = pieces_at_once(parallel, op.value.rows, row_work);
  const uint32_t parts = rows_max == op.value.rows ? 1 : div_up(op.value.rows, rows_max);
  auto work = [&](uint32_t task_index, uint32_t) {
    const uint32_t index = task_index / (heads * parts);
    const uint32_t head = begin + task_index / parts % heads;
    const SequenceRows& sequence = op.keys[index];
    const uint32_t first = task_index % parts * rows_max;
    if (first >= sequence.rows) return;
    const uint32_t left = sequence.rows - first;
    const uint32_t rows = left < rows_max ? left : rows_max;
    const uint32_t row = sequence.row_begin + first;
    cache_of(op, layout, index)
        .append(kernels, head, sequence.positions + first,
                head_rows(op.key, row, rows, head, op.shape.head_dim),
                head_rows(op.value, row, rows, head, op.shape.value_dim));
  };
  for_each_task(parallel, static_cast<uint32_t>(op.keys.size()) * heads * parts,
                rows_max * row_work, work);
}

// Writes the ones that end the int8 values of each sequence. Not part of append_heads(): several
// threads append parts of a sequence, and a rewind moves the end without new rows.
void end_heads(const Attention& op, const CacheLayout& layout, const ParallelFor& parallel,
               uint32_t begin, uint32_t end) {
  if (!layout.is_int8() || layout.for_integers()) return;
  auto work = [&](uint32_t task_index, uint32_t) {
    const uint32_t sequence = task_index / (end - begin);
    const uint32_t held = op.keys[sequence].positions + op.keys[sequence].rows;
    if (held == 0) return;
    cache_of(op, layout, sequence).end_int8_values(begin + task_index % (end - begin), held);
  };
  for_each_task(parallel, static_cast<uint32_t>(op.keys.size()) * (end - begin), 0, work);
}

// The blocks of queries of one KV head, of all sequences. If a sequence has one query, the heads of
// the group are the rows of its blocks, so that their keys and values are read once. Otherwise it
// has blocks of tokens for each head. A row's bits are the same either way.
class HeadBlocks {
 public:
  HeadBlocks(const KernelSet& kernels, const Attention& op, const CacheLayout& layout,
             const ParallelFor& parallel)
      : kernels_(kernels), op_(op), layout_(layout) {
    uint32_t keys = 0;
    for (const SequenceRows& sequence : op.keys) {
      if (sequence.positions + sequence.rows > keys) keys = sequence.positions + sequence.rows;
    }
    if (keys > op.cache_positions) keys = op.cache_positions;  // a ring holds no more
    row_work_ = keys * (op.shape.head_dim + op.shape.value_dim + kFunctionWork);
    // Scratch has rows of scores for the mr of float32; kernels for int8 caches may take more rows.
    rows_max_ = pieces_at_once(parallel, kernels.f32.packing.mr, row_work_);
    for (const SequenceRows& sequence : op.queries) count_ += blocks_of(sequence);
  }

  uint32_t count() const { return count_; }
  uint32_t block_work() const { return rows_max_ * row_work_; }

  void compute(uint32_t kv_head, uint32_t index, float* scratch) const {
    uint32_t s = 0;
    for (; index >= blocks_of(op_.queries[s]); ++s) index -= blocks_of(op_.queries[s]);
    const SequenceRows& sequence = op_.queries[s];
    const bool by_head = sequence.rows == 1;
    const RowBlocks split(by_head ? group() : sequence.rows, rows_max_);
    const uint32_t block_index = index % split.count;
    const uint32_t begin = split.begin(block_index);
    const uint32_t rows = split.size(block_index);
    const uint32_t head = kv_head * group() + (by_head ? begin : index / split.count);
    const uint32_t token = by_head ? 0 : begin;
    const uint32_t row = sequence.row_begin + token;
    const KvCache cache = cache_of(op_, layout_, s);
    Block block = {cache,
                   kv_head,
                   head,
                   rows,
                   sequence.positions + token,
                   by_head ? 0u : 1u,
                   op_.keys[s].positions + op_.keys[s].rows,
                   head_rows(op_.query, row, rows, head, op_.shape.head_dim, by_head),
                   head_rows(op_.output, row, rows, head, op_.shape.value_dim, by_head)};
    if constexpr (linked(Need::kPairMask)) block.pairs = op_.pairs.of(op_.queries, s);
    if constexpr (linked(Need::kQueryTerms)) {
      const LinkedQueryTerms& all = op_.query_terms;
      ConstMatrix key_rows = all.key_rows;
      if (key_rows.data != nullptr) key_rows.data = key_rows.row(op_.keys[s].row_begin);
      block.terms = {head_rows(all.rows, row, rows, head, all.count, by_head), all.count,
                     all.centre, key_rows, all.key_count};
    }
    attend(kernels_, op_, block, scratch);
  }

 private:
  uint32_t group() const { return op_.heads / op_.shape.kv_heads; }
  uint32_t blocks_of(const SequenceRows& sequence) const {
    if (sequence.rows == 1) return div_up(group(), rows_max_);
    return group() * div_up(sequence.rows, rows_max_);
  }

  const KernelSet& kernels_;
  const Attention& op_;
  const CacheLayout& layout_;
  uint32_t row_work_ = 0;
  uint32_t rows_max_ = 0;
  uint32_t count_ = 0;
};

}  // namespace

void attention(const KernelSet& kernels, const Attention& op, const ParallelFor& parallel) {
  // A single thread appends the rows of a head right before it reads them, and its keys and values
  // stay in the second-level cache while its blocks are computed. Several threads process all heads
  // at once, since they would have to wait for each other after every head.
  const bool is_int8 = linked(Need::kInt8Cache) && op.kv_type == TensorType::kInt8;
  const CacheLayout layout = kernels.layout_of_cache(is_int8, op.shape, op.cache_positions);
  const HeadBlocks blocks(kernels, op, layout, parallel);
  const uint32_t kv_heads = op.shape.kv_heads;
  const uint32_t at_once = parallel.run == nullptr ? 1 : kv_heads;
  for (uint32_t first = 0; first < kv_heads; first += at_once) {
    if (!linked(Need::kStore) || op.value.data != nullptr) {
      append_heads(kernels, op, layout, parallel, first, first + at_once);
    }
    end_heads(op, layout, parallel, first, first + at_once);
    if (linked(Need::kStore) && op.output.data == nullptr) continue;
    auto work = [&](uint32_t task_index, uint32_t thread_index) {
      blocks.compute(first + task_index / blocks.count(), task_index % blocks.count(),
                     op.scratch.floats_of(thread_index));
    };
    for_each_task(parallel, at_once * blocks.count(), blocks.block_work(), work);
  }
}

}  // namespace arenite
