// SPDX-License-Identifier: Apache-2.0
// Stop strings are found in pieces of any size, and text without them is complete.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/text_stream.h"
#include "support/random.h"

namespace arenite::test {
namespace {

class StopText {
 public:
  explicit StopText(std::vector<std::string_view> stops)
      : stops_(std::move(stops)),
        space_(StopStrings::bytes_needed(stops_)),
        finder_(stops_, space_) {}

  std::string next(std::string_view text) {
    const TextParts parts = finder_.next(text);
    return std::string(parts.head) + std::string(parts.tail);
  }
  std::string finish() { return std::string(finder_.finish()); }
  bool stopped() const { return finder_.stopped(); }

 private:
  std::vector<std::string_view> stops_;
  std::vector<char> space_;
  StopStrings finder_;
};

TEST(StopStrings, NeedTwiceTheBytesThatMayBeHeldBack) {
  const std::array<std::string_view, 2> stops = {"\n\n", "User:"};
  EXPECT_EQ(StopStrings::bytes_needed(stops), 8u);
  EXPECT_EQ(StopStrings::bytes_needed({}), 0u);
}

TEST(StopStrings, EndTheTextBeforeThem) {
  StopText text({"User:"});
  EXPECT_EQ(text.next("Hello. "), "Hello. ");
  EXPECT_EQ(text.next("Us"), "");
  EXPECT_EQ(text.next("er"), "");
  EXPECT_FALSE(text.stopped());
  EXPECT_EQ(text.next(": hi"), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.next("more"), "");
}

TEST(StopStrings, ReleaseTextThatOnlyBeganLikeOne) {
  StopText text({"abab!"});
  EXPECT_EQ(text.next("ab"), "");
  EXPECT_EQ(text.next("ab"), "");
  EXPECT_EQ(text.next("ab"), "ab") << "the last four bytes may still begin one";
  EXPECT_EQ(text.finish(), "abab");
  EXPECT_FALSE(text.stopped());
}

TEST(StopStrings, TheFirstThatIsCompleteCounts) {
  StopText text({"abcX", "bc"});
  EXPECT_EQ(text.next("1ab"), "1");
  EXPECT_EQ(text.next("c"), "a");
  EXPECT_TRUE(text.stopped());
}

TEST(StopStrings, EmptyOnesAreIgnored) {
  StopText none({});
  EXPECT_EQ(none.next("all of it"), "all of it");
  StopText empty({""});
  EXPECT_EQ(empty.next("all of it"), "all of it");
  EXPECT_FALSE(empty.stopped());
  EXPECT_EQ(empty.finish(), "");
}

TEST(StopStrings, ServeAnotherTextAfterTheEnd) {
  StopText text({"."});
  EXPECT_EQ(text.next("one. two"), "one");
  EXPECT_TRUE(text.stopped());
  text.finish();
  EXPECT_EQ(text.next("three"), "three");
}

// Compares with a search in the whole text, for random texts of two letters in random pieces.
TEST(StopStrings, AreFoundWhereverPiecesEnd) {
  Random random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<std::string> words(1 + random.below(3));
    for (std::string& word : words) {
      for (uint32_t i = 1 + random.below(5); i > 0; --i) word += "ab"[random.below(2)];
    }
    std::string whole;
    for (uint32_t i = random.below(24); i > 0; --i) whole += "ab"[random.below(2)];

    size_t first = std::string::npos;  // where the first that is complete begins
    for (size_t end = 1; end <= whole.size() && first == std::string::npos; ++end) {
      for (const std::string& word : words) {
        if (std::string_view(whole).substr(0, end).ends_with(word)) {
          first = std::min(first, end - word.size());
        }
      }
    }
    // A byte at a time: no piece has two complete ones.
    StopText text({words.begin(), words.end()});
    std::string shown;
    for (const char byte : whole) shown += text.next({&byte, 1});
    EXPECT_EQ(text.stopped(), first != std::string::npos);
    if (!text.stopped()) shown += text.finish();
    EXPECT_EQ(shown, whole.substr(0, first)) << whole;
  }
}

}  // namespace
}  // namespace arenite::test
