// SPDX-License-Identifier: Apache-2.0
// Tests the trap itself: otherwise a test of "no heap" could pass for the wrong reason.
#include "support/malloc_trap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <thread>

namespace arenite::test {
namespace {

// Keeps the compiler from removing an allocation that nobody uses.
void* escape(void* data) {
  asm volatile("" : "+r"(data) : : "memory");
  return data;
}

class MallocTrap : public testing::Test {
 protected:
  void SetUp() override {
    if (!NoHeapScope::traps_malloc()) GTEST_SKIP() << "this C library's malloc cannot be trapped";
  }
};
using MallocTrapDeathTest = MallocTrap;

TEST_F(MallocTrapDeathTest, EndsTheProcessOnMalloc) {
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        std::free(escape(std::malloc(8)));
      },
      "heap call in a NoHeapScope: malloc");
}

TEST_F(MallocTrapDeathTest, EndsTheProcessOnOperatorNew) {
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        delete static_cast<int*>(escape(new int(1)));
      },
      "heap call in a NoHeapScope");
}

struct alignas(128) Overaligned {
  char bytes[128];
};

TEST_F(MallocTrapDeathTest, EndsTheProcessOnAlignedOperatorNew) {
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        delete static_cast<Overaligned*>(escape(new Overaligned));
      },
      "heap call in a NoHeapScope");
}

TEST_F(MallocTrapDeathTest, EndsTheProcessOnEveryOtherAllocation) {
  void* data = escape(std::malloc(8));
  const char* const message = "heap call in a NoHeapScope";
  const NoHeapScope* scope = nullptr;  // made in the child, which ends before it could be freed
  EXPECT_DEATH((scope = new NoHeapScope, escape(std::calloc(2, 8))), message);
  EXPECT_DEATH((scope = new NoHeapScope, escape(std::realloc(data, 1 << 20))), message);
  EXPECT_DEATH((scope = new NoHeapScope, escape(std::aligned_alloc(64, 64))), message);
  EXPECT_DEATH((scope = new NoHeapScope, posix_memalign(&data, 64, 64)), message);
  EXPECT_EQ(scope, nullptr);
  std::free(data);
}

TEST_F(MallocTrapDeathTest, EndsTheProcessOnFree) {
  void* data = escape(std::malloc(8));
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        std::free(data);
      },
      "heap call in a NoHeapScope: free");
  std::free(data);
}

TEST_F(MallocTrapDeathTest, EndsTheProcessOnAnyThread) {
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        std::thread thread([] {});  // its start allocates
        thread.join();
      },
      "heap call in a NoHeapScope");
}

TEST_F(MallocTrapDeathTest, EndsTheProcessOnMmapAndSbrk) {
  if (!NoHeapScope::traps_mmap()) GTEST_SKIP() << "mmap cannot be trapped in this build";
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        escape(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      },
      "heap call in a NoHeapScope: mmap");
  EXPECT_DEATH(
      {
        const NoHeapScope scope;
        escape(sbrk(4096));
      },
      "heap call in a NoHeapScope: sbrk");
}

TEST_F(MallocTrap, LetsTheHeapBeUsedBeforeAndAfterAScope) {
  auto before = std::make_unique<int>(1);
  {
    const NoHeapScope outer;
    const NoHeapScope inner;
    *before = 2;
  }
  before.reset();
  EXPECT_NE(escape(std::make_unique<int>(3).get()), nullptr);
}

TEST_F(MallocTrap, IgnoresFreeOfNull) {
  const NoHeapScope scope;
  std::free(escape(nullptr));
}

}  // namespace
}  // namespace arenite::test
