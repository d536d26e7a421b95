// SPDX-License-Identifier: Apache-2.0
// Compares CRC-32C with published values, and its two implementations with each other.
#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "support/guarded_buffer.h"
#include "support/random.h"

namespace arenite {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  // RFC 3720, appendix B.4.
  std::byte block[32] = {};
  EXPECT_EQ(crc32c(block), 0x8A9136AAu);
  std::memset(block, 0xFF, sizeof(block));
  EXPECT_EQ(crc32c(block), 0x62A8AB43u);
  for (uint8_t i = 0; i < 32; ++i) block[i] = std::byte{i};
  EXPECT_EQ(crc32c(block), 0x46DD794Eu);
}

TEST(Crc32c, TableGivesThePublishedValues) {
  EXPECT_EQ(crc32c_portable({}), 0u);
  EXPECT_EQ(crc32c_portable(bytes_of("123456789")), 0xE3069283u);
}

TEST(Crc32c, InstructionAndTableAgreeOnAllLengthsAndAlignments) {
  constexpr size_t kLengthMax = 100;
  constexpr size_t kOffsetMax = 15;
  test::Random random(1);
  for (size_t offset = 0; offset <= kOffsetMax; ++offset) {
    for (size_t length = 0; length <= kLengthMax; ++length) {
      // Ends at a guard page and begins at page - length - offset: every alignment comes up.
      const test::GuardedBuffer buffer(length, 1, offset);
      for (std::byte& byte : buffer.span()) byte = static_cast<std::byte>(random.next());
      ASSERT_EQ(crc32c(buffer.span()), crc32c_portable(buffer.span())) << length << " " << offset;
    }
  }
}

TEST(Crc32c, ChangesWithEveryBit) {
  std::byte block[24] = {};
  const uint32_t clean = crc32c(block);
  for (size_t bit = 0; bit < sizeof(block) * 8; ++bit) {
    block[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(crc32c(block), clean) << bit;
    block[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace arenite
