// SPDX-License-Identifier: Apache-2.0
// Threads claim tasks one by one. A model's step consists of many runs of a few microseconds each,
// so workers spin for a moment before they sleep. A run ends when its tasks are done; it does not
// wait for workers that wake up too late to find a task.
#include "convert/files/thread_pool.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>

#include "convert/files/error.h"
#include "convert/files/output_files.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace arenite::convert {
namespace {

constexpr int kSpins = 1000;  // 10 to 40 microseconds

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(uint32_t threads) {
  // A new thread inherits the signal mask: signals go to the thread that owns the pool.
  const SignalsWait for_ever_in_workers;
  try {
    workers_.reserve(threads - 1);
    for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error& error) {
    const size_t made = workers_.size() + 1;
    stop();
    throw InputError("--threads: found {}, but thread {} cannot be started: {}: at most {}",
                     threads, made + 1, error.code().message(), made);
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  ++round_;
  round_.notify_all();
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
  task_ = task;
  job_ = job;
  tasks_ = tasks;
  done_.store(0, std::memory_order_relaxed);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  unclaimed_.store(uint64_t{round} << 32 | tasks, std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  work(0);
  for (int i = 0; done_.load(std::memory_order_acquire) != tasks; ++i) {
    if (i < kSpins) {
      pause();
    } else {
      std::this_thread::yield();  // the thread with the last task may need this core
    }
  }
}

// The run number in `unclaimed_` keeps a late thread from claiming a task of a newer run: its
// exchange fails, and it looks again.
void ThreadPool::work(uint32_t thread_index) {
  uint64_t unclaimed = unclaimed_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(unclaimed) != 0) {
    if (!unclaimed_.compare_exchange_weak(unclaimed, unclaimed - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      continue;
    }
    task_(job_, tasks_ - static_cast<uint32_t>(unclaimed), thread_index);
    done_.fetch_add(1, std::memory_order_release);
    unclaimed = unclaimed_.load(std::memory_order_acquire);
  }
}

void ThreadPool::serve(uint32_t thread_index) {
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && round_.load(std::memory_order_relaxed) == seen; ++i) pause();
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    work(thread_index);
  }
}

namespace {

constexpr uint32_t kCoresMax = 64;

thread_local bool is_working = false;  // on a task of on_all_cores

struct Work {
  const std::function<void(uint32_t)>& call;
  std::mutex mutex{};
  std::exception_ptr failure{};

  static void run(void* data, uint32_t task, uint32_t) {
    Work& work = *static_cast<Work*>(data);
    is_working = true;
    try {
      work.call(task);
    } catch (...) {
      const std::lock_guard lock(work.mutex);
      work.failure = std::current_exception();
    }
    is_working = false;
  }
};

}  // namespace

ParallelFor all_cores() {
  static const std::unique_ptr<ThreadPool> pool = [] {
    try {
      return std::make_unique<ThreadPool>(
          std::clamp(std::thread::hardware_concurrency(), 1u, kCoresMax));
    } catch (const InputError&) {  // nobody asked for these threads, and results need none
      return std::make_unique<ThreadPool>(1);
    }
  }();
  return pool->parallel_for();
}

void on_all_cores(uint32_t count, const std::function<void(uint32_t index)>& work) {
  const ParallelFor cores = all_cores();
  if (cores.run == nullptr || count < 2 || is_working) {
    for (uint32_t i = 0; i < count; ++i) work(i);
    return;
  }
  Work all{work};
  cores.run(cores.pool, count, Work::run, &all);
  if (all.failure) std::rethrow_exception(all.failure);
}

}  // namespace arenite::convert
