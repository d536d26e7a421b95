// SPDX-License-Identifier: Apache-2.0
// How an application lends its threads to the runtime.
#pragma once

#include <cstdint>

namespace arenite {

// The application's threads. `run` calls task(job, i, thread) once for every i below `tasks`, in
// any order and on any thread, and returns when all are done. `thread` is below `threads`, and no
// two threads use the same value at once. A call fails if some task did not run exactly once.
// Results are bit-identical for any pool.
struct ParallelFor {
  using Task = void (*)(void* job, uint32_t task_index, uint32_t thread_index);
  uint32_t threads = 1;
  // Null: tasks run on the calling thread, and `threads` must be 1.
  void (*run)(void* pool, uint32_t tasks, Task task, void* job) = nullptr;
  void* pool = nullptr;
};

}  // namespace arenite
