// SPDX-License-Identifier: Apache-2.0
// A small thread pool for the runtime's ParallelFor, and the one that conversions use.
//
//   on_all_cores(matrices.size(), [&](uint32_t index) { round(matrices[index]); });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "arenite/parallel.h"

namespace arenite::convert {

class ThreadPool {
 public:
  // `threads` includes the calling one. Throws InputError if they cannot be started. REQUIRES:
  // threads >= 1.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Valid as long as the pool. With one thread, work runs inline.
  ParallelFor parallel_for();

 private:
  void stop();
  void run(uint32_t tasks, ParallelFor::Task task, void* job);
  void work(uint32_t thread_index);
  void serve(uint32_t thread_index);

  std::vector<std::thread> workers_;
  std::atomic<uint32_t> round_{0};  // incremented for each run; workers wait for it
  std::atomic<bool> stop_{false};

  // The current run. Fixed until all its tasks are done, so a thread with a task may read it.
  ParallelFor::Task task_ = nullptr;
  void* job_ = nullptr;
  uint32_t tasks_ = 0;
  alignas(64) std::atomic<uint64_t> unclaimed_{0};  // run number << 32 | tasks left
  alignas(64) std::atomic<uint32_t> done_{0};       // tasks finished
};

// The threads of conversions: one per CPU that this process may use, started at the first call; the
// calling one alone where no more can be started.
// REQUIRES: one caller at a time.
ParallelFor all_cores();

// Calls work(index) for every index below `count`, in any order on all_cores(), and waits. Rethrows
// an exception of `work`, if there is one. A call within `work` runs inline.
void on_all_cores(uint32_t count, const std::function<void(uint32_t index)>& work);

}  // namespace arenite::convert
