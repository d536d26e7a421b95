// SPDX-License-Identifier: Apache-2.0
// Selects and pools rows. Pools read rows in order, so that bits depend on the sequence alone.
#include "ops/row_ops.h"

#include <algorithm>
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

// to [columns] = the sum of the rows [begin, end), or their mean as `kind` weights it.
void sum_of_rows(const KernelSet& kernels, SelectKind kind, const ConstMatrix& from,
                 const StepRows& step, uint32_t begin, uint32_t end, float* to) {
  const size_t bytes = from.columns * sizeof(float);
  std::memset(to, 0, bytes);
  float weights = 0.0f;  // the sum of the weights of all rows, an integer
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
  if (linked(Need::kSelectSum) && kind == SelectKind::kSum) return;
  const bool by_root = kind == SelectKind::kMeanSqrtLength;
  const float factor = 1.0f / (by_root ? __builtin_sqrtf(weights) : weights);
  kernels.scale(bytes, to, &factor, to);
}

// to [columns] = f(rows [begin, end) of `from`), column by column.
void pool_rows(const KernelSet& kernels, SelectKind kind, const ConstMatrix& from,
               const StepRows& step, uint32_t begin, uint32_t end, float* to) {
  if (linked(Need::kSelectMax) && kind == SelectKind::kMax) {
    max_of_rows(from, begin, end, to);
  } else if (kMeansLinked) {
    sum_of_rows(kernels, kind, from, step, begin, end, to);
  }
}

// Splits each row into k rows, or joins k rows into one. For k = 2 and width 3:
//   [[a b c d e f]] becomes [[a b c], [d e f]], and the other way round
inline void take_in_turn(const ConstMatrix& from, const Matrix& to, const ParallelFor& parallel) {
  const uint32_t width = std::min(from.columns, to.columns);
  const uint32_t of_from = from.columns / width, of_to = to.columns / width;
  auto work = [&](uint32_t i) {
    std::memcpy(to.row(i / of_to) + i % of_to * width, from.row(i / of_from) + i % of_from * width,
                width * sizeof(float));
  };
  for_each_row(parallel, from.rows * of_from, width * kCopyWork, work);
}

}  // namespace

void select(const KernelSet& kernels, SelectKind kind, const ConstMatrix& input,
            const StepRows& rows, std::span<const SequenceRows> to, const Matrix& output,
            const ParallelFor& parallel, const uint32_t* taken) {
  if (linked(Need::kSelectTurns) && kind == SelectKind::kTurns) {
    return take_in_turn(input, output, parallel);
  }
  const uint32_t row_work = input.rows * (2 * kSumWork);
  const uint32_t width = pieces_at_once(parallel, input.columns, row_work);
  const uint32_t parts = div_up(input.columns, width);
  auto work = [&](uint32_t index, uint32_t) {
    const size_t i = index / parts;
    if (to[i].rows == 0) return;
    const uint32_t begin = rows.sequences[i].row_begin;
    const uint32_t end = begin + rows.sequences[i].rows;
    const uint32_t column = index % parts * width;
    const ConstMatrix part = {input.data + column, input.rows,
                              std::min(width, input.columns - column), input.stride};
    if (linked(Need::kSelectTransposed) && kind == SelectKind::kTransposed) {
      kernels.transpose(end - begin, part.columns, part.row(begin), part.stride * sizeof(float),
                        output.row(to[i].row_begin + column), output.stride * sizeof(float));
      return;
    }
    float* const made = output.row(to[i].row_begin) + column;
    if ((kMeansLinked || linked(Need::kSelectMax)) && makes_a_row_of_several(kind)) {
      pool_rows(kernels, kind, part, rows, begin, end, made);
      return;
    }
    const bool is_said = kind == SelectKind::kAsAsked && rows.outputs != nullptr;
    uint32_t from = is_said || kind == SelectKind::kFirst ? begin : end - to[i].rows;
    for (uint32_t row = 0; row < to[i].rows; ++row, ++from) {
      while (is_said && rows.outputs[place_of_row(rows, from).token] == 0) ++from;
      const bool is_taken = linked(Need::kSelectTaken) && kind == SelectKind::kTaken;
      std::memcpy(made + row * output.stride, part.row(is_taken ? begin + taken[row] : from),
                  part.columns * sizeof(float));
    }
  };
  for_each_task(parallel, static_cast<uint32_t>(to.size()) * parts, width * row_work, work);
}

}  // namespace arenite
