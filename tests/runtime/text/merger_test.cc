// SPDX-License-Identifier: Apache-2.0
// Compares merging with its definition, and bounds its time.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "reference/bpe.h"
#include "support/random.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

reference::BpeMerges merges_of(const convert::TokenizerSpec& spec) {
  reference::BpeMerges merges;
  for (const convert::TokenMerge& merge : spec.merges) {
    merges[{merge.left, merge.right}] = {merge.rank, merge.token};
  }
  return merges;
}

// A vocabulary of random merges over few letters, so that most neighbours can be merged. Ranks are
// shuffled and some are equal.
convert::TokenizerSpec random_spec(uint64_t seed) {
  Random random(seed);
  convert::TokenizerSpec spec = byte_spec({});
  std::map<std::string, TokenId> ids;
  std::vector<TokenId> parts;
  for (const char letter : std::string("abc")) {
    parts.push_back(static_cast<TokenId>(letter));
    ids[std::string(1, letter)] = parts.back();
  }
  std::map<std::pair<TokenId, TokenId>, bool> seen;
  while (spec.merges.size() < 120) {
    const TokenId left = parts[random.below(static_cast<uint32_t>(parts.size()))];
    const TokenId right = parts[random.below(static_cast<uint32_t>(parts.size()))];
    const std::string whole = spec.tokens[left] + spec.tokens[right];
    if (seen[{left, right}] || whole.size() > 12) continue;
    seen[{left, right}] = true;
    if (!ids.contains(whole)) {
      ids[whole] = static_cast<TokenId>(spec.tokens.size());
      spec.tokens.push_back(whole);
      parts.push_back(ids[whole]);
    }
    spec.merges.push_back({left, right, ids[whole], random.below(60)});
  }
  return spec;
}

TEST(TokenizerMerge, AgreesWithTheDefinition) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const convert::TokenizerSpec spec = random_spec(seed);
    const TestTokenizer tokenizer(spec);
    const reference::BpeMerges merges = merges_of(spec);
    Random random(seed + 1000);
    for (uint32_t length = 0; length < 60; ++length) {
      std::string text;
      std::vector<TokenId> bytes;
      for (uint32_t i = 0; i < length; ++i) {
        text += static_cast<char>('a' + random.below(random.below(5) == 0 ? 4 : 3));
        bytes.push_back(static_cast<TokenId>(text.back()));
      }
      const std::vector<TokenId> expected = merge_pairs(merges, bytes);
      ASSERT_EQ(tokenizer.encode(text), expected) << text << ", seed " << seed;
      ASSERT_EQ(tokenizer.decode(expected), text);
    }
  }
}

TEST(TokenizerMerge, TakesTheLeftmostOfEqualPairs) {
  const TestTokenizer tokenizer(byte_spec({"aa"}));
  const std::vector<std::string> expected = {"aa", "aa", "a"};
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("aaaaa")), expected);
}

double seconds_to_encode(const TestTokenizer& tokenizer, size_t length) {
  const std::string text(length, 'a');
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<TokenId> ids = tokenizer.encode(text);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(tokenizer.decode(ids), text);
  return taken.count();
}

// Quadratic merging of as many letters takes hours.
TEST(TokenizerMerge, EncodesAMegabyteOfOneLetterInSeconds) {
  std::vector<std::string> words;
  for (size_t length = 2; length <= 64; length *= 2) words.push_back(std::string(length, 'a'));
  const TestTokenizer pairs(byte_spec(words, {{convert::kGpt2Split}}));
  EXPECT_LT(seconds_to_encode(pairs, 1 << 20), 60.0);
  words.push_back("a");
  words.push_back(" ");
  const TestTokenizer pieces(piece_spec(words, true));
  EXPECT_LT(seconds_to_encode(pieces, 1 << 20), 60.0);
}

TEST(TokenizerMerge, EncodesRunsOfSpacesAndDigitsInLinearTime) {
  const TestTokenizer tokenizer(byte_spec({"  "}, {{convert::kLlama3Split}}));
  const TestTokenizer digits(byte_spec({"  "}, {{convert::kDigitSplit}, {convert::kGpt2Split}}));
  for (const std::string unit : {" ", "\n ", "7", "'", "x 1", "\xCC\x81"}) {
    std::string text;
    while (text.size() < 300000) text += unit;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    EXPECT_EQ(digits.decode(digits.encode(text)), text);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(taken.count(), 30.0) << unit;
  }
}

}  // namespace
}  // namespace arenite::test
