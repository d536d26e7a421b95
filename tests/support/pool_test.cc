// SPDX-License-Identifier: Apache-2.0
// The pool keeps the contract of ParallelFor: each task once, and no thread index on two threads.
#include "support/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/malloc_trap.h"

namespace arenite::test {
namespace {

struct Job {
  explicit Job(uint32_t tasks, uint32_t threads) : calls(tasks), inside(threads) {}

  std::vector<std::atomic<uint32_t>> calls;
  std::vector<std::atomic<uint32_t>> inside;
  std::atomic<uint32_t> violations{0};
  std::vector<uint32_t> order;  // reserved by one-threaded runs only
};

void count(void* data, uint32_t task_index, uint32_t thread_index) {
  Job& job = *static_cast<Job*>(data);
  if (job.inside[thread_index].fetch_add(1) != 0) ++job.violations;
  ++job.calls[task_index];
  if (job.order.capacity() != 0) job.order.push_back(task_index);
  job.inside[thread_index].fetch_sub(1);
}

TEST(Pool, RunsEachTaskOnceInEveryOrder) {
  for (const Order order :
       {Order::kConcurrent, Order::kAssigned, Order::kReversed, Order::kShuffled}) {
    for (const uint32_t threads : {1u, 2u, 3u}) {
      Pool pool(threads, order);
      const ParallelFor parallel = pool.parallel_for();
      EXPECT_EQ(parallel.threads, threads);
      for (const uint32_t tasks : {0u, 1u, 2u, 3u, 7u, 8u, 100u}) {
        Job job(tasks, threads);
        {
          const NoHeapScope no_heap;
          parallel.run(parallel.pool, tasks, count, &job);
        }
        EXPECT_EQ(job.violations, 0u);
        for (const std::atomic<uint32_t>& calls : job.calls) EXPECT_EQ(calls, 1u) << tasks;
      }
    }
  }
}

TEST(Pool, RunsTasksBackwardsWhenReversed) {
  Pool pool(2, Order::kReversed);
  Job job(4, 2);
  job.order.reserve(4);
  pool.parallel_for().run(&pool, 4, count, &job);
  EXPECT_EQ(job.order, (std::vector<uint32_t>{3, 2, 1, 0}));
}

TEST(Pool, GivesEveryThreadItsTasksWhenAssigned) {
  struct Owners {
    std::thread::id of[9];
  } owners;
  Pool pool(3, Order::kAssigned);
  const auto note = [](void* data, uint32_t task_index, uint32_t thread_index) {
    EXPECT_EQ(task_index % 3, thread_index);
    static_cast<Owners*>(data)->of[task_index] = std::this_thread::get_id();
  };
  pool.parallel_for().run(&pool, 9, note, &owners);
  for (size_t i = 3; i < 9; ++i) EXPECT_EQ(owners.of[i], owners.of[i % 3]);
  EXPECT_EQ(owners.of[0], std::this_thread::get_id());
  EXPECT_NE(owners.of[0], owners.of[1]);
  EXPECT_NE(owners.of[1], owners.of[2]);
  EXPECT_NE(owners.of[0], owners.of[2]);
}

TEST(Pool, ShufflesDifferentlyEachTime) {
  Pool pool(2, Order::kShuffled);
  std::vector<uint32_t> orders[2];
  for (std::vector<uint32_t>& order : orders) {
    Job job(20, 2);
    job.order.reserve(20);
    pool.parallel_for().run(&pool, 20, count, &job);
    order = job.order;
  }
  EXPECT_NE(orders[0], orders[1]);
}

}  // namespace
}  // namespace arenite::test
