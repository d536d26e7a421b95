// SPDX-License-Identifier: Apache-2.0
// What ops know about the rows of a step: which sequence each belongs to, and its position.
#pragma once

#include <cstdint>
#include <span>

#include "core/matrix.h"
#include "ops/tasks.h"

namespace arenite {

// One sequence's share of the rows of a step.
struct SequenceRows {
  uint32_t positions = 0;  // held before the step
  uint32_t row_begin = 0;  // its rows among those of the step
  uint32_t rows = 0;       // new tokens; may be 0
  uint32_t written = 0;    // the most positions ever begun since the last reset; for rings
};

// Rows that one task of a row-wise op takes: enough to be worth a thread's while.
inline constexpr uint32_t kRowsPerTask = 16;

// Calls work(row) for every row of [0, rows).
template <typename Work>
void for_each_row(const ParallelFor& parallel, uint32_t rows, Work& work) {
  auto task = [&](uint32_t task_index, uint32_t) {
    const uint32_t begin = task_index * kRowsPerTask;
    const uint32_t left = rows - begin;
    const uint32_t end = begin + (left < kRowsPerTask ? left : kRowsPerTask);
    for (uint32_t row = begin; row < end; ++row) work(row);
  };
  for_each_task(parallel, rows / kRowsPerTask + (rows % kRowsPerTask != 0 ? 1 : 0), task);
}

// The rows of a step, and where their tokens stand in the caller's memory: sequence i from
// i * stride on, or, with stride 0, all of them back to back.
struct StepRows {
  std::span<const SequenceRows> sequences;
  size_t stride = 0;
  const uint8_t* visible = nullptr;  // [sequences, stride]: a row for each 1; null: for the first
};

// Where a row of the step comes from.
struct RowPlace {
  size_t token = 0;       // in the caller's memory
  uint32_t position = 0;  // in the sequence
};

// The column of the `index`-th 1. REQUIRES: there are more than `index`.
inline uint32_t visible_column(const uint8_t* visible, uint32_t index) {
  uint32_t column = 0;
  for (uint32_t seen = 0; seen + visible[column] <= index; ++column) seen += visible[column];
  return column;
}

// REQUIRES: the row belongs to a sequence.
inline RowPlace place_of_row(const StepRows& step, uint32_t row) {
  // The last sequence that begins at or before the row: those without rows begin where the next
  // one does.
  size_t first = 0;
  for (size_t count = step.sequences.size(); count > 1;) {
    const size_t half = count / 2;
    if (step.sequences[first + half].row_begin <= row) first += half;
    count -= half;
  }
  const SequenceRows& sequence = step.sequences[first];
  uint32_t offset = row - sequence.row_begin;
  if (step.stride == 0) return {row, sequence.positions + offset};
  const size_t begin = first * step.stride;
  if (step.visible != nullptr) offset = visible_column(step.visible + begin, offset);
  return {begin + offset, sequence.positions + offset};
}

}  // namespace arenite
