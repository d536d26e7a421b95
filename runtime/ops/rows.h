// SPDX-License-Identifier: Apache-2.0
// What ops know about the rows of a step: which sequence each belongs to, and its position.
#pragma once

#include <cstdint>
#include <span>

#include "core/matrix.h"
#include "ops/parallel.h"

namespace arenite {

// One sequence's share of the rows of a step.
struct SequenceRows {
  uint32_t positions = 0;  // held before the step
  uint32_t row_begin = 0;  // its rows among those of the step
  uint32_t rows = 0;       // new tokens; may be 0
  uint32_t written = 0;    // the most positions ever held since the last reset; for rings
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

// Where a row of the step comes from.
struct RowPlace {
  uint32_t sequence = 0;
  uint32_t offset = 0;    // among the sequence's new tokens
  uint32_t position = 0;  // in the sequence
};

// REQUIRES: the row belongs to a sequence.
inline RowPlace place_of_row(std::span<const SequenceRows> sequences, uint32_t row) {
  uint32_t i = 0;
  while (row - sequences[i].row_begin >= sequences[i].rows) ++i;
  const uint32_t offset = row - sequences[i].row_begin;
  return {i, offset, sequences[i].positions + offset};
}

}  // namespace arenite
