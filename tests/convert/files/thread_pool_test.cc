// SPDX-License-Identifier: Apache-2.0
// Tests of the pool that the program lends to the runtime.
#include "convert/files/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <vector>

namespace arenite::convert {
namespace {

struct Job {
  std::vector<std::atomic<uint32_t>> calls;
  std::vector<std::atomic<uint32_t>> inside;  // threads that work under one index
  std::atomic<bool> shared{false};
};

void count(void* data, uint32_t task, uint32_t thread) {
  Job& job = *static_cast<Job*>(data);
  if (job.inside[thread].fetch_add(1) != 0) job.shared = true;
  ++job.calls[task];
  job.inside[thread].fetch_sub(1);
}

TEST(ThreadPool, DoesEachTaskOnceWithAnIndexOfItsOwnForEachThread) {
  for (const uint32_t threads : {2u, 5u}) {
    ThreadPool pool(threads);
    const ParallelFor parallel = pool.parallel_for();
    ASSERT_EQ(parallel.threads, threads);
    for (uint32_t round = 0; round < 2000; ++round) {
      const uint32_t tasks = 1 + round % 7;
      Job job{std::vector<std::atomic<uint32_t>>(tasks),
              std::vector<std::atomic<uint32_t>>(threads)};
      parallel.run(parallel.pool, tasks, count, &job);
      for (const std::atomic<uint32_t>& calls : job.calls) ASSERT_EQ(calls, 1u) << round;
      ASSERT_FALSE(job.shared);
      // Long enough for the workers to fall asleep, now and then.
      if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

TEST(ThreadPool, RunsInlineOnOneThread) {
  ThreadPool pool(1);
  EXPECT_EQ(pool.parallel_for().threads, 1u);
  EXPECT_EQ(pool.parallel_for().run, nullptr);
}

TEST(OnAllCores, DoesEachTaskOnceAlsoWithinATask) {
  std::vector<std::atomic<int>> done(12);
  on_all_cores(3, [&](uint32_t task) {
    on_all_cores(4, [&](uint32_t inner) { ++done[4 * task + inner]; });
  });
  for (const auto& count : done) EXPECT_EQ(count, 1);
}

TEST(OnAllCores, RethrowsWhatATaskThrows) {
  const auto fails = [](uint32_t task) {
    if (task == 2) throw std::runtime_error("task 2");
  };
  EXPECT_THROW(on_all_cores(4, fails), std::runtime_error);
  EXPECT_NO_THROW(on_all_cores(2, fails));
}

}  // namespace
}  // namespace arenite::convert
