// SPDX-License-Identifier: Apache-2.0
// Compares tokenizers of trained models with the ids of their reference programs.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using nlohmann::json;
using test::TestTokenizer;

class RealTokenizers : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = collection_folder() / "real";
    ARENITE_NEEDS_DATA(folder_);
  }
  json read(const char* file) const {
    std::ifstream in(folder_ / file);
    return json::parse(in);
  }
  // The first line of the text that perplexities were taken of.
  std::string first_line() const {
    std::ifstream in(folder_ / "eval_stories.txt");
    std::string line;
    std::getline(in, line);
    return line;
  }

  std::filesystem::path folder_;
};

TEST_F(RealTokenizers, StoriesOfLlama2cGiveTheExpectedIdsAndText) {
  const TestTokenizer tokenizer(convert::read_tokenizer(folder_ / "stories260k" / "tok512.bin"));
  EXPECT_EQ(tokenizer->vocab_size(), 512u);
  const json expected = read("perplexity.json").at("stories260k");
  EXPECT_EQ(tokenizer.encode(first_line()),
            expected.at("first_line_ids").get<std::vector<TokenId>>());
  const json cases = read("stories260k/expected.json");
  for (const auto& [prompt, text] : cases.at("greedy_text").items()) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text.get<std::string>())), text);
  }
  const json& perplexity = cases.at("perplexity");
  EXPECT_EQ(tokenizer.encode(perplexity.at("sentence").get<std::string>()).size(),
            perplexity.at("tokens").get<size_t>());
}

TEST_F(RealTokenizers, StoriesOfHuggingFaceGiveTheExpectedIdsAndText) {
  const TestTokenizer tokenizer(convert::read_tokenizer(folder_ / "story-656k" / "tokenizer.json"));
  EXPECT_EQ(tokenizer->vocab_size(), 2048u);
  EXPECT_EQ(tokenizer->bos(), 1u);
  EXPECT_EQ(tokenizer->end(), 2u);
  EXPECT_EQ(tokenizer->find_special("<|end_story|>"), 2u);
  const json cases = read("story-656k/expected.json");
  for (const json& item : cases.at("tokenizer")) {
    const auto ids = item.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode(item.at("text").get<std::string>()), ids) << item.at("text");
    EXPECT_EQ(tokenizer.decode(ids), item.at("decoded").get<std::string>());
  }
  for (const json& item : cases.at("greedy")) {
    EXPECT_EQ(tokenizer.encode(item.at("prompt").get<std::string>()),
              item.at("prompt_ids").get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer.decode(item.at("greedy_ids").get<std::vector<TokenId>>()),
              item.at("greedy_text").get<std::string>());
  }
  EXPECT_EQ(
      tokenizer.encode(first_line()),
      read("perplexity.json").at("story-656k").at("first_line_ids").get<std::vector<TokenId>>());
}

TEST_F(RealTokenizers, TheFileAloneHasATokenForUnknownCharacters) {
  const auto spec = convert::read_hf_tokenizer_json(folder_ / "story-656k" / "tokenizer.json");
  const TestTokenizer tokenizer(spec);
  const std::vector<TokenId> ids = tokenizer.encode("na\xC3\xAFve \xE6\x9D\xB1\xE4\xBA\xAC");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), TokenId{0}), 2);
}

TEST(HomeIntentTokenizer, GivesTheExpectedIdsAndText) {
#ifndef ARENITE_HAVE_UTF8PROC
  GTEST_SKIP() << "this build lacks utf8proc";
#endif
  const auto folder = project_folder() / "models" / "home-intent";
  const TestTokenizer tokenizer(convert::read_tokenizer(folder / "tokenizer.json"));
  EXPECT_EQ(tokenizer->vocab_size(), 400u);
  EXPECT_EQ(tokenizer->end(), tokenizer->find_special("<|end|>"));
  const TokenId begin_action = tokenizer->find_special("<|do|>");
  std::ifstream in(folder / "expected.json");
  const json expected = json::parse(in);
  ASSERT_FALSE(expected.at("cases").empty());
  for (const json& item : expected.at("cases")) {
    const auto prompt = item.at("prompt_ids").get<std::vector<TokenId>>();
    const std::string command = item.at("command").get<std::string>();
    std::vector<TokenId> ids = tokenizer.encode(command);
    EXPECT_EQ(tokenizer.decode(ids), command);
    ids.push_back(begin_action);
    EXPECT_EQ(ids, prompt) << command;
    EXPECT_EQ(tokenizer.encode(command + "<|do|>", {.read_specials = true}), prompt) << command;
    EXPECT_EQ(tokenizer.decode(item.at("ids").get<std::vector<TokenId>>()),
              item.at("text").get<std::string>());
  }
}

}  // namespace
}  // namespace arenite::testing
