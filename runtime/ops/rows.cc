// SPDX-License-Identifier: Apache-2.0
// Out of line, since most ops need them.
#include "ops/rows.h"

namespace arenite {
namespace {

// The column of the `index`-th 1. REQUIRES: there are more than `index`.
uint32_t visible_column(const uint8_t* visible, uint32_t index) {
  uint32_t column = 0;
  for (uint32_t seen = 0; seen + visible[column] <= index; ++column) seen += visible[column];
  return column;
}

}  // namespace

void run_tasks(const ParallelFor& parallel, uint32_t tasks, ParallelFor::Task task, void* job) {
  if (parallel.run != nullptr && tasks != 1) {
    parallel.run(parallel.pool, tasks, task, job);
    return;
  }
  for (uint32_t i = 0; i < tasks; ++i) task(job, i, 0);
}

void run_rows(const ParallelFor& parallel, uint32_t rows, void (*work)(void* job, uint32_t row),
              void* job) {
  constexpr uint32_t kRowsPerTask = 16;  // enough to be worth a thread's while
  auto task = [&](uint32_t task_index, uint32_t) {
    const uint32_t begin = task_index * kRowsPerTask;
    const uint32_t left = rows - begin;
    const uint32_t end = begin + (left < kRowsPerTask ? left : kRowsPerTask);
    for (uint32_t row = begin; row < end; ++row) work(job, row);
  };
  for_each_task(parallel, div_up(rows, kRowsPerTask), task);
}

RowPlace place_of_row(const StepRows& step, uint32_t row) {
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
  const uint32_t before = step.prefix_of(sequence);
  if (offset < before) return {RowPlace::kNoToken, offset};
  if (step.stride == 0) {
    size_t token = row;
    if constexpr (linked(Need::kPrefix)) {
      for (size_t i = 0; i <= first; ++i) token -= step.prefix_of(step.sequences[i]);
    }
    return {token, sequence.positions + offset};
  }
  offset -= before;
  const size_t begin = first * step.stride;
  if (step.visible != nullptr) offset = visible_column(step.visible + begin, offset);
  return {begin + offset, sequence.positions + before + offset};
}

}  // namespace arenite
