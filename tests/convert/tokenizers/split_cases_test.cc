// SPDX-License-Identifier: Apache-2.0
// Compares pre-tokenizers with the steps of published ones with Hugging Face's library on the same
// texts (data/make_split_cases.py). ARENITE_SPLIT_CASES names a larger file of the same form.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/gguf/gguf_file.h"
#include "convert/tokenizers/split_tables.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "text/pre_tokenizer.h"

namespace arenite::testing {
namespace {

using nlohmann::json;

json split_cases() {
  const char* const other = std::getenv("ARENITE_SPLIT_CASES");
  const std::filesystem::path own =
      project_folder() / "tests/convert/tokenizers/data/split_cases.json";
  std::ifstream in(other != nullptr ? other : own);
  return json::parse(in);
}

convert::TokenizerSpec spec_with(const json& pre_tokenizer) {
  const TempFolder folder;
  json root = byte_level_json({});
  root["pre_tokenizer"] = pre_tokenizer;
  convert::TokenizerSpec spec =
      convert::read_hf_tokenizer_json(folder.write("tokenizer.json", root.dump()));
  convert::compile_splits(spec);
  return spec;
}

// Returns the lengths of pieces; those of what is dropped are negative.
std::vector<long> lengths(const convert::TokenizerSpec& spec, const std::string& text) {
  format::TokenizerView view;
  view.columns = spec.columns;
  view.splits = spec.split_tables;
  const text::Part part(text, false);
  text::PreTokenizer pre_tokenizer(view, part);
  std::vector<long> found;
  size_t at = 0;
  for (text::Piece piece; pre_tokenizer.next(piece); at = piece.end) {
    if (piece.begin > at) found.push_back(static_cast<long>(at) - static_cast<long>(piece.begin));
    found.push_back(static_cast<long>(piece.end - piece.begin));
  }
  if (at < text.size()) found.push_back(static_cast<long>(at) - static_cast<long>(text.size()));
  return found;
}

class SplitCases : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef ARENITE_HAVE_UTF8PROC
    GTEST_SKIP() << "this build lacks utf8proc";
#endif
    cases_ = split_cases();
  }
  json cases_;
};

TEST_F(SplitCases, GiveTheSamePieces) {
  const auto texts = cases_.at("texts").get<std::vector<std::string>>();
  ASSERT_FALSE(texts.empty());
  for (const json& item : cases_.at("tokenizers")) {
    const convert::TokenizerSpec spec = spec_with(item.at("pre_tokenizer"));
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(lengths(spec, texts[i]), item.at("pieces").at(i).get<std::vector<long>>())
          << item.at("name") << ": " << json(texts[i]);
    }
  }
}

// GGUF files name the pre-tokenizer of their model.
TEST_F(SplitCases, GiveTheSamePiecesByTheirNamesInGguf) {
  const std::map<std::string, std::string> names = {
      {"gpt2_whisper", "gpt-2"},      {"llama3_glm4", "glm4"}, {"qwen2", "qwen2"},
      {"qwen3_5", "qwen35"},          {"o200k", "gpt-4o"},     {"tekken", "tekken"},
      {"deepseek_v3", "deepseek-v3"}, {"bloom", "bloom"},      {"deepseek_coder", "deepseek-coder"},
      {"starcoder", "smollm"},
  };
  size_t found = 0;
  for (const json& item : cases_.at("tokenizers")) {
    const auto name = names.find(item.at("name"));
    if (name == names.end()) continue;
    convert::GgufTokenizer tokens;
    tokens.model = "gpt2";
    tokens.pre_tokenizer = name->second;
    tokens.tokens = {"a"};
    convert::TokenizerSpec spec = convert::understand_gguf_tokenizer(tokens, "m.gguf");
    convert::compile_splits(spec);
    const convert::TokenizerSpec expected = spec_with(item.at("pre_tokenizer"));
    EXPECT_EQ(spec.columns, expected.columns) << name->second;
    EXPECT_EQ(spec.split_tables, expected.split_tables) << name->second;
    ++found;
  }
  EXPECT_EQ(found, names.size());
}

// Quadratic splitting of as many characters takes minutes.
TEST_F(SplitCases, TakeLinearTimeForRuns) {
  for (const json& item : cases_.at("tokenizers")) {
    const convert::TokenizerSpec spec = spec_with(item.at("pre_tokenizer"));
    for (const std::string unit :
         {" ", "\n", " \n", "\n  ", "a", "A", "aB", "1", "'", "!", "\u00E9", "\u65E5", "\u0301"}) {
      std::string text;
      while (text.size() < 100000) text += unit;
      size_t total = 0;
      for (const long length : lengths(spec, text)) total += static_cast<size_t>(std::abs(length));
      EXPECT_EQ(total, text.size()) << item.at("name") << ": " << json(unit);
    }
  }
}

}  // namespace
}  // namespace arenite::testing
