// SPDX-License-Identifier: Apache-2.0
// Compares the pre-tokenizer with a regular expression engine on the tokenizers' expressions.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/test_data.h"
#include "support/tokenizer_model.h"
#include "text/pre_tokenizer.h"
#include "unicode_classes.h"

namespace arenite::test {
namespace {

struct Named {
  const char* name;
  format::Pattern pattern;
};

class PatternTest : public ::testing::TestWithParam<Named> {
 protected:
  static std::vector<std::string> cut(std::string_view text, format::Pattern pattern,
                                      bool has_prefix = false) {
    format::TokenizerView view;
    view.pattern = pattern;
    view.letters = kLetters;
    view.numbers = kNumbers;
    const text::Part part(text, has_prefix);
    text::PreTokenizer pre_tokenizer(view, part);
    std::vector<std::string> pieces;
    for (text::Piece piece; pre_tokenizer.next(piece);) {
      EXPECT_LT(piece.begin, piece.end);
      pieces.emplace_back();
      for (size_t i = piece.begin; i < piece.end; ++i) {
        pieces.back() += static_cast<char>(part.byte(i));
      }
    }
    return pieces;
  }
};

TEST_P(PatternTest, CutsAsTheRegularExpressionDoes) {
  std::ifstream in(testing::project_folder().string() +
                   "/tests/convert/tokenizers/data/pattern_cases.json");
  const nlohmann::json cases = nlohmann::json::parse(in);
  ASSERT_GT(cases.size(), 100u);
  for (const nlohmann::json& item : cases) {
    const auto text = item.at("text").get<std::string>();
    std::vector<std::string> expected;
    size_t begin = 0;
    for (const size_t bytes : item.at(GetParam().name).get<std::vector<size_t>>()) {
      expected.push_back(text.substr(begin, bytes));
      begin += bytes;
    }
    EXPECT_EQ(cut(text, GetParam().pattern), expected) << item.at("text").dump();
    // A prefix is as good as a space that is there.
    if (text.starts_with(' ')) {
      EXPECT_EQ(cut(text.substr(1), GetParam().pattern, true), expected) << item.at("text").dump();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PatternTest,
                         ::testing::Values(Named{"gpt2", format::Pattern::kGpt2},
                                           Named{"llama3", format::Pattern::kLlama3},
                                           Named{"qwen2", format::Pattern::kQwen2},
                                           Named{"digits", format::Pattern::kDigits}),
                         [](const auto& info) { return std::string(info.param.name); });

using Pattern = PatternTest;

TEST_F(Pattern, NoneLeavesTheTextWhole) {
  EXPECT_EQ(cut("don't cut 12, a", format::Pattern::kNone),
            (std::vector<std::string>{"don't cut 12, a"}));
}

// Memory after the end of the text is not read.
TEST_F(Pattern, ContractionsEndWithTheText) {
  constexpr std::string_view kMore = "we're";
  EXPECT_EQ(cut(kMore, format::Pattern::kGpt2), (std::vector<std::string>{"we", "'re"}));
  EXPECT_EQ(cut(kMore.substr(0, 4), format::Pattern::kGpt2),
            (std::vector<std::string>{"we", "'", "r"}));
}

TEST_F(Pattern, SpacesCutBeforeEachSpace) {
  EXPECT_EQ(cut("a b  c\xE2\x96\x81 d", format::Pattern::kSpaces),
            (std::vector<std::string>{"a", " b", " ", " c", "\xE2\x96\x81", " d"}));
  EXPECT_TRUE(cut("", format::Pattern::kSpaces).empty());
}

TEST_F(Pattern, TakesBytesThatAreNoUtf8ForOtherCharacters) {
  EXPECT_EQ(cut("ab\xFF\xE6 c\xC3", format::Pattern::kGpt2),
            (std::vector<std::string>{"ab", "\xFF\xE6", " c", "\xC3"}));
}

}  // namespace
}  // namespace arenite::test
