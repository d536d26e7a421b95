// SPDX-License-Identifier: Apache-2.0
// Rows of a step: the sequence and position of each; how an op splits its work on them into tasks
// for the application's threads; and the scratch of each thread. For example, two sequences with 7
// and 0 positions that get 2 and 3 tokens:
//   {positions 7, row_begin 0, rows 2}: rows 0, 1 of each matrix are positions 7, 8 of sequence 0
//   {positions 0, row_begin 2, rows 3}: rows 2, 3, 4 are positions 0, 1, 2 of sequence 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "arenite/arena_formula.h"
#include "arenite/checked_math.h"
#include "arenite/parallel.h"
#include "core/needs.h"
#include "core/views.h"

namespace arenite {

// Calls task(job, task_index, thread_index) for every task; in a slice, for the tasks that fit.
void run_tasks(const ParallelFor& parallel, uint32_t tasks, ParallelFor::Task task, void* job);

// Wraps the application's pool and enforces the contract of parallel.h. A task on a thread without
// scratch is not run. If any task has not run exactly once, `fault` is set and nothing else runs.
struct CheckedThreads {
  uint32_t threads = 1;
  uint32_t fault = 0;  // 0: none; kTasksMissing; else the thread index that is out of range
  void (*run)(void* pool, uint32_t tasks, ParallelFor::Task task, void* job) = nullptr;
  void* pool = nullptr;

  static constexpr uint32_t kTasksMissing = UINT32_MAX;

  static void run_checked(void* checked, uint32_t tasks, ParallelFor::Task task, void* job);
  // Returns the pool that ops get in place of the application's.
  ParallelFor checked() {
    if (run == nullptr) return {threads, nullptr, nullptr};
    return {threads, run_checked, this};
  }
};

// Units of work that a slice counts, per element except for the last two. A multiply-add of a
// product is 1; other work is weighted by its relative time on a CPU without vectors.
inline constexpr uint32_t kCopyWork = 1;
inline constexpr uint32_t kSumWork = 2;        // a sum of a row, or another single pass
inline constexpr uint32_t kRoundWork = 8;      // rounding to int8
inline constexpr uint32_t kNormWork = 16;      // several passes, and at most one exponential
inline constexpr uint32_t kFunctionWork = 32;  // an activation; a score and all work around it
inline constexpr uint32_t kTaskWork = 64;      // per task: finding its rows and columns
inline constexpr uint32_t kOpWork = 1024;      // per op and slice: finding its operands

// Runs the tasks of an op that a slice has room for, and resumes after them when the op is called
// again. A slice is passed as a pool of 0 threads in place of the application's; its tasks are
// small (pieces_at_once). An op repeats its work outside of tasks in each slice.
struct Slice {
  ParallelFor threads;   // the application's
  uint64_t room = 0;     // units of work that are left
  uint32_t done = 0;     // tasks of the op that earlier slices and this one have run
  uint32_t passed = 0;   // tasks in earlier task lists of the op
  uint32_t work = 0;     // units of work of each task of the next list, at most
  uint32_t op_work = 0;  // kOpWork until the slice runs a task of the op
  uint64_t needs = 0;    // units of work of the first task without room; 0: the op has ended

  // Returns the slice that `parallel` stands for; null: the op runs whole.
  static Slice* of(const ParallelFor& parallel) {
    return parallel.threads == 0 ? static_cast<Slice*>(parallel.pool) : nullptr;
  }
  static void run(void* slice, uint32_t tasks, ParallelFor::Task task, void* job);
  ParallelFor pool() { return {0, run, this}; }
  void begin_op(uint32_t tasks_done);
};

// Returns how many of `most` equal pieces of work form one task: in a slice as many as come to
// about 8,192 multiply-adds, but at least one; otherwise all of them.
uint32_t pieces_of_slice(uint32_t most, uint32_t piece_work);
inline uint32_t pieces_at_once(const ParallelFor& parallel, uint32_t most, uint32_t piece_work) {
  return Slice::of(parallel) == nullptr ? most : pieces_of_slice(most, piece_work);
}

// Calls work(task_index, thread_index) for every task, each of at most `task_work` units. `work`
// must outlive the call.
template <typename Work>
void for_each_task(const ParallelFor& parallel, uint32_t tasks, uint32_t task_work, Work& work) {
  if (Slice* const slice = Slice::of(parallel)) slice->work = task_work;
  run_tasks(
      parallel, tasks,
      [](void* job, uint32_t task_index, uint32_t thread_index) {
        (*static_cast<Work*>(job))(task_index, thread_index);
      },
      &work);
}

// The scratch of an op while it runs, sized by the arena formula; not owned.
struct ScratchArea {
  std::byte* rows = nullptr;     // shared by all threads: AxisBytes::scratch for each row of the op
  std::byte* threads = nullptr;  // bytes_per_thread for each thread
  size_t bytes_per_thread = 0;

  std::byte* of(uint32_t thread_index) const { return threads + thread_index * bytes_per_thread; }
  float* floats_of(uint32_t thread_index) const {
    return reinterpret_cast<float*>(of(thread_index));
  }
};

// Splits `rows` into div_up(rows, rows_max) blocks whose sizes differ by at most one, larger ones
// first: with kernels for 8 rows, 9 rows become 5 + 4. A block of 1 would read all weights for one
// row.
struct RowBlocks {
  uint32_t rows;
  uint32_t count;

