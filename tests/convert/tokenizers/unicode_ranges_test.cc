// SPDX-License-Identifier: Apache-2.0
// Compares utf8proc's Unicode classes with Python's.
#include "convert/tokenizers/unicode_library.h"

#include <gtest/gtest.h>

#include <span>

#include "core/utf8.h"
#include "unicode_classes.h"

namespace arenite::convert {
namespace {

#ifdef ARENITE_HAVE_UTF8PROC

// The two may know different versions of Unicode: a code point counts where both have assigned it.
void expect_same(char major, std::span<const uint32_t> expected) {
  const std::vector<uint32_t> found = unicode_ranges(major);
  const std::vector<uint32_t> others = unicode_ranges('C');  // unassigned ones among them
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    const bool in_found = text::in_ranges(found, code_point);
    const bool in_expected = text::in_ranges(expected, code_point);
    if (in_found == in_expected || text::in_ranges(test::kUnassigned, code_point) ||
        text::in_ranges(others, code_point)) {
      continue;
    }
    ADD_FAILURE() << major << " " << code_point << " " << in_found;
  }
}

TEST(UnicodeRanges, HoldTheLettersThatPythonKnows) { expect_same('L', test::kLetters); }
TEST(UnicodeRanges, HoldTheNumbersThatPythonKnows) { expect_same('N', test::kNumbers); }

TEST(UnicodeRanges, SeparatorsAreSpaces) {
  const std::vector<uint32_t> separators = unicode_ranges('Z');
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    const bool expected = text::in_ranges(separators, code_point) || code_point == 0x85;
    ASSERT_EQ(text::is_space(code_point), expected) << code_point;
  }
}

#endif  // ARENITE_HAVE_UTF8PROC

TEST(UnicodeRanges, EqualTheSpacesOfTheRuntimeInAscii) {
  for (uint32_t code_point = 0; code_point < 0x80; ++code_point) {
    const bool expected = code_point == ' ' || (code_point >= 9 && code_point <= 13);
    EXPECT_EQ(text::is_space(code_point), expected);
  }
}

}  // namespace
}  // namespace arenite::convert
