// SPDX-License-Identifier: Apache-2.0
// Compares the pre-tokenizer with a regular expression engine on the tokenizers' expressions.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/tokenizers/split_tables.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"
#include "text/pre_tokenizer.h"

namespace arenite::test {
namespace {

using Splits = std::vector<convert::SplitStep>;

const Splits kGpt2 = {{convert::kGpt2Split}};

struct Named {
  const char* name;
  Splits splits;
};

class PatternTest : public ::testing::TestWithParam<Named> {
 protected:
  static std::vector<std::string> cut(std::string_view text, const Splits& splits,
                                      bool has_prefix = false) {
    convert::TokenizerSpec spec;
    spec.splits = splits;
    use_python_classes(spec);
    convert::compile_splits(spec);
    format::TokenizerView view;
    view.columns = spec.columns;
    view.splits = spec.split_tables;
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
    EXPECT_EQ(cut(text, GetParam().splits), expected) << item.at("text").dump();
    // A prefix is as good as a space that is there.
    if (text.starts_with(' ')) {
      EXPECT_EQ(cut(text.substr(1), GetParam().splits, true), expected) << item.at("text").dump();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PatternTest,
                         ::testing::Values(Named{"gpt2", kGpt2},
                                           Named{"llama3", {{convert::kLlama3Split}}},
                                           Named{"qwen2", {{convert::kQwen2Split}}},
                                           Named{"digits", {{convert::kDigitSplit}, kGpt2[0]}}),
                         [](const auto& info) { return std::string(info.param.name); });

using Pattern = PatternTest;

TEST_F(Pattern, NoneLeavesTheTextWhole) {
  EXPECT_EQ(cut("don't cut 12, a", {}), (std::vector<std::string>{"don't cut 12, a"}));
}

// Memory after the end of the text is not read.
TEST_F(Pattern, ContractionsEndWithTheText) {
  constexpr std::string_view kMore = "we're";
  EXPECT_EQ(cut(kMore, kGpt2), (std::vector<std::string>{"we", "'re"}));
  EXPECT_EQ(cut(kMore.substr(0, 4), kGpt2), (std::vector<std::string>{"we", "'", "r"}));
}

TEST_F(Pattern, SpacesCutBeforeEachSpace) {
  EXPECT_EQ(cut("a b  c\xE2\x96\x81 d", space_splits()),
            (std::vector<std::string>{"a", " b", " ", " c", "\xE2\x96\x81", " d"}));
  EXPECT_TRUE(cut("", space_splits()).empty());
}

// After ByteLevel, 0xC2 0xB2 is "\u00C2\u00B2", a letter and a number; a space is a letter.
TEST_F(Pattern, SplitsWithinCharactersWhereBytesAreCharacters) {
  EXPECT_EQ(cut("a \u00B2b", {{R"(\p{N})", format::kOfBytes}}),
            (std::vector<std::string>{"a \xC2", "\xB2", "b"}));
}

TEST_F(Pattern, DropsMatchesOrGaps) {
  EXPECT_EQ(cut("a.b..c", {{R"(\.)", format::kDropMatches}}),
            (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(cut("a.b..c", {{R"(\.)", format::kDropGaps}}),
            (std::vector<std::string>{".", ".", "."}));
  EXPECT_TRUE(cut("..", {{R"(\.)", format::kDropMatches}}).empty());
}

TEST_F(Pattern, TakesBytesThatAreNoUtf8ForOtherCharacters) {
  EXPECT_EQ(cut("ab\xFF\xE6 c\xC3", kGpt2),
            (std::vector<std::string>{"ab", "\xFF\xE6", " c", "\xC3"}));
}

}  // namespace
}  // namespace arenite::test
