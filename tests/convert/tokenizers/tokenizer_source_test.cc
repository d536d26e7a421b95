// SPDX-License-Identifier: Apache-2.0
// Tests which tokenizer is chosen for a model, and whether it fits.
#include "convert/tokenizers/tokenizer_source.h"

#include <gtest/gtest.h>

#include <string>

#include "convert/gguf/gguf_file.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "support/pickle_builder.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::kDecoderTokenizers;
using convert::kEncoderTokenizers;
using convert::kLlama2cTokenizers;
using convert::kStateDictTokenizers;
using convert::tokenizer_for;
using convert::TokenizerPlace;
using convert::TokenizerSpec;
using nlohmann::json;

using Files = std::span<const char* const>;

std::string json_file() { return low_line_json({kLow, "a"}, {{kLow, "a"}}).dump(); }

std::string llama2c_tokenizer() { return llama2c_file(llama_pieces({kLow, "a", kLow + "a"})); }

std::string character_pickle() {
  PickleBuilder builder;
  builder.code(op::kEmptyDict).text("stoi").code(op::kEmptyDict);
  builder.text("a").number(0).code(op::kSetItem).code(op::kSetItem);
  return builder.stop();
}

class TokenizerFor : public ::testing::Test {
 protected:
  // The file that the tokenizer of a model beside such files is read from; empty for none.
  std::string origin(Files files, const char* chosen = "") const {
    const auto spec = tokenizer_for({.folder = folder_.path(), .files = files, .vocab_size = 1000},
                                    *chosen == '\0' ? "" : folder_.path() / chosen);
    return spec ? std::filesystem::path(spec->origin).filename().string() : "";
  }

  TempFolder folder_;
};

TEST_F(TokenizerFor, LooksBesideAModelForFilesOfItsKind) {
  EXPECT_EQ(origin(kDecoderTokenizers), "");
  folder_.write("tokenizer.bin", llama2c_tokenizer());
  folder_.write("meta.pkl", character_pickle());
  EXPECT_EQ(origin(kDecoderTokenizers), "");
  EXPECT_EQ(origin(kLlama2cTokenizers), "tokenizer.bin");
  EXPECT_EQ(origin(kStateDictTokenizers), "meta.pkl");
  EXPECT_EQ(origin({}), "");

  folder_.write("vocab.json", json{{"a", 0}, {"b", 1}}.dump());
  EXPECT_EQ(origin(kDecoderTokenizers), "vocab.json");
  folder_.write("tokenizer.model", SentencePieceFile{llama_pieces({kLow, "a"})}.bytes());
  EXPECT_EQ(origin(kDecoderTokenizers), "tokenizer.model");
  folder_.write("tokenizer.json", json_file());
  EXPECT_EQ(origin(kDecoderTokenizers), "tokenizer.json");
  EXPECT_EQ(origin(kEncoderTokenizers), "tokenizer.json");
  EXPECT_EQ(origin(kLlama2cTokenizers), "tokenizer.bin");
}

TEST_F(TokenizerFor, TakesTheChosenOneBeforeAllOthers) {
  folder_.write("tokenizer.bin", llama2c_tokenizer());
  folder_.write("chosen", json_file());
  EXPECT_EQ(origin(kLlama2cTokenizers, "chosen"), "chosen");
  std::filesystem::create_directory(folder_.path() / "other");
  folder_.write("other/tokenizer.json", json_file());
  EXPECT_EQ(origin(kLlama2cTokenizers, "other"), "tokenizer.json");
}

TEST_F(TokenizerFor, IsOmittedOnRequest) {
  folder_.write("tokenizer.json", R"({"model": {"type": "Other"}})");
  const TokenizerPlace place = {.folder = folder_.path(), .files = kDecoderTokenizers};
  EXPECT_TRUE(
      refuses([&] { tokenizer_for(place, ""); }, {"tokenizer.json", "Other", "--tokenizer none"}));
  EXPECT_FALSE(tokenizer_for(place, convert::kNoTokenizer).has_value());
}

TEST_F(TokenizerFor, RefusesAMissingFile) {
  EXPECT_TRUE(refuses([&] { origin(kLlama2cTokenizers, "gone.json"); },
                      {"cannot open '", "gone.json", "No such file"}));
  std::filesystem::create_directory(folder_.path() / "empty");
  EXPECT_TRUE(refuses([&] { origin(kLlama2cTokenizers, "empty"); },
                      {"empty", "tokenizer.json, vocab.txt, tokenizer.model or vocab.json"}));
}

convert::GgufTokenizer gguf_tokenizer() {
  convert::GgufTokenizer tokenizer;
  tokenizer.model = "llama";
  for (const convert::SentencePiece& piece : llama_pieces({kLow, "a", kLow + "a"})) {
    tokenizer.tokens.push_back(piece.text);
    tokenizer.scores.push_back(piece.score);
    tokenizer.types.push_back(static_cast<int32_t>(piece.type));
  }
  return tokenizer;
}

TokenizerPlace place_of(const convert::GgufTokenizer& tokenizer, uint32_t vocab_size = 1000) {
  return {.own = [=] { return convert::understand_gguf_tokenizer(tokenizer, "m.gguf"); },
          .vocab_size = vocab_size};
}

TEST_F(TokenizerFor, TakesTheOneInsideAGgufFile) {
  convert::GgufTokenizer inside = gguf_tokenizer();
  inside.bos_id = 1;
  const auto spec = tokenizer_for(place_of(inside), "");
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->origin, "m.gguf");
  const test::TestTokenizer tokenizer(*spec);
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("aa")), (std::vector<std::string>{"<s>", " a", "a"}));
  const auto chosen = tokenizer_for(place_of(inside), folder_.write("t.json", json_file()));
  EXPECT_EQ(chosen->origin, (folder_.path() / "t.json").string());
}

TEST_F(TokenizerFor, AsksTheModelWhichTokensBeginAndEndATextWhereTheTokenizerDoesNotSay) {
  convert::GgufTokenizer inside = gguf_tokenizer();
  inside.bos_id = kNoToken;  // as files write -1
  inside.eos_id = kNoToken;
  TokenizerPlace place = place_of(inside);
  place.bos_id = 1;
  place.eos_ids = {999, 2, 5};  // 999 is a row of padding
  const auto found = tokenizer_for(place, "");
  EXPECT_EQ(found->bos, 1u);
  EXPECT_EQ(found->ends, (std::vector<TokenId>{2, 5}));
  EXPECT_EQ(found->flags & format::kAddBos, 0u);  // nothing requested it
  inside.bos_id = 3;
  inside.eos_id = 4;
  place.own = place_of(inside).own;
  const auto own = tokenizer_for(place, "");
  EXPECT_EQ(own->bos, 3u);
  EXPECT_EQ(own->ends, (std::vector<TokenId>{4}));
}

TEST_F(TokenizerFor, RefusesMoreTokensThanTheModelHasRows) {
  const convert::GgufTokenizer inside = gguf_tokenizer();  // 3 + 256 + 3 tokens
  EXPECT_TRUE(refuses([&] { tokenizer_for(place_of(inside, 261), ""); },
                      {"m.gguf", "262 tokens", "more than the 261 rows"}));
  EXPECT_EQ(convert::check_vocabulary(*tokenizer_for(place_of(inside, 262), ""), 262), 0u);
  // Rounded up to a multiple of 64.
  EXPECT_EQ(convert::check_vocabulary(*tokenizer_for(place_of(inside, 320), ""), 320), 58u);
}

}  // namespace
}  // namespace arenite::testing
