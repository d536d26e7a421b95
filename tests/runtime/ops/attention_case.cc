// SPDX-License-Identifier: Apache-2.0
// Lays out the operands of the attention op like a session, but in separate buffers.
#include "attention_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "arenite/arena_formula.h"
#include "support/compare.h"
#include "support/malloc_trap.h"
#include "support/packed_weights.h"
#include "support/random.h"

namespace arenite::test {
namespace {

// Floats between the rows of inputs and outputs, as other columns of a slot would be.
constexpr uint32_t kGap = 5;

size_t stride_of(uint32_t width) { return size_t{width} + kGap; }
size_t floats_of(uint32_t rows, uint32_t width) {
  return rows == 0 || width == 0 ? 0 : (rows - 1) * stride_of(width) + width;
}

uint32_t rows_of(const Step& step) { return std::accumulate(step.begin(), step.end(), 0u); }

ConstMatrix matrix_of(const GuardedFloats& data, uint32_t rows, uint32_t width) {
  if (width == 0) return {};
  return {data.data(), rows, width, stride_of(width)};
}

// Attention's share of the arena formula.
size_t scratch_floats(Packing packing, uint32_t cache_positions) {
  ArenaFormula formula;
  formula.nr = packing.nr;
  formula.score_rows = packing.mr;
  formula.group_count = 1;
  formula.groups[0].lookback = kUnlimited;
  const ArenaSizes sizes =
      evaluate(formula, std::vector<Axis>(1), {.positions_max = cache_positions});
  return static_cast<size_t>(sizes.scratch_bytes_per_thread.value() / sizeof(float));
}

}  // namespace

AttentionCase::AttentionCase(TensorType kv_type_in, const AttentionShape& shape_in,
                             TestMask mask_in, std::vector<uint32_t> lengths_in, float query_limit)
    : kv_type(kv_type_in),
      shape(shape_in),
      mask(std::move(mask_in)),
      positions_max(mask.dense.positions),
      cache_positions(positions_max),
      lengths(std::move(lengths_in)) {
  Random random(1);
  const auto fill = [&](std::vector<float>& values, size_t count, float limit) {
    values.resize(count);
    random.fill(values, limit);
  };
  for (const uint32_t length : lengths) {
    SequenceTokens& sequence = tokens.emplace_back();
    fill(sequence.query, size_t{length} * shape.heads * shape.head_dim, query_limit);
    fill(sequence.key, size_t{length} * shape.kv_heads * shape.head_dim, 1.0f);
    fill(sequence.value, size_t{length} * shape.kv_heads * shape.value_dim, 1.0f);
  }
}

std::vector<std::vector<double>> AttentionCase::expected() const {
  std::vector<std::vector<double>> outputs;
  ScoreRules rules = {score_cap, slopes};
  rules.sinks = sinks;
  (has_distances() ? rules.distances : rules.pairs) = table;
  for (const SequenceTokens& sequence : tokens) {
    const std::vector<float> own = pairs_of(sequence);
    if (term_count != 0) rules.pairs = own;
    outputs.push_back(reference_attention(shape, mask.dense, sequence.query,
                                          as_cached(sequence.key, shape.head_dim),
                                          as_cached(sequence.value, shape.value_dim), rules));
  }
  return outputs;
}

std::vector<float> AttentionCase::pairs_of(const SequenceTokens& sequence) const {
  if (term_count == 0) return {};
  const size_t n = positions_max, rows = sequence.terms.size() / (shape.heads * size_t{term_count});
  std::vector<float> pairs(shape.heads * n * n, 0.0f);
  for (size_t i = 0; i < shape.heads * rows * rows; ++i) {
    const size_t head = i / rows / rows, query = i / rows % rows, key = i % rows;
    const int64_t place = static_cast<int64_t>(key) - static_cast<int64_t>(query) + term_centre;
    const auto column = static_cast<size_t>(std::clamp<int64_t>(place, 0, term_count - 1));
    pairs[(head * n + query) * n + key] =
        sequence.terms[(query * shape.heads + head) * term_count + column];
  }
  return pairs;
}

// Returns rows of `width` elements.
std::vector<float> AttentionCase::as_cached(std::vector<float> numbers, uint32_t width) const {
  if (kv_type != TensorType::kInt8) return numbers;
  for (size_t begin = 0; begin < numbers.size(); begin += width) {
    const std::span<float> row = std::span(numbers).subspan(begin, width);
    const Int8Row kept(row);
    for (float& number : row) number = static_cast<float>(kept.number(number)) * kept.scale();
  }
  return numbers;
}

// A score is a sum of head_dim products of numbers below 1, so rounding moves it by a few head_dim
// roundings, and a weight by as large a part of itself. The weights' sum and the weighted sum of
// values round once per key, at random, which grows as the square root.
// A cap's tanh is off by a few roundings. In integers a number of a query and a weight are off by
// half of 1 / 32767 of the largest, and a weight by 3e-6 of itself.
double AttentionCase::tolerance(const KernelSet& kernels) const {
  const double floats =
      kRounding * (8.0 * shape.head_dim + 4.0 * std::sqrt(positions_max) + 32.0 + 16.0 * score_cap);
  if (kv_type != TensorType::kInt8 || kernels.integers == nullptr) return floats;
  float largest = 0.0f;
  for (const SequenceTokens& sequence : tokens) {
    for (const float number : sequence.query) largest = std::max(largest, std::abs(number));
  }
  return floats + 0x1p-14 * (1.0 + double{largest} * std::sqrt(shape.head_dim));
}

void AttentionCase::add_slopes() {
  for (uint32_t h = 1; h <= shape.heads; ++h) {
    slopes.push_back(std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(shape.heads)));
  }
}

