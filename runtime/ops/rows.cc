// SPDX-License-Identifier: Apache-2.0
// Task lists and row look-ups. They are out of line, since most ops call them.
#include "ops/rows.h"

#include <algorithm>
#include <atomic>

namespace arenite {
namespace {

// Returns the column of the 1 at `index` among all ones. REQUIRES: there are more than `index`.
uint32_t visible_column(const uint8_t* visible, uint32_t index) {
  uint32_t column = 0;
  for (uint32_t seen = 0; seen + visible[column] <= index; ++column) seen += visible[column];
  return column;
}

}  // namespace

void run_tasks(const ParallelFor& parallel, uint32_t tasks, ParallelFor::Task task, void* job) {
  if (parallel.run != nullptr && (tasks != 1 || Slice::of(parallel) != nullptr)) {
    parallel.run(parallel.pool, tasks, task, job);
    return;
  }
  for (uint32_t i = 0; i < tasks; ++i) task(job, i, 0);
}

void CheckedThreads::run_checked(void* checked, uint32_t tasks, ParallelFor::Task task, void* job) {
  // All threads share a sum. CPUs without atomic additions have few cores, each with its own sum.
  constexpr bool kIsShared = std::atomic<uint32_t>::is_always_lock_free;
  constexpr uint32_t kSums = kIsShared ? 1 : 8;
  struct Tasks {
    CheckedThreads& own;
    uint32_t count;
    ParallelFor::Task task;
    void* job;
    uint32_t sums[kSums] = {};

    // Not linear in the index, so that no two marks have the sum of two others.
    static uint32_t mark_of(uint32_t index) {
      const uint32_t mark = (index + 1) * 0x9E3779B1u;
      return mark ^ mark >> 15;
    }
    void run(uint32_t index, uint32_t thread) {
      if (thread >= own.threads) return __atomic_store_n(&own.fault, thread, __ATOMIC_RELAXED);
      if (index >= count) return;
      task(job, index, thread);
      uint32_t& sum = sums[thread % kSums];
      if constexpr (kIsShared) {
        __atomic_fetch_add(&sum, mark_of(index), __ATOMIC_RELAXED);
      } else {
        sum += mark_of(index);
      }
    }
  };
  CheckedThreads& own = *static_cast<CheckedThreads*>(checked);
  if (own.fault != 0) return;
  Tasks all = {own, tasks, task, job};
  own.run(
      own.pool, tasks,
      [](void* of, uint32_t index, uint32_t thread) {
        static_cast<Tasks*>(of)->run(index, thread);
      },
      &all);
  uint32_t missing = 0;
  for (const uint32_t sum : all.sums) missing -= sum;
  for (uint32_t i = 0; i < tasks; ++i) missing += Tasks::mark_of(i);
  if (missing != 0 && own.fault == 0) own.fault = kTasksMissing;
}

void Slice::begin_op(uint32_t tasks_done) {
  done = tasks_done;
  passed = 0;
  op_work = kOpWork;
  needs = 0;
}

void Slice::run(void* pool, uint32_t tasks, ParallelFor::Task task, void* job) {
  Slice& slice = *static_cast<Slice*>(pool);
  if (slice.needs != 0) return;
  // Earlier task lists have ended, as `needs` is 0.
  const uint32_t first = std::min(slice.done - slice.passed, tasks);
  slice.passed += tasks;
  uint32_t end = first;
  for (; end != tasks; ++end) {
    const uint64_t needs = uint64_t{slice.work} + kTaskWork + slice.op_work;
    if (needs > slice.room) {
      slice.needs = needs;
      break;
    }
    slice.room -= needs;
    slice.op_work = 0;
  }
  slice.done += end - first;
  if (end == first) return;
  struct Part {
    ParallelFor::Task task;
    void* job;
    uint32_t first;
  } part = {task, job, first};
  run_tasks(
      slice.threads, end - first,
      [](void* of, uint32_t index, uint32_t thread_index) {
        const Part& own = *static_cast<const Part*>(of);
        own.task(own.job, own.first + index, thread_index);
      },
      &part);
}

uint32_t pieces_of_slice(uint32_t most, uint32_t piece_work) {
  constexpr uint32_t kSliceWork = 8192;
  const uint32_t pieces = kSliceWork / std::max(piece_work, uint32_t{1});
  return std::max(std::min(pieces, most), uint32_t{1});
}

void run_rows(const ParallelFor& parallel, uint32_t rows, uint32_t row_work,
              void (*work)(void* job, uint32_t row), void* job) {
  if (parallel.run == nullptr) {
    for (uint32_t row = 0; row < rows; ++row) work(job, row);
    return;
  }
  constexpr uint32_t kRowsPerTask = 16;  // enough to pay for a thread
  const uint32_t rows_per_task = pieces_at_once(parallel, kRowsPerTask, row_work);
  auto task = [&](uint32_t task_index, uint32_t) {
    const uint32_t begin = task_index * rows_per_task;
    const uint32_t left = rows - begin;
    const uint32_t end = begin + (left < rows_per_task ? left : rows_per_task);
    for (uint32_t row = begin; row < end; ++row) work(job, row);
  };
  const uint32_t tasks = rows <= rows_per_task ? rows != 0 : div_up(rows, rows_per_task);
  for_each_task(parallel, tasks, rows_per_task * row_work, task);
}

size_t sequence_of_row(std::span<const SequenceRows> sequences, uint32_t row) {
  // Finds the last sequence that begins at or before the row; an empty sequence begins where the
  // next one does.
  size_t first = 0;
  for (size_t count = sequences.size(); count > 1;) {
    const size_t half = count / 2;
    if (sequences[first + half].row_begin <= row) first += half;
    count -= half;
  }
  return first;
}

RowPlace place_of_row(const StepRows& step, uint32_t row) {
  const size_t index = sequence_of_row(step.sequences, row);
  const SequenceRows* own = &step.sequences[index];
  uint32_t offset = row - own->row_begin;
  uint32_t before = 0;  // positions of the axes that are concatenated before the row's own
  if constexpr (kAxesLinked) {
    uint32_t axis = step.axis;
    while (axis != 0 && step.axes[axis].kind == AxisKind::kJoined) {
      const SequenceRows& first = step.on(step.axes[axis].source)[index];
      const bool is_first = offset < first.rows;
      axis = is_first ? step.axes[axis].source : step.axes[axis].other;
      if (is_first) continue;
      offset -= first.rows;
      before += first.positions + first.rows;
    }
    own = &step.on(axis)[index];
    const bool is_of_input =
        axis == 0 || (kFunctionsLinked && step.axes[axis].kind == AxisKind::kInput);
    if (!is_of_input) return {0, before + own->positions + offset};
  }
  if (step.stride == 0) return {own->row_begin + offset, before + own->positions + offset};
  const size_t begin = index * step.stride;
  if (step.visible != nullptr) offset = visible_column(step.visible + begin, offset);
  return {begin + offset, before + own->positions + offset};
}

template <>
const float* RowsOfOther<true>::row(uint32_t index) const {
  if (own_rows.empty()) return ConstMatrix::row(index);
  return ConstMatrix::row(own_rows[sequence_of_row(op_rows, index)].row_begin);
}

}  // namespace arenite
