// SPDX-License-Identifier: Apache-2.0
// Tests UTF-8 decoding, and the character classes of the patterns.
#include "core/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace arenite::test {
namespace {

TEST(Utf8, DecodesWhatItEncodes) {
  for (uint32_t value = 0; value <= kCodePointMax; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    char form[kUtf8BytesMax];
    const uint32_t length = encode_utf8(value, form);
    const CodePoint decoded = decode_utf8({form, length});
    ASSERT_EQ(decoded.value, value);
    ASSERT_EQ(decoded.bytes, length);
    if (length == 1) continue;
    ASSERT_EQ(decode_utf8({form, length - 1}).value, kInvalidCodePoint) << value;
  }
}

TEST(Utf8, TakesOneByteOfInvalidText) {
  for (const std::string text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE6\x97", "\xE6\x97\x41", "\xC3\xC3"}) {
    EXPECT_EQ(decode_utf8(text).value, kInvalidCodePoint);
    EXPECT_EQ(decode_utf8(text).bytes, 1u);
  }
}

TEST(Characters, AreFoundInTheirRanges) {
  const uint32_t ranges[] = {0x80, 0x80, 0x90, 0x9F, 0xA1, 0xB0};
  for (const uint32_t inside : {0x80u, 0x90u, 0x95u, 0x9Fu, 0xA1u, 0xB0u}) {
    EXPECT_TRUE(text::in_ranges(ranges, inside)) << inside;
  }
  for (const uint32_t outside : {0x7Fu, 0x81u, 0x8Fu, 0xA0u, 0xB1u, kInvalidCodePoint}) {
    EXPECT_FALSE(text::in_ranges(ranges, outside)) << outside;
  }
  EXPECT_FALSE(text::in_ranges({}, 5));
}

}  // namespace
}  // namespace arenite::test