  RowBlocks(uint32_t rows_in, uint32_t rows_max)
      : rows(rows_in), count(div_up(rows_in, rows_max)) {}

  uint32_t begin(uint32_t block) const {
    const uint32_t longer = rows % count;
    return rows / count * block + (block < longer ? block : longer);
  }
  uint32_t size(uint32_t block) const { return rows / count + (block < rows % count ? 1 : 0); }
};

// The rows of one sequence on one axis in a step.
struct SequenceRows {
  uint32_t positions = 0;  // held before the step; meaningless for requested rows
  uint32_t row_begin = 0;  // index of its first row in the step
  uint32_t rows = 0;       // may be 0
  uint32_t written = 0;    // most positions that steps began since it was empty; for rings
};

// Pair mask of the call, in addition to the model's mask: for each sequence a byte for each pair of
// its rows, 1 if the query sees the key, else 0. Not owned.
struct PairBits {
  const uint8_t* bits = nullptr;  // [queries, keys]; null: all keys are visible
  size_t rows = 0;  // queries, and keys, of each sequence; 0: as many as it has rows, back to back

  const uint8_t* of_query(uint32_t query) const { return bits + query * rows; }
  bool hides(uint32_t query, uint32_t key) const {
    return bits != nullptr && of_query(query)[key] == 0;
  }
  // Returns the pairs of sequence `index`.
  PairBits of(std::span<const SequenceRows> sequences, uint32_t index) const {
    if (bits == nullptr) return {};
    if (rows != 0) return {bits + index * rows * rows, rows};
    size_t begin = 0;
    for (const SequenceRows& before : sequences.first(index)) {
      begin += size_t{before.rows} * before.rows;
    }
    return {bits + begin, sequences[index].rows};
  }
};
struct NoPairBits {
  static constexpr const uint8_t* bits = nullptr;

  constexpr NoPairBits(const uint8_t* = nullptr, size_t = 0) {}  // NOLINT: implicit, as a pointer
  constexpr operator const uint8_t*() const { return nullptr; }
  static constexpr const uint8_t* of_query(uint32_t) { return nullptr; }
  static constexpr bool hides(uint32_t, uint32_t) { return false; }
  NoPairBits of(std::span<const SequenceRows>, uint32_t) const { return {}; }
};
using LinkedPairBits = std::conditional_t<linked(Need::kPairMask), PairBits, NoPairBits>;
using LinkedPairs = std::conditional_t<linked(Need::kPairMask), const uint8_t*, NoPairBits>;

// Calls work(job, row) for every row of [0, rows), with several rows in a task.
void run_rows(const ParallelFor& parallel, uint32_t rows, uint32_t row_work,
              void (*work)(void* job, uint32_t row), void* job);

// Calls work(row) for every row of [0, rows), each of `row_work` units.
template <typename Work>
void for_each_row(const ParallelFor& parallel, uint32_t rows, uint32_t row_work, Work& work) {
  run_rows(
      parallel, rows, row_work, [](void* job, uint32_t row) { (*static_cast<Work*>(job))(row); },
      &work);
}

// The rows of a step on one axis, and the location of their tokens in the caller's memory: sequence
// i begins at token i * stride or, if stride is 0, right after the previous sequence.
struct StepRows {
  std::span<const SequenceRows> sequences;
  size_t stride = 0;
  const uint8_t* visible = nullptr;  // [sequences, stride]: 1 for a row; null: the first tokens
  std::span<const Axis> axes = {};   // all axes of the model, whose `sequences` are back to back
  uint32_t axis = 0;                 // the one of these rows
  const uint8_t* outputs = nullptr;  // 1 for each token whose row is requested; null: the last ones

  std::span<const SequenceRows> on(uint32_t other) const {
    return {sequences.data() + sequences.size() * other - sequences.size() * axis,
            sequences.size()};
  }
};

// The token and the position of a row.
struct RowPlace {
  size_t token = 0;       // index in the caller's memory, for rows of an input's axis
  uint32_t position = 0;  // in the sequence, on its axis
};

// Returns the index of the sequence that `row` belongs to. REQUIRES: there is such a sequence.
size_t sequence_of_row(std::span<const SequenceRows> sequences, uint32_t row);

// REQUIRES: the row belongs to a sequence.
RowPlace place_of_row(const StepRows& step, uint32_t row);

// Rows of an op's second operand: one for each row of the op, or one broadcast to all rows of a
// sequence. Builds whose models have no such broadcast use the specialization without it.
template <bool kIsLinked>
struct RowsOfOther : ConstMatrix {
  std::span<const SequenceRows> op_rows = {};
  std::span<const SequenceRows> own_rows = {};  // one for each sequence; empty: as many as op_rows

  RowsOfOther(const ConstMatrix& matrix = {}) : ConstMatrix(matrix) {}  // NOLINT: implicit
  RowsOfOther(const ConstMatrix& matrix, std::span<const SequenceRows> of_op,
              std::span<const SequenceRows> own)
      : ConstMatrix(matrix), op_rows(of_op), own_rows(own) {}
  const float* row(uint32_t index) const;
};
template <>
const float* RowsOfOther<true>::row(uint32_t index) const;

template <>
struct RowsOfOther<false> : ConstMatrix {
  RowsOfOther(const ConstMatrix& matrix = {}, std::span<const SequenceRows> = {},  // NOLINT
              std::span<const SequenceRows> = {})
      : ConstMatrix(matrix) {}
};

using OtherRows = RowsOfOther<kPoolsLinked>;

}  // namespace arenite
