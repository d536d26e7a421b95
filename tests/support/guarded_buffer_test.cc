// SPDX-License-Identifier: Apache-2.0
// Proves that the guards guard.
#include "support/guarded_buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace arenite::test {
namespace {

class GuardedBufferDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(GuardedBufferDeathTest, FaultsWhenReadBehindItsEnd) {
  const GuardedBuffer buffer(100);
  volatile std::byte* data = buffer.data();
  [[maybe_unused]] std::byte read = data[99];
  EXPECT_DEATH(read = data[100], "");
}

TEST_F(GuardedBufferDeathTest, FaultsWhenReadBehindItsSlack) {
  const GuardedBuffer buffer(100, 4, 16);
  volatile std::byte* data = buffer.data();
  [[maybe_unused]] std::byte read = data[115];
  EXPECT_DEATH(read = data[116], "");
}

TEST_F(GuardedBufferDeathTest, FaultsWhenWrittenBeforeItsStart) {
  const GuardedBuffer buffer(100, 64, 0, Guard::kBefore);
  volatile std::byte* data = buffer.data();
  data[0] = std::byte{1};
  EXPECT_DEATH(data[-1] = std::byte{1}, "");
}

TEST(GuardedBuffer, StartsAtItsAlignment) {
  for (const size_t alignment : {1, 4, 16, 64, 4096}) {
    for (const size_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097, 10000}) {
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
