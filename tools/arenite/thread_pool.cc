// SPDX-License-Identifier: Apache-2.0
// Workers take tasks one by one. Between runs they spin for a moment, then sleep: a step of a model
// is many short runs.
#include "arenite/thread_pool.h"

namespace arenite::tool {
namespace {

constexpr int kSpins = 2000;

}  // namespace

ThreadPool::ThreadPool(uint32_t threads) {
  for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ParallelFor ThreadPool::parallel_for() {
  ParallelFor parallel;
  parallel.threads = static_cast<uint32_t>(workers_.size()) + 1;
  if (workers_.empty()) return parallel;
  parallel.pool = this;
  parallel.run = [](void* pool, uint32_t tasks, ParallelFor::Task task, void* job) {
    static_cast<ThreadPool*>(pool)->run(tasks, task, job);
  };
  return parallel;
}

void ThreadPool::run(uint32_t tasks, ParallelFor::Task task, void* job) {
  {
    const std::lock_guard lock(mutex_);
    task_ = task;
    job_ = job;
    tasks_ = tasks;
    next_ = 0;
    busy_ = static_cast<uint32_t>(workers_.size());
    ++round_;
  }
  wake_.notify_all();
  work(0);
  while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

void ThreadPool::work(uint32_t thread_index) {
  for (uint32_t i = next_++; i < tasks_; i = next_++) task_(job_, i, thread_index);
}

void ThreadPool::serve(uint32_t thread_index) {
  uint64_t seen = 0;
  while (true) {
    std::unique_lock lock(mutex_);
    for (int i = 0; i < kSpins && round_ == seen && !stop_; ++i) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    wake_.wait(lock, [&] { return round_ != seen || stop_; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    work(thread_index);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace arenite::tool