void AttentionCase::add_sinks() {
  const auto heads = static_cast<float>(shape.heads);
  for (uint32_t h = 0; h < shape.heads; ++h) {
    sinks.push_back(-3.0f + 9.0f * static_cast<float>(h) / heads);
  }
}

void AttentionCase::add_query_terms(bool are_before) {
  term_count = 9;
  term_centre = are_before ? 8 : 4;
  Random random(4);
  for (size_t s = 0; s < tokens.size(); ++s) {
    tokens[s].terms.resize(size_t{lengths[s]} * shape.heads * term_count);
    random.fill(tokens[s].terms, 2.0f);
  }
}

void AttentionCase::add_table(Table kind, bool hides) {
  if (kind >= Table::kQueries) return add_query_terms(kind == Table::kQueriesBefore);
  const size_t n = positions_max;
  const size_t columns = kind == Table::kDistances ? 2 * n - 1 : n;
  const size_t rows = kind == Table::kDistances ? 1 : n;
  const size_t heads = kind == Table::kPairsOfAllHeads ? 1 : shape.heads;
  table.resize(heads * rows * columns);
  Random random(2);
  random.fill(table, 2.0f);
  for (size_t i = 0; i < table.size() && hides; ++i) {
    const size_t own = kind == Table::kDistances ? n - 1 : i / columns % rows;
    if (i % columns != own && table[i] < -0.7f) table[i] = -INFINITY;
  }
}

bool AttentionCase::sees(uint32_t head, uint32_t query, uint32_t key) const {
  if (!mask.dense.sees(query, key)) return false;
  if (table.empty()) return true;
  const size_t n = positions_max;
  if (has_distances()) return table[head * (2 * n - 1) + n - 1 + key - query] != -INFINITY;
  const size_t own = table.size() == n * n ? 0 : head;
  return table[(own * n + query) * n + key] != -INFINITY;
}

std::vector<Step> AttentionCase::in_chunks(uint32_t rows) const {
  std::vector<Step> steps;
  for (uint32_t fed = 0; fed < *std::ranges::max_element(lengths); fed += rows) {
    Step& step = steps.emplace_back();
    for (const uint32_t length : lengths)
      step.push_back(std::min(rows, length - std::min(fed, length)));
  }
  return steps;
}

AttentionRun::AttentionRun(const KernelSet& kernels, const AttentionCase& problem,
                           const ParallelFor& parallel, float garbage)
    : kernels_(kernels),
      problem_(problem),
      parallel_(parallel),
      garbage_(garbage),
      scratch_floats_(scratch_floats(kernels.f32.packing, problem.cache_positions)),
      cache_(layout().bytes() / sizeof(float) * problem.lengths.size(), 0,
             problem.kv_type == TensorType::kInt8 ? kernels.f32.packing.nr
                                                  : weight_alignment(kernels.f32.packing)),
      scratch_(scratch_floats_ * parallel.threads, 0, kArenaUnit),
      table_(problem.table.size(), kReadAheadBytes),
      positions_(problem.lengths.size(), 0),
      outputs_(problem.lengths.size()) {
  std::ranges::fill(cache_.span(), garbage_);
  std::ranges::copy(problem.table, table_.data());
}

ScoreTable AttentionRun::score_table() const {
  if (problem_.table.empty()) return {};
  const uint32_t positions = problem_.positions_max;
  if (problem_.has_distances()) return ScoreTable::by_distance(table_.data(), positions);
  const bool by_head = problem_.table.size() != size_t{positions} * positions;
  return ScoreTable::by_pair(table_.data(), positions, positions, by_head);
}

CacheLayout AttentionRun::layout() const {
  const bool is_int8 = problem_.kv_type == TensorType::kInt8;
  return kernels_.layout_of_cache(is_int8, problem_.cache_shape(), problem_.cache_positions);
}

