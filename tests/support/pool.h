// SPDX-License-Identifier: Apache-2.0
// Threads for the runtime in tests, with schedules that are rare on a real machine.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "arenite/parallel.h"

namespace arenite::test {

enum class Order {
  kConcurrent,  // on `threads` threads, the caller's included, each taking the next task
  kAssigned,    // on as many, task i on thread i modulo `threads`: each of them has work to do
  kReversed,    // on the caller's thread, last task first
  kShuffled,    // on the caller's thread, in an order that is different in each run
};

// Runs tasks on its own threads or in its own order. The one-threaded orders also go round the
// thread indices, so that a task cannot count on what another left in its scratch. Uses no heap in
// a run. One run at a time.
class Pool {
 public:
  explicit Pool(uint32_t threads, Order order = Order::kConcurrent);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Points to this pool, which must outlive its use.
  ParallelFor parallel_for();

 private:
  void run(uint32_t tasks, ParallelFor::Task task, void* job);
  void run_in_order(uint32_t tasks, ParallelFor::Task task, void* job);
  bool has_workers() const { return order_ == Order::kConcurrent || order_ == Order::kAssigned; }
  void work_until_stopped(uint32_t thread_index);
  void do_tasks(uint32_t thread_index);

  const uint32_t threads_;
  const Order order_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  uint32_t started_ = 0;  // guarded by mutex_
  uint64_t runs_ = 0;     // guarded by mutex_
  uint32_t busy_ = 0;     // guarded by mutex_; workers that have not finished this run
  bool stopped_ = false;  // guarded by mutex_

  // The run in progress; written while no worker is busy.
  uint32_t tasks_ = 0;
  ParallelFor::Task task_ = nullptr;
  void* job_ = nullptr;
  std::atomic<uint32_t> next_{0};
};

}  // namespace arenite::test
