// SPDX-License-Identifier: Apache-2.0
// Which tokenizer belongs to a model, and whether it fits.
#include "convert/tokenizers/tokenizer_source.h"

#include <gtest/gtest.h>

#include <string>

#include "convert/tokenizers/tokenizer_builders.h"
#include "support/pickle_builder.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::DecoderKind;
using convert::DecoderSource;
using convert::tokenizer_for;
using convert::TokenizerSpec;
using nlohmann::json;

const std::string kLow = "\xE2\x96\x81";

DecoderSource source_of(DecoderKind kind, uint32_t vocab_size = 1000) {
  DecoderSource source;
  source.kind = kind;
  source.spec.vocab_size = vocab_size;
  return source;
}

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
  // The file that the tokenizer of a model of this kind is read from; empty for none.
  std::string origin(DecoderKind kind, const char* model, const char* chosen = "") const {
    const auto spec =
        tokenizer_for(*model == '\0' ? folder_.path() : folder_.path() / model,
                      *chosen == '\0' ? "" : folder_.path() / chosen, source_of(kind));
    return spec ? std::filesystem::path(spec->origin).filename().string() : "";
  }

  TempFolder folder_;
};

TEST_F(TokenizerFor, LooksBesideAModelForWhatGoesWithItsKind) {
  EXPECT_EQ(origin(DecoderKind::kHuggingFace, ""), "");
  folder_.write("tokenizer.bin", llama2c_tokenizer());
  folder_.write("meta.pkl", character_pickle());
  EXPECT_EQ(origin(DecoderKind::kHuggingFace, ""), "");
  EXPECT_EQ(origin(DecoderKind::kLlama2c, "m.bin"), "tokenizer.bin");
  EXPECT_EQ(origin(DecoderKind::kStateDict, "m.pt"), "meta.pkl");
  EXPECT_EQ(origin(DecoderKind::kGguf, "m.gguf"), "");

  folder_.write("vocab.json", json{{"a", 0}, {"b", 1}}.dump());
  EXPECT_EQ(origin(DecoderKind::kHuggingFace, ""), "vocab.json");
  folder_.write("tokenizer.model", SentencePieceFile{llama_pieces({kLow, "a"})}.bytes());
  EXPECT_EQ(origin(DecoderKind::kHuggingFace, ""), "tokenizer.model");
  folder_.write("tokenizer.json", json_file());
  EXPECT_EQ(origin(DecoderKind::kHuggingFace, ""), "tokenizer.json");
  EXPECT_EQ(origin(DecoderKind::kHuggingFace, "model.safetensors"), "tokenizer.json");
  EXPECT_EQ(origin(DecoderKind::kLlama2c, "m.bin"), "tokenizer.bin");
}

TEST_F(TokenizerFor, TakesTheChosenOneBeforeAllOthers) {
  folder_.write("tokenizer.bin", llama2c_tokenizer());
  folder_.write("chosen", json_file());
  EXPECT_EQ(origin(DecoderKind::kLlama2c, "m.bin", "chosen"), "chosen");
  std::filesystem::create_directory(folder_.path() / "other");
  folder_.write("other/tokenizer.json", json_file());
  EXPECT_EQ(origin(DecoderKind::kLlama2c, "m.bin", "other"), "tokenizer.json");
}

TEST_F(TokenizerFor, DoesWithoutWhereAskedTo) {
  folder_.write("tokenizer.json", R"({"model": {"type": "Unigram"}})");
  const DecoderSource source = source_of(DecoderKind::kHuggingFace);
  EXPECT_TRUE(refuses([&] { tokenizer_for(folder_.path(), "", source); },
                      {"tokenizer.json", "Unigram", "--tokenizer none"}));
  EXPECT_FALSE(tokenizer_for(folder_.path(), convert::kNoTokenizer, source).has_value());
}

TEST_F(TokenizerFor, RefusesAChoiceThatIsNotThere) {
  EXPECT_TRUE(refuses([&] { origin(DecoderKind::kLlama2c, "m.bin", "gone.json"); },
                      {"cannot open '", "gone.json", "No such file"}));
  std::filesystem::create_directory(folder_.path() / "empty");
  EXPECT_TRUE(refuses([&] { origin(DecoderKind::kLlama2c, "m.bin", "empty"); },
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

TEST_F(TokenizerFor, TakesTheOneInsideAGgufFile) {
  DecoderSource source = source_of(DecoderKind::kGguf);
  source.tokenizer = gguf_tokenizer();
  source.tokenizer->bos_id = 1;
  const auto spec = tokenizer_for("m.gguf", "", source);
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->origin, "m.gguf");
  const test::TestTokenizer tokenizer(*spec);
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("aa")), (std::vector<std::string>{"<s>", " a", "a"}));
  const auto chosen = tokenizer_for("m.gguf", folder_.write("t.json", json_file()), source);
  EXPECT_EQ(chosen->origin, (folder_.path() / "t.json").string());
}

TEST_F(TokenizerFor, AsksTheModelWhichTokensBeginAndEndATextWhereTheTokenizerDoesNotSay) {
  DecoderSource source = source_of(DecoderKind::kGguf);
  source.tokenizer = gguf_tokenizer();
  source.tokenizer->bos_id = kNoToken;  // as files write -1
  source.tokenizer->eos_id = kNoToken;
  source.spec.bos_id = 1;
  source.spec.eos_ids = {999, 2, 5};  // 999 is a row of padding
  const auto found = tokenizer_for("m.gguf", "", source);
  EXPECT_EQ(found->bos, 1u);
  EXPECT_EQ(found->ends, (std::vector<TokenId>{2, 5}));
  EXPECT_EQ(found->flags & format::kAddBos, 0u);  // which nobody has asked for
  source.tokenizer->bos_id = 3;
  source.tokenizer->eos_id = 4;
  const auto own = tokenizer_for("m.gguf", "", source);
  EXPECT_EQ(own->bos, 3u);
  EXPECT_EQ(own->ends, (std::vector<TokenId>{4}));
}

TEST_F(TokenizerFor, RefusesMoreTokensThanTheModelHasRows) {
  DecoderSource source = source_of(DecoderKind::kGguf, 261);  // 3 + 256 + 3 tokens
  source.tokenizer = gguf_tokenizer();
  EXPECT_TRUE(refuses([&] { tokenizer_for("m.gguf", "", source); },
                      {"m.gguf", "262 tokens", "261 rows", "at most as many"}));
  source.spec.vocab_size = 262;
  EXPECT_EQ(convert::check_vocabulary(*tokenizer_for("m.gguf", "", source), 262), 0u);
  source.spec.vocab_size = 320;  // rounded up to a multiple of 64
  EXPECT_EQ(convert::check_vocabulary(*tokenizer_for("m.gguf", "", source), 320), 58u);
}

}  // namespace
}  // namespace arenite::testing
