// SPDX-License-Identifier: Apache-2.0
// Compares the words of texts with those that Python finds by BERT's rules with its Unicode tables.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "convert/tokenizers/tokenizer_readers.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// These are the configs of make_word_cases.py.
const std::map<std::string, const char*> kConfigs = {
    {"uncased", "{}"},
    {"cased", R"({"do_lower_case": false})"},
    {"lower_with_accents", R"({"strip_accents": false})"},
    {"cased_without_accents", R"({"do_lower_case": false, "strip_accents": true})"},
    {"ideographs_in_words", R"({"tokenize_chinese_chars": false})"},
    {"not_cleaned", R"({"clean_text": false})"},
};

json read_cases() {
  std::ifstream in(project_folder().string() + "/tests/convert/tokenizers/data/word_cases.json");
  return json::parse(in);
}

// Each case names its rules. All words of the cases are in the vocabulary: each is one token.
TEST(WordCases, AreCutAndFoldedAsBertDoes) {
#ifndef ARENITE_HAVE_UTF8PROC
  GTEST_SKIP() << "this build lacks utf8proc";
#endif
  const json cases = read_cases();
  ASSERT_GT(cases.size(), 500u);
  for (const auto& [rules, config] : kConfigs) {
    std::set<std::string> words;
    for (const json& item : cases) {
      if (item.at("rules") == rules) words.merge(item.at("words").get<std::set<std::string>>());
    }
    ASSERT_FALSE(words.empty()) << rules;
    std::string lines = "[UNK]\n[CLS]\n[SEP]\n";
    for (const std::string& word : words) lines += word + "\n";
    const TempFolder folder;
    folder.write("tokenizer_config.json", config);
    const test::TestTokenizer tokenizer(convert::read_vocab_txt(folder.write("vocab.txt", lines)));
    for (const json& item : cases) {
      if (item.at("rules") != rules) continue;
      EXPECT_EQ(tokenizer.texts(tokenizer.encode_bare(item.at("text").get<std::string>())),
                item.at("words").get<Texts>())
          << rules << ": " << item.at("text");
    }
  }
}

TEST(WordCases, AreTheSameWithTheReducedTable) {
#ifndef ARENITE_HAVE_UTF8PROC
  GTEST_SKIP() << "this build lacks utf8proc";
#endif
  std::set<std::string> words;
  const json cases = read_cases();
  const auto is_ascii = [](const std::string& word) {
    return std::all_of(word.begin(), word.end(), [](char c) { return c > 0; });
  };
  for (const json& item : cases) {
    for (const json& word : item.at("words")) {
      if (is_ascii(word.get<std::string>())) words.insert(word.get<std::string>());
    }
  }
  std::string lines = "[UNK]\n[CLS]\n[SEP]\n";
  for (const std::string& word : words) lines += word + "\n";
  const TempFolder folder;
  const test::TestTokenizer tokenizer(convert::read_vocab_txt(folder.write("vocab.txt", lines)));
  for (const json& item : cases) {
    if (item.at("rules") != "uncased") continue;
    Texts expected = item.at("words").get<Texts>();
    for (std::string& word : expected) {
      if (!words.contains(word)) word = "[UNK]";
    }
    EXPECT_EQ(tokenizer.texts(tokenizer.encode_bare(item.at("text").get<std::string>())), expected)
        << item.at("text");
  }
}

}  // namespace
}  // namespace arenite::testing
