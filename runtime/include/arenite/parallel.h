// SPDX-License-Identifier: Apache-2.0
// How an application lends its threads to the runtime.
#pragma once

#include <cstdint>

namespace arenite {

// The application's threads. `run` calls task(job, i, thread) once for every i below `tasks`, in
// any order and on any thread, with `thread` below `threads` and never the same on two threads at
// once, and returns when all are done; a call whose tasks were run otherwise fails. Results are
// bit-identical for any pool.
struct ParallelFor {
  using Task = void (*)(void* job, uint32_t task_index, uint32_t thread_index);
  uint32_t threads = 1;
  // Null: tasks run inline, on the one thread that `threads` must then be.
  void (*run)(void* pool, uint32_t tasks, Task task, void* job) = nullptr;
  void* pool = nullptr;
};

}  // namespace arenite
