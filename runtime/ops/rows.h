// SPDX-License-Identifier: Apache-2.0
// The rows of a step: which sequence each belongs to and its position; how an op divides its work
// on them among the application's threads, and the memory that each thread works in.
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

// Calls task(job, task_index, thread_index) for every task.
void run_tasks(const ParallelFor& parallel, uint32_t tasks, ParallelFor::Task task, void* job);

// The application's threads, held to what parallel.h says of them: a task on a thread for which
// there is no scratch is not run, and where not each task has run once, nothing else runs.
struct CheckedThreads {
  uint32_t threads = 1;
  uint32_t fault = 0;  // kTasksMissing, or a thread that is not below `threads`; 0: none
  void (*run)(void* pool, uint32_t tasks, ParallelFor::Task task, void* job) = nullptr;
  void* pool = nullptr;

  static constexpr uint32_t kTasksMissing = UINT32_MAX;

  static void run_checked(void* checked, uint32_t tasks, ParallelFor::Task task, void* job);
  // What stands where these threads do.
  ParallelFor checked() {
    if (run == nullptr) return {threads, nullptr, nullptr};
    return {threads, run_checked, this};
  }
};

// What a slice counts of an op: a product's multiply-add as 1, and of other work about as much as
// it takes of a CPU without vectors beside that. Of numbers, but for the last two.
inline constexpr uint32_t kCopyWork = 1;
inline constexpr uint32_t kSumWork = 2;        // a row's sum, and other single passes
inline constexpr uint32_t kRoundWork = 8;      // to int8
inline constexpr uint32_t kNormWork = 16;      // several passes, and at most an exponential
inline constexpr uint32_t kFunctionWork = 32;  // of an activation; of a score with all around it
inline constexpr uint32_t kTaskWork = 64;      // of finding what a task is about
inline constexpr uint32_t kOpWork = 1024;      // of finding what an op is about, in each slice

// Runs the tasks of an op that a slice has room for, and goes on after them when the op is called
// again. A slice stands where the application's threads do, as the pool of no threads; tasks are
// then small (pieces_at_once). Whatever an op does beside its tasks it does again in each slice.
struct Slice {
  ParallelFor threads;   // the application's
  uint64_t room = 0;     // for work
  uint32_t done = 0;     // tasks of the op, by slices before and by this one
  uint32_t passed = 0;   // tasks of the op's lists before
  uint32_t work = 0;     // of each task of the next list
  uint32_t op_work = 0;  // kOpWork until a task is run
  uint64_t needs = 0;    // of the task that there was no room for; 0: the op has ended

  // Null: the op is run whole.
  static Slice* of(const ParallelFor& parallel) {
    return parallel.threads == 0 ? static_cast<Slice*>(parallel.pool) : nullptr;
  }
  static void run(void* slice, uint32_t tasks, ParallelFor::Task task, void* job);
  ParallelFor pool() { return {0, run, this}; }
  void begin_op(uint32_t tasks_done);
};

// How many of `most` equal pieces of work are a task: all of them, but in slices as many as come to
// about 8,192 multiply-adds, or one.
uint32_t pieces_of_slice(uint32_t most, uint32_t piece_work);
inline uint32_t pieces_at_once(const ParallelFor& parallel, uint32_t most, uint32_t piece_work) {
  return Slice::of(parallel) == nullptr ? most : pieces_of_slice(most, piece_work);
}

// Calls work(task_index, thread_index) for every task, each of which counts `task_work` at most.
// `work` is a callable that outlives the call.
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

// Memory of an op while it runs, as the arena formula says.
struct ScratchArea {
  std::byte* rows = nullptr;     // for all threads: AxisBytes::scratch for each row of the op
  std::byte* threads = nullptr;  // bytes_per_thread for each thread
  size_t bytes_per_thread = 0;

  std::byte* of(uint32_t thread_index) const { return threads + thread_index * bytes_per_thread; }
  float* floats_of(uint32_t thread_index) const {
    return reinterpret_cast<float*>(of(thread_index));
  }
};

// Splits `rows` into div_up(rows, rows_max) blocks whose sizes differ by at most one: 9 rows with
// kernels of 8 become 5 + 4 rather than 8 + 1, which would read all weights again for one row.
struct RowBlocks {
  uint32_t rows;
  uint32_t count;

  RowBlocks(uint32_t rows_in, uint32_t rows_max)
      : rows(rows_in), count(div_up(rows_in, rows_max)) {}

  // The first ones have a row more.
  uint32_t begin(uint32_t block) const {
    const uint32_t longer = rows % count;
    return rows / count * block + (block < longer ? block : longer);
  }
  uint32_t size(uint32_t block) const { return rows / count + (block < rows % count ? 1 : 0); }
};

// One sequence's share of the rows that an axis has in a step.
struct SequenceRows {
  uint32_t positions = 0;  // before the step; of rows that are asked for, no position
  uint32_t row_begin = 0;  // its rows among those of the step
  uint32_t rows = 0;       // may be 0
  uint32_t written = 0;    // the most positions ever begun since the last reset; for rings
};

// Which keys queries see as well as the mask shows them: of each sequence a byte for each pair of
// its rows, 1 or 0.
struct PairBits {
  const uint8_t* bits = nullptr;  // [queries, keys]; null: all
  size_t rows = 0;                // from sequence to sequence, and keys; 0: as each has rows

  const uint8_t* of_query(uint32_t query) const { return bits + query * rows; }
  bool hides(uint32_t query, uint32_t key) const {
    return bits != nullptr && of_query(query)[key] == 0;
  }
  // Of one sequence among all.
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

// Calls work(job, row) for every row of [0, rows), several in a task.
void run_rows(const ParallelFor& parallel, uint32_t rows, uint32_t row_work,
              void (*work)(void* job, uint32_t row), void* job);

// Calls work(row) for every row of [0, rows), each of which counts `row_work`.
template <typename Work>
void for_each_row(const ParallelFor& parallel, uint32_t rows, uint32_t row_work, Work& work) {
  run_rows(
      parallel, rows, row_work, [](void* job, uint32_t row) { (*static_cast<Work*>(job))(row); },
      &work);
}

// The rows of a step on one axis, and where tokens stand in the caller's memory: those of sequence
// i from i * stride on, or, with stride 0, all of them back to back.
struct StepRows {
  std::span<const SequenceRows> sequences;
  size_t stride = 0;
  const uint8_t* visible = nullptr;  // [sequences, stride]: a row for each 1; null: for the first
  std::span<const Axis> axes = {};   // of the model; `sequences` of all follow each other
  uint32_t axis = 0;                 // the one of these rows
  const uint8_t* outputs = nullptr;  // 1 for each token whose row is asked for; null: the last ones

  std::span<const SequenceRows> on(uint32_t other) const {
    return {sequences.data() + sequences.size() * other - sequences.size() * axis,
            sequences.size()};
  }
};

// Where a row of the step comes from.
struct RowPlace {
  size_t token = 0;       // in the caller's memory, of rows of the input's axis
  uint32_t position = 0;  // in the sequence, on its axis
};

// The sequence that a row belongs to. REQUIRES: there is one.
size_t sequence_of_row(std::span<const SequenceRows> sequences, uint32_t row);

// REQUIRES: the row belongs to a sequence.
RowPlace place_of_row(const StepRows& step, uint32_t row);

// Rows of a second operand: one for each row of the op, or the same for all rows of a sequence. A
// build whose models have no such rows knows that while it compiles.
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
