// SPDX-License-Identifier: Apache-2.0
// Lends the application's threads to the runtime, which starts none of its own:
//
//     SessionOptions options;
//     options.parallel = {pool.size(), run_on_pool, &pool};  // run_on_pool(pool, tasks, task, job)
//
#pragma once

#include <cstdint>

namespace arenite {

// The application's threads. `run` calls task(job, i, thread) once for every i below `tasks`, in
// any order and on any thread, and returns when all are done. `thread` is below `threads`, and no
// two threads use the same value at once. A call of a session fails with kInvalidArgument if some
// task did not run exactly once, or if `thread` is out of range. Results are bit-identical for any
// pool.
struct ParallelFor {
  // Runs one task of a job.
  using Task = void (*)(void* job, uint32_t task_index, uint32_t thread_index);
  uint32_t threads = 1;  // from 1 to 1024, each with scratch of its own in the arena
  // Null: tasks run on the calling thread, and `threads` must be 1.
  void (*run)(void* pool, uint32_t tasks, Task task, void* job) = nullptr;
  void* pool = nullptr;  // passed to `run` as it is; it must outlive the session
};

}  // namespace arenite
