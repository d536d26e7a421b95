// SPDX-License-Identifier: Apache-2.0
// Tests that frozen memory faults on writes, and that other memory does not.
#include "support/frozen_memory.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "support/guarded_buffer.h"

namespace arenite::test {
namespace {

volatile int global = 1;
thread_local volatile int of_the_thread = 1;

class FrozenMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_freeze_memory()) GTEST_SKIP() << "this build writes to memory of its own";
  }

  const GuardedBuffer memory_{5000, 64};
  const GuardedBuffer other_{5000, 64};

  // Ends as a write to `*to` does while memory_ alone can be written.
  [[noreturn]] void write_to(volatile void* to) const {
    call_frozen({memory_.span()}, [&] {
      *static_cast<volatile char*>(to) = 2;
      return *static_cast<volatile char*>(to) == 2;
    });
  }
};
using FrozenMemoryDeathTest = FrozenMemory;

TEST_F(FrozenMemoryDeathTest, EndsTheProcessAtAWriteToAnythingElse) {
  std::vector<char> heap(100);
  std::vector<char> large(1 << 20);
  volatile char stack[3 * 65536] = {};  // its upper end is not on the page of a frame below
  volatile void* const places[] = {&global,
                                   const_cast<int*>(&of_the_thread),
                                   heap.data(),
                                   large.data() + 70000,
                                   &stack[sizeof(stack) - 1],
                                   other_.data()};
  for (volatile void* const place : places) {
    EXPECT_EXIT(write_to(place), testing::KilledBySignal(SIGSEGV), "") << place;
  }
}

TEST_F(FrozenMemoryDeathTest, AllowsWritesToNamedMemory) {
  for (const size_t at : {size_t{0}, memory_.size() - 1}) {
    EXPECT_EXIT(write_to(memory_.data() + at), testing::ExitedWithCode(0), "");
  }
}

TEST_F(FrozenMemoryDeathTest, ReturnsTheResultOfTheCall) {
  EXPECT_EXIT(call_frozen({}, [] { return global == 1; }), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(call_frozen({}, [] { return global == 2; }), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace arenite::test
