// SPDX-License-Identifier: Apache-2.0
// Rows are taken in their order, so that the bits depend on the sequence alone.
#include "ops/row_ops.h"

#include <cstring>

#include "core/needs.h"

namespace arenite {
namespace {

void max_of_rows(const ConstMatrix& from, uint32_t begin, uint32_t end, float* to) {
  std::memcpy(to, from.row(begin), from.columns * sizeof(float));
  for (uint32_t row = begin + 1; row < end; ++row) {
    const float* const x = from.row(row);
    for (uint32_t i = 0; i < from.columns; ++i) to[i] = to[i] < x[i] ? x[i] : to[i];
  }
}

// The sum of the rows, each times its weight.
void sum_of_rows(const KernelSet& kernels, SelectKind kind, const ConstMatrix& from,
                 const StepRows& step, uint32_t begin, uint32_t end, float* to) {
  const size_t bytes = from.columns * sizeof(float);
  std::memset(to, 0, bytes);
  float weights = 0.0f;  // of all rows; a sum of whole numbers
  for (uint32_t row = begin; row < end; ++row) {
    const float* const x = from.row(row);
    if (kind != SelectKind::kWeightedMean) {
      kernels.add(bytes, to, x, to);
      weights += 1.0f;
      continue;
    }
    const float weight = static_cast<float>(place_of_row(step, row).position) + 1.0f;
    for (uint32_t i = 0; i < from.columns; ++i) to[i] += weight * x[i];
    weights += weight;
  }
  const bool by_root = kind == SelectKind::kMeanSqrtLength;
  const float factor = 1.0f / (by_root ? __builtin_sqrtf(weights) : weights);
  kernels.scale(bytes, to, &factor, to);
}

// to [columns] = f(rows [begin, end) of `from`).
void pool_rows(const KernelSet& kernels, SelectKind kind, const ConstMatrix& from,
               const StepRows& step, uint32_t begin, uint32_t end, float* to) {
  if (linked(Need::kSelectMax) && kind == SelectKind::kMax) {
    max_of_rows(from, begin, end, to);
  } else if (kMeansLinked) {
    sum_of_rows(kernels, kind, from, step, begin, end, to);
  }
}

}  // namespace

void select(const KernelSet& kernels, SelectKind kind, bool all, const ConstMatrix& input,
            const StepRows& rows, const Matrix& output, PrefixRows first_row) {
  uint32_t next = 0;
  for (const SequenceRows& sequence : rows.sequences) {
    if (sequence.rows == 0) continue;
    const uint32_t begin = sequence.row_begin + first_row;
    const uint32_t end = sequence.row_begin + sequence.rows;
    if (makes_a_row_of_several(kind)) {
      pool_rows(kernels, kind, input, rows, begin, end, output.row(next++));
      continue;
    }
    const bool each = all && kind == SelectKind::kAsAsked;
    const uint32_t first = each || kind == SelectKind::kFirst ? begin : end - 1;
    const uint32_t last = each ? end : first + 1;
    for (uint32_t row = first; row < last; ++row) {
      std::memcpy(output.row(next++), input.row(row), input.columns * sizeof(float));
    }
  }
}

}  // namespace arenite
