// SPDX-License-Identifier: Apache-2.0
// Accesses before and after a guarded buffer end the process; accesses inside do not.
#include "support/guarded_buffer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <cstdint>

namespace arenite::test {
namespace {

// The signal of a bad access, or the exit of a sanitizer that caught it.
bool faulted(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS;
  return WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

TEST(GuardedBufferDeathTest, FaultsWhenReadBeyondItsEnd) {
  const GuardedBuffer buffer(100);
  volatile std::byte* data = buffer.data();
  [[maybe_unused]] std::byte read = data[99];
  EXPECT_EXIT(read = data[100], faulted, "");
}

TEST(GuardedBufferDeathTest, FaultsWhenReadBeyondItsSlack) {
  const GuardedBuffer buffer(100, 4, 16);
  volatile std::byte* data = buffer.data();
  [[maybe_unused]] std::byte read = data[115];
  EXPECT_EXIT(read = data[116], faulted, "");
}

TEST(GuardedBufferDeathTest, FaultsWhenWrittenBeforeItsStart) {
  const GuardedBuffer buffer(100, 64, 0, Guard::kBefore);
  volatile std::byte* data = buffer.data();
  data[0] = std::byte{1};
  EXPECT_EXIT(data[-1] = std::byte{1}, faulted, "");
}

TEST(GuardedBuffer, StartsAtItsAlignment) {
  for (const size_t alignment : {1u, 4u, 16u, 64u, 4096u}) {
    for (const size_t bytes : {0u, 1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 10000u}) {
      const GuardedBuffer buffer(bytes, alignment, 16);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u) << bytes;
      EXPECT_EQ(buffer.size(), bytes);
    }
  }
}

TEST(GuardedBuffer, NoticesAWriteNextToIt) {
  GuardedBuffer buffer(100, 4, 16);
  EXPECT_TRUE(buffer.surroundings_intact());
  buffer.span().front() = std::byte{0};
  buffer.span().back() = std::byte{0};
  EXPECT_TRUE(buffer.surroundings_intact());
  buffer.data()[100] = std::byte{0};
  EXPECT_FALSE(buffer.surroundings_intact());
  buffer.refill();
  EXPECT_TRUE(buffer.surroundings_intact());
  buffer.data()[-1] = std::byte{0};
  EXPECT_FALSE(buffer.surroundings_intact());
}

TEST(GuardedFloats, StartOutAsNotANumber) {
  const GuardedFloats floats(5, 16);
  ASSERT_EQ(floats.size(), 5u);
  for (const float value : floats.span()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace arenite::test
