// SPDX-License-Identifier: Apache-2.0
// Runs the tasks of an op on the application's threads, or inline without any, and hands out the
// memory that they work in.
#pragma once

#include <cstddef>

#include "arenite/parallel.h"

namespace arenite {

// Calls work(task_index, thread_index) for every task. `work` is a callable that outlives the call.
template <typename Work>
void for_each_task(const ParallelFor& parallel, uint32_t tasks, Work& work) {
  if (parallel.run == nullptr || tasks == 1) {
    for (uint32_t i = 0; i < tasks; ++i) work(i, 0);
    return;
  }
  parallel.run(
      parallel.pool, tasks,
      [](void* job, uint32_t task_index, uint32_t thread_index) {
        (*static_cast<Work*>(job))(task_index, thread_index);
      },
      &work);
}

// Memory of an op while it runs, as the arena formula says.
struct ScratchArea {
  std::byte* rows = nullptr;  // scratch_bytes_per_token for each token of a call, for all threads
  std::byte* threads = nullptr;  // bytes_per_thread for each thread
  size_t bytes_per_thread = 0;

  float* floats_of(uint32_t thread_index) const {
    return reinterpret_cast<float*>(threads + thread_index * bytes_per_thread);
  }
};

// Splits `rows` into div_up(rows, rows_max) blocks whose sizes differ by at most one: 9 rows with
// kernels of 8 become 5 + 4 rather than 8 + 1, which would read all weights again for one row.
struct RowBlocks {
  uint32_t rows;
  uint32_t count;

  RowBlocks(uint32_t rows_in, uint32_t rows_max)
      : rows(rows_in), count(rows_in / rows_max + (rows_in % rows_max != 0 ? 1 : 0)) {}

  uint32_t begin(uint32_t block) const {
    return static_cast<uint32_t>(uint64_t{rows} * block / count);
  }
  uint32_t size(uint32_t block) const { return begin(block + 1) - begin(block); }
};

}  // namespace arenite
