// SPDX-License-Identifier: Apache-2.0
// Attention of a single query, key by key, for rows with NaN or infinity. It adds the same products
// in the same order as a block and skips only those of hidden keys, which are 0. So it gives the
// same bits as a block whose hidden keys are finite.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/float_bits.h"
#include "ops/attention_block.h"

namespace arenite {
namespace {

// query * key for a product that overflows, whole or in part. Factors are multiplied by 2^-80, so
// that products of any floats can be added up. What underflows is negligible.
float rescaled_score(const Attention& op, const Block& row, uint32_t key) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < op.shape.head_dim; ++i) {
    sum += (row.query.data[i] * 0x1p-80f) * (row.cache.key(row.kv_head, key, i) * 0x1p-80f);
  }
  return sum * 0x1p80f * 0x1p80f;
}

// Not inlined: the path is rare and calls it in several places.
[[gnu::noinline]] float table_term(const Attention& op, const Block& row, uint32_t key) {
  return *op.table.at(row.head, row.position, key);
}

// Returns the mask's term for a key, or -infinity if mask, table or pairs hide it.
float mask_or_table_term(const Attention& op, const Block& row, uint32_t key) {
  const float term = mask_term(op.mask, row.position, key);
  const bool hides = (has_table(op) && table_term(op, row, key) == -INFINITY) ||
                     row.pairs.hides(row.position, key);
  return hides ? -INFINITY : term;
}

// Turns the scores of the keys that the row sees into weights. Returns 1 / their sum, or NaN.
float softmax_alone(const KernelSet& kernels, const Attention& op, const Block& row,
                    float* scores) {
  for (uint32_t key = row.begin; key < row.end; ++key) {
    float& score = scores[key - row.begin];
    const float term = mask_or_table_term(op, row, key);
    if (!is_finite(score) && term != -INFINITY) {
      score = rescaled_score(op, row, key);
    }
    if (has_cap(op)) cap_scores(kernels, op, sizeof(float), &score);
    if (op.slopes != nullptr) score += slope_term(op.slopes[row.head], row.position, key);
    if constexpr (linked(Need::kQueryTerms)) {
      add_query_terms(kernels, row, 0, {key, key + 1}, &score);
    }
    if (has_table(op)) score += table_term(op, row, key);
    score = term != -INFINITY ? score + term : term;
    if (!(score < INFINITY)) return NAN;
  }
  const size_t bytes = (row.end - row.begin) * sizeof(float);
  float extremes[2];
  kernels.row_extremes(bytes, scores, extremes);
  // This is NaN if all scores are -infinity.
  return 1.0f / exp_sum(kernels, op, row, row.head, row.end - row.begin, extremes, scores);
}

// For integer kernels: sets the weights of hidden keys to 0, even if their values have the scale
// NaN, and those of keys from the row's origin to its begin.
void clear_hidden_weights(const Attention& op, const Block& row, float* weights) {
  for (uint32_t key = row.origin; key < row.end; ++key) {
    const bool hidden = key < row.begin || mask_or_table_term(op, row, key) == -INFINITY;
    if (hidden) weights[key - row.origin] = 0.0f;
  }
}

// output = weights * values of the visible keys. Each row of values is copied into the tile, after
// the sum so far: there the two are a packed matrix of one input and its bias.
void weigh_seen_values(const KernelSet& kernels, const Attention& op, const Block& row,
                       const ScoreRows& scratch) {
  const bool is_int8 = row.cache.is_int8();
  const FloatKernels& products = kernels.of_cache(is_int8);
  const uint32_t nr = products.packing.nr;
  auto* const tile = reinterpret_cast<std::byte*>(scratch.tile);
  std::byte* const value = tile + row.cache.layout().value_row(0);
  if (is_int8) {  // the kernel's scales
    std::fill_n(reinterpret_cast<float*>(tile + row.cache.layout().value_row(1)), nr, 1.0f);
  }
  float* const sums = scratch.scores + scratch.stride;  // the second row of scores is free
  for (uint32_t first = row.origin; first < row.end; first += kPagePositions) {
    const uint32_t end = row.end - first < kPagePositions ? row.end : first + kPagePositions;
    for (uint32_t panel = 0; panel < row.cache.layout().value_panels(); ++panel) {
      const uint32_t columns_left = op.shape.value_dim - panel * nr;
      const size_t columns = columns_left < nr ? columns_left : nr;
      const size_t bytes = columns * sizeof(float);
      const std::byte* values = row.cache.values(row.kv_head, first / kPagePositions, panel);
      std::memset(tile, 0, nr * sizeof(float));
      for (uint32_t key = first > row.begin ? first : row.begin; key < end; ++key) {
        if (mask_or_table_term(op, row, key) == -INFINITY) continue;
        std::memcpy(value, values + row.cache.layout().value_row(key - first),
                    size_t{nr} * row.cache.layout().number_bytes());
        products.gemm[1](1, columns, sizeof(float), scratch.scores + (key - row.origin),
                         sizeof(float), tile, sums, nr * sizeof(float));
        std::memcpy(tile, sums, bytes);
      }
      float* output = row.output.data + panel * nr;
      if (first == row.origin) {
        std::memcpy(output, tile, bytes);
      } else {
        kernels.add(bytes, output, scratch.tile, output);
      }
    }
  }
}

}  // namespace

void attend_alone(const KernelSet& kernels, const Attention& op, const Block& block, uint32_t index,
                  const ScoreRows& scratch) {
  Block row = block;
  row.rows = 1;
  row.head = block.head_of(index);
  row.position = block.position_of(index);
  row.query.data += index * block.query.stride;  // adds 0 to null if there are no queries
  row.output.data = block.output.row(index);
  const LinkedQueryTerms& terms = block.terms;
  row.terms = {
      {terms.rows.row(index), 1}, terms.count, terms.centre, terms.key_rows, terms.key_count};
  set_range(op.mask, row);
  compute_scores(kernels, op, row, scratch);
  const float factor = softmax_alone(kernels, op, row, scratch.scores + (row.begin - row.origin));
  if (factor != factor) {
    for (uint32_t i = 0; i < op.shape.value_dim; ++i) row.output.data[i] = NAN;
    return;
  }
  if (row.cache.is_int8()) {
    scale_weights(kernels, row, {row.begin, row.end}, scratch.scores + (row.begin - row.origin));
  }
  if (row.cache.for_integers()) {
    clear_hidden_weights(op, row, scratch.scores);
    weigh_in_integers(kernels, op, row, scratch, true);
  } else {
    weigh_seen_values(kernels, op, row, scratch);
  }
  divide_by_sum(op, factor, row.output.data);
}

}  // namespace arenite
