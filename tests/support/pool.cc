// SPDX-License-Identifier: Apache-2.0
// Workers sleep between runs. Workers that claim one task at a time vary the schedule most. Workers
// with assigned tasks show a race detector every pair of threads, however few CPUs there are.
#include "support/pool.h"

#include <numeric>

namespace arenite::test {
namespace {

// An odd number that shares no factor with `tasks`: multiples of it visit every task once.
uint32_t stride_for(uint32_t tasks, uint64_t seed) {
  uint32_t stride = static_cast<uint32_t>(seed * 2654435761u % tasks) | 1u;
  while (std::gcd(stride, tasks) != 1) stride += 2;
  return stride;
}

}  // namespace

Pool::Pool(uint32_t threads, Order order) : threads_(threads), order_(order) {
  if (!has_workers()) return;
  for (uint32_t i = 1; i < threads_; ++i) {
    workers_.emplace_back([this, i] { work_until_stopped(i); });
  }
  // A thread that starts may use the heap: not during a run.
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return started_ == workers_.size(); });
}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ParallelFor Pool::parallel_for() {
  const auto call = [](void* pool, uint32_t tasks, ParallelFor::Task task, void* job) {
    static_cast<Pool*>(pool)->run(tasks, task, job);
  };
  return {threads_, call, this};
}

void Pool::run(uint32_t tasks, ParallelFor::Task task, void* job) {
  if (!has_workers()) {
    run_in_order(tasks, task, job);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    tasks_ = tasks;
    task_ = task;
    job_ = job;
    next_ = 0;
    busy_ = threads_ - 1;
    ++runs_;
  }
  wake_.notify_all();
  do_tasks(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void Pool::run_in_order(uint32_t tasks, ParallelFor::Task task, void* job) {
  if (tasks == 0) return;
  ++runs_;
  const uint64_t stride = stride_for(tasks, runs_);
  for (uint32_t i = 0; i < tasks; ++i) {
    const uint64_t shuffled = (i * stride + runs_) % tasks;
    task(job, order_ == Order::kReversed ? tasks - 1 - i : static_cast<uint32_t>(shuffled),
         i % threads_);
  }
}

void Pool::work_until_stopped(uint32_t thread_index) {
  uint64_t seen = 0;
  {
    const std::lock_guard lock(mutex_);
    ++started_;
    done_.notify_one();
  }
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopped_ || runs_ != seen; });
      if (stopped_) return;
      seen = runs_;
    }
    do_tasks(thread_index);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void Pool::do_tasks(uint32_t thread_index) {
  if (order_ == Order::kAssigned) {
    for (uint32_t i = thread_index; i < tasks_; i += threads_) task_(job_, i, thread_index);
    return;
  }
  for (uint32_t i = next_.fetch_add(1); i < tasks_; i = next_.fetch_add(1)) {
    task_(job_, i, thread_index);
  }
}

}  // namespace arenite::test