KvCache AttentionRun::cache(uint32_t sequence) const {
  return KvCache(reinterpret_cast<std::byte*>(cache_.data()) + sequence * layout().bytes(),
                 layout());
}

GuardedFloats AttentionRun::gather(const Step& step, std::vector<float> SequenceTokens::*part,
                                   uint32_t width) const {
  GuardedFloats rows(floats_of(rows_of(step), width), kReadAheadBytes);
  float* to = rows.data();
  for (size_t s = 0; s < step.size() && width != 0; ++s) {
    const std::vector<float>& from = problem_.tokens[s].*part;
    for (uint32_t r = 0; r < step[s]; ++r, to += stride_of(width)) {
      std::copy_n(from.begin() + (positions_[s] + r) * width, width, to);
    }
  }
  return rows;
}

void AttentionRun::feed(const Step& step) {
  const AttentionShape& shape = problem_.shape;
  const uint32_t rows = rows_of(step);
  const uint32_t query_width = shape.heads * shape.head_dim;
  const uint32_t key_width = shape.kv_heads * shape.head_dim;
  const uint32_t value_width = shape.kv_heads * shape.value_dim;
  const uint32_t output_width = shape.heads * shape.value_dim;
  const GuardedFloats query = gather(step, &SequenceTokens::query, query_width);
  const GuardedFloats key = gather(step, &SequenceTokens::key, key_width);
  const uint32_t terms_width = shape.heads * problem_.term_count;
  const GuardedFloats terms = gather(step, &SequenceTokens::terms, terms_width);
  const GuardedFloats value = gather(step, &SequenceTokens::value, value_width);
  const GuardedFloats output(floats_of(rows, output_width), kReadAheadBytes);
  std::ranges::fill(scratch_.span(), garbage_);

  std::vector<SequenceRows> sequences;
  uint32_t row = 0;
  for (size_t s = 0; s < step.size(); ++s) {
    sequences.push_back({positions_[s], row, step[s]});
    row += step[s];
  }
  Attention op;
  op.heads = shape.heads;
  op.shape = problem_.cache_shape();
  op.mask = problem_.mask.view();
  op.slopes = problem_.slopes.empty() ? nullptr : problem_.slopes.data();
  op.table = score_table();
  op.score_cap = problem_.score_cap;
  op.sinks = problem_.sinks.empty() ? nullptr : problem_.sinks.data();
  op.query_terms = {.rows = matrix_of(terms, rows, terms_width),
                    .count = problem_.term_count,
                    .centre = problem_.term_centre,
                    .key_rows = {}};
  op.cache_positions = problem_.cache_positions;
  op.query = matrix_of(query, rows, query_width);
  op.key = matrix_of(key, rows, key_width);
  op.value = matrix_of(value, rows, value_width);
  op.output = {output.data(), rows, output_width, stride_of(output_width)};
  op.kv_type = problem_.kv_type;
  op.cache = reinterpret_cast<std::byte*>(cache_.data());
  op.scratch.threads = reinterpret_cast<std::byte*>(scratch_.data());
  op.scratch.bytes_per_thread = scratch_floats_ * sizeof(float);
  {
    const NoHeapScope no_heap;
    op.queries = op.keys = sequences;
    attention(kernels_, op, parallel_);
  }

  EXPECT_TRUE(output.surroundings_intact());
  EXPECT_TRUE(cache_.surroundings_intact() && scratch_.surroundings_intact());
  const float* from = output.data();
  for (size_t s = 0; s < step.size(); ++s) {
    for (uint32_t r = 0; r < step[s]; ++r, from += stride_of(output_width)) {
      outputs_[s].insert(outputs_[s].end(), from, from + output_width);
    }
    positions_[s] += step[s];
  }
  for (uint32_t r = 0; r + 1 < rows; ++r) {
    const float* const gap = output.data() + r * stride_of(output_width) + output_width;
    EXPECT_TRUE(std::all_of(gap, gap + kGap, [](float value) { return std::isnan(value); }));
  }
}

void AttentionRun::rewind(uint32_t sequence, uint32_t positions) {
  positions_[sequence] = positions;
  outputs_[sequence].resize(size_t{positions} * problem_.shape.heads * problem_.shape.value_dim);
}

std::vector<std::vector<float>> run_attention(const KernelSet& kernels,
                                              const AttentionCase& problem,
                                              const std::vector<Step>& steps,
                                              const ParallelFor& parallel, float garbage) {
  AttentionRun run(kernels, problem, parallel, garbage);
  for (const Step& step : steps) run.feed(step);
  return run.outputs();
}

}  // namespace arenite::test
