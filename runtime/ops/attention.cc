// SPDX-License-Identifier: Apache-2.0
// For each head and each block of mr queries: scores of the visible keys, mask, exp and sum, the
// product with the values, and the division by the sum. Nothing is as large as rows x keys: a
// thread holds mr rows of scores.
#include "ops/attention.h"

#include <cassert>
#include <cstring>

#include "core/arena_formula.h"
#include "ops/kv_cache.h"
#include "ops/mask.h"
#include "ops/parallel.h"

namespace arenite {
namespace {

// A block of queries of one head. Scores of key `origin` are in column 0.
struct Block {
  const KvCache& cache;
  uint32_t kv_head;
  uint32_t rows;
  uint32_t position;  // of its first row
  uint32_t keys;      // held by the sequence, new ones included
  const float* query;
  float* output;
  uint32_t begin = 0;  // the keys that any of its rows sees: [begin, end)
  uint32_t end = 0;
  uint32_t origin = 0;  // begin, rounded down to a page
};

// What a thread works with: a tile for partial products, then rows of scores.
struct Scratch {
  float* tile;
  float* scores;
  size_t stride;  // floats between rows of scores

  Scratch(float* data, Packing packing, uint32_t positions_max)
      : tile(data),
        scores(data + size_t{packing.mr} * packing.nr),
        stride(size_t{key_panels(packing, positions_max)} * packing.nr + kScoreRowPadding) {}
};

// scores = query * keys^T, for the keys that any row of the block sees.
void compute_scores(const KernelSet& kernels, const Attention& op, const Block& block,
                    const Scratch& scratch) {
  if (op.shape.head_dim == 0) {
    for (uint32_t r = 0; r < block.rows; ++r) {
      std::memset(scratch.scores + r * scratch.stride, 0,
                  (block.end - block.origin) * sizeof(float));
    }
    return;
  }
  const uint32_t nr = kernels.packing.nr;
  KeyRange run = {block.begin, block.begin};
  while (true) {
    run = next_visible_run(op.mask, block.position, block.position + block.rows - 1,
                           {run.end, block.end});
    if (run.begin == run.end) break;
    const uint32_t panel_begin = run.begin - run.begin % nr;
    kernels.gemm[block.rows](
        block.rows, run.end - panel_begin, op.shape.head_dim * sizeof(float), block.query,
        op.query.stride * sizeof(float), block.cache.keys(block.kv_head, panel_begin),
        scratch.scores + (panel_begin - block.origin), scratch.stride * sizeof(float));
  }
}

// Turns scores into weights that still have to be divided by their sum; `factor` becomes 1 / sum.
// Keys of the block that this row does not see get the weight 0.
void softmax_row(const KernelSet& kernels, const MaskView& mask, const Block& block,
                 uint32_t position, float* scores, float& factor) {
  const KeyRange range = visible_keys(mask, position, block.keys);
  float* visible = scores + (range.begin - block.origin);
  const size_t bytes = (range.end - range.begin) * sizeof(float);
  apply_mask(kernels, mask, position, range, visible);
  float max;
  float sum;
  kernels.row_max(bytes, visible, &max);
  kernels.exp_sum(bytes, visible, &max, visible, &sum);
  std::memset(scores, 0, (range.begin - block.origin) * sizeof(float));
  std::memset(scores + (range.end - block.origin), 0, (block.end - range.end) * sizeof(float));
  factor = 1.0f / sum;
}

// output = weights * values, page by page. Pages lie at fixed positions, so the order of additions
// does not depend on the block.
void weigh_values(const KernelSet& kernels, const Attention& op, const Block& block,
                  const Scratch& scratch) {
  const GemmKernel gemm = kernels.gemm[block.rows];
  const uint32_t nr = kernels.packing.nr;
  const size_t scores_stride = scratch.stride * sizeof(float);
  const size_t output_stride = op.output.stride * sizeof(float);
  for (uint32_t first = block.origin; first < block.end; first += kPagePositions) {
    const uint32_t page = first / kPagePositions;
    const uint32_t left = block.end - first;
    const uint32_t keys = left < kPagePositions ? left : kPagePositions;
    const float* scores = scratch.scores + (first - block.origin);
    if (first == block.origin && keys == block.cache.page_rows(page)) {
      gemm(block.rows, op.shape.value_dim, keys * sizeof(float), scores, scores_stride,
           block.cache.values(block.kv_head, page, 0), block.output, output_stride);
      continue;
    }
    for (uint32_t panel = 0; panel < block.cache.value_panels(); ++panel) {
      const uint32_t columns_left = op.shape.value_dim - panel * nr;
      const uint32_t columns = columns_left < nr ? columns_left : nr;
      const float* values = block.cache.values(block.kv_head, page, panel);
      float* output = block.output + panel * nr;
      if (first == block.origin) {
        gemm(block.rows, columns, keys * sizeof(float), scores, scores_stride, values, output,
             output_stride);
        continue;
      }
      gemm(block.rows, columns, keys * sizeof(float), scores, scores_stride, values, scratch.tile,
           nr * sizeof(float));
      for (uint32_t r = 0; r < block.rows; ++r) {
        float* row = output + r * op.output.stride;
        kernels.add(columns * sizeof(float), row, scratch.tile + r * nr, row);
      }
    }
  }
}

void attend(const KernelSet& kernels, const Attention& op, Block& block, float* scratch_data) {
  const Scratch scratch(scratch_data, kernels.packing, op.positions_max);
  block.begin = UINT32_MAX;
  for (uint32_t r = 0; r < block.rows; ++r) {
    const KeyRange range = visible_keys(op.mask, block.position + r, block.keys);
    if (range.begin < block.begin) block.begin = range.begin;
    if (range.end > block.end) block.end = range.end;
  }
  block.origin = block.begin - block.begin % kPagePositions;

  float factors[kRowsMax];
  compute_scores(kernels, op, block, scratch);
  for (uint32_t r = 0; r < block.rows; ++r) {
    softmax_row(kernels, op.mask, block, block.position + r, scratch.scores + r * scratch.stride,
                factors[r]);
  }
  weigh_values(kernels, op, block, scratch);
  for (uint32_t r = 0; r < block.rows; ++r) {
    float* row = block.output + r * op.output.stride;
    kernels.scale(op.shape.value_dim * sizeof(float), row, &factors[r], row);
  }
}

ConstMatrix head_rows(const ConstMatrix& matrix, const SequenceRows& sequence, uint32_t head,
                      uint32_t width) {
  if (matrix.data == nullptr) return {};
  return {matrix.row(sequence.row_begin) + size_t{head} * width, sequence.rows, width,
          matrix.stride};
}

KvCache cache_of(const KernelSet& kernels, const Attention& op, size_t sequence) {
  const size_t floats = KvCache::floats(kernels.packing, op.shape, op.positions_max);
  return KvCache(op.cache + sequence * floats, kernels.packing, op.shape, op.positions_max);
}

// Appends the new rows of key/value heads [begin, end) to their caches.
void append_heads(const KernelSet& kernels, const Attention& op,
                  std::span<const SequenceRows> sequences, const ParallelFor& parallel,
                  uint32_t begin, uint32_t end) {
  const uint32_t heads = end - begin;
  auto work = [&](uint32_t task_index, uint32_t) {
    const uint32_t index = task_index / heads;
    const uint32_t head = begin + task_index % heads;
    const SequenceRows& sequence = sequences[index];
    if (sequence.rows == 0) return;
    cache_of(kernels, op, index)
        .append(kernels, head, sequence.positions,
                head_rows(op.key, sequence, head, op.shape.head_dim),
                head_rows(op.value, sequence, head, op.shape.value_dim));
  };
  for_each_task(parallel, static_cast<uint32_t>(sequences.size()) * heads, work);
}

// Computes query heads [begin, end), head by head: the keys and values of a head stay in the
// second-level cache while its blocks are computed.
void attend_heads(const KernelSet& kernels, const Attention& op,
                  std::span<const SequenceRows> sequences, const ParallelFor& parallel,
                  uint32_t begin, uint32_t end) {
  const uint32_t mr = kernels.packing.mr;
  uint32_t blocks = 0;
  for (const SequenceRows& sequence : sequences) blocks += div_up(sequence.rows, mr);
  auto work = [&](uint32_t task_index, uint32_t thread_index) {
    const uint32_t head = begin + task_index / blocks;
    uint32_t block_index = task_index % blocks;
    uint32_t index = 0;
    while (block_index >= div_up(sequences[index].rows, mr)) {
      block_index -= div_up(sequences[index].rows, mr);
      ++index;
    }
    const SequenceRows& sequence = sequences[index];
    const RowBlocks split(sequence.rows, mr);
    const uint32_t row = sequence.row_begin + split.begin(block_index);
    const KvCache cache = cache_of(kernels, op, index);
    Block block = {
        cache,
        head / (op.heads / op.shape.kv_heads),
        split.size(block_index),
        sequence.positions + split.begin(block_index),
        sequence.positions + sequence.rows,
        op.query.data == nullptr ? nullptr : op.query.row(row) + size_t{head} * op.shape.head_dim,
        op.output.row(row) + size_t{head} * op.shape.value_dim};
    attend(kernels, op, block, op.scratch + thread_index * op.scratch_floats);
  };
  for_each_task(parallel, blocks * (end - begin), work);
}

}  // namespace

void attention(const KernelSet& kernels, const Attention& op,
               std::span<const SequenceRows> sequences, const ParallelFor& parallel) {
  // One thread appends a head right before it reads it; several would wait for each other then.
  const uint32_t kv_heads = op.shape.kv_heads;
  const uint32_t group = op.heads / kv_heads;  // query heads that share a key/value head
  const uint32_t at_once = parallel.run == nullptr ? 1 : kv_heads;
  for (uint32_t head = 0; head < kv_heads; head += at_once) {
    append_heads(kernels, op, sequences, parallel, head, head + at_once);
    attend_heads(kernels, op, sequences, parallel, head * group, (head + at_once) * group);
  }
}

}  // namespace arenite
