// SPDX-License-Identifier: Apache-2.0
// One tokenizer in every format gives the same tokens through the runtime.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "convert/gguf/gguf_file.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/pickle_builder.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::GgufTokenizer;
using convert::TokenizerSpec;
using nlohmann::json;
using test::TestTokenizer;
using Merges = std::vector<std::pair<std::string, std::string>>;

// " the" and "he" of single characters, with U+2581 for the space.
const std::vector<std::string> kCharacters = {"\xE2\x96\x81", "t", "h", "e", "\xC3\xA9"};
const Merges kLowLineMerges = {
    {"\xE2\x96\x81", "t"}, {"h", "e"}, {"\xE2\x96\x81t", "he"}, {"t", "he"}, {"e", "\xC3\xA9"}};

std::vector<std::string> llama_texts() {
  std::vector<std::string> pieces = {"\xE2\x96\x81t", "he", "\xE2\x96\x81the", "the", "e\xC3\xA9"};
  pieces.insert(pieces.end(), kCharacters.begin(), kCharacters.end());
  return pieces;
}

const std::vector<std::string> kTexts = {
    "", "the", " the", "the the  the\xC3\xA9\n", "h\xE6\x97\xA5 \xFF the\xE2\x96\x81the", "<s>the"};

std::vector<std::vector<std::string>> tokens_of(const TokenizerSpec& spec) {
  const TestTokenizer tokenizer(spec);
  std::vector<std::vector<std::string>> tokens;
  for (const std::string& text : kTexts) {
    tokens.push_back(tokenizer.texts(tokenizer.encode(text)));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), convert::piece_bytes(text));
  }
  return tokens;
}

TEST(TokenizerFormats, SentencePiecesAreTheSameFromEveryFile) {
  const TempFolder folder;
  SentencePieceFile file{llama_pieces(llama_texts())};
  const auto expected =
      tokens_of(convert::read_tokenizer(folder.write("tokenizer.model", file.bytes())));
  EXPECT_EQ(expected[1], (std::vector<std::string>{"<s>", " the"}));
  EXPECT_EQ(expected[2], (std::vector<std::string>{"<s>", " ", " the"}));

  const TempFolder json_folder;  // apart, as the files of one folder belong together
  const json root = low_line_json(kCharacters, kLowLineMerges);
  EXPECT_EQ(tokens_of(convert::read_tokenizer(json_folder.write("tokenizer.json", root.dump()))),
            expected);

  GgufTokenizer gguf;
  gguf.model = "llama";
  for (const convert::SentencePiece& piece : file.pieces) {
    gguf.tokens.push_back(piece.text);
    gguf.scores.push_back(piece.score);
    gguf.types.push_back(static_cast<int32_t>(piece.type));
  }
  gguf.bos_id = 1;
  gguf.eos_id = 2;
  gguf.unknown_id = 0;
  const TokenizerSpec from_gguf = convert::understand_gguf_tokenizer(gguf, "model.gguf");
  EXPECT_EQ(tokens_of(from_gguf), expected);
  const TestTokenizer tokenizer(from_gguf);  // llama.cpp puts the space after special tokens, too
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("the</s>the", {.read_specials = true})),
            (std::vector<std::string>{"<s>", " the", "</s>", " the"}));
}

TEST(TokenizerFormats, Llama2cDiffersOnlyInTheLowLineItself) {
  const TempFolder folder;
  const std::vector<convert::SentencePiece> pieces = llama_pieces(llama_texts());
  const TestTokenizer expected(
      convert::read_tokenizer(folder.write("tokenizer.model", SentencePieceFile{pieces}.bytes())));
  const TestTokenizer found(
      convert::read_tokenizer(folder.write("tokenizer.bin", llama2c_file(pieces))));
  for (const std::string text :
       {"", "the", " the", "the the  the\xC3\xA9\n", "h\xE6\x97\xA5 \xFF"}) {
    EXPECT_EQ(found.encode(text), expected.encode(text)) << text;
  }
  EXPECT_EQ(found.decode(found.encode("\xE2\x96\x81")), "\xE2\x96\x81");
  EXPECT_EQ(expected.decode(expected.encode("\xE2\x96\x81")), " ");
}

// GPT-2's alphabet: a space is U+0120.
const Merges kByteMerges = {
    {"\xC4\xA0", "t"}, {"h", "e"}, {"\xC4\xA0t", "he"}, {"\xC3\x83", "\xC2\xA9"}};

TEST(TokenizerFormats, BytePairsAreTheSameFromEveryFile) {
#ifndef ARENITE_HAVE_UTF8PROC
  GTEST_SKIP() << "this build lacks utf8proc";
#endif
  const TempFolder folder;
  json root = byte_level_json(kByteMerges);
  const auto json_file = folder.write("tokenizer.json", root.dump());
  const TokenizerSpec from_json = convert::read_tokenizer(json_file);
  const TestTokenizer expected(from_json);
  EXPECT_EQ(expected.texts(expected.encode("the the \xC3\xA9")),
            (std::vector<std::string>{"t", "he", " the", " ", "\xC3\xA9"}));

  const TempFolder gpt2_folder;
  json vocab = root["model"]["vocab"];
  vocab["<|endoftext|>"] = vocab.size();
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : kByteMerges) merges += left + " " + right + "\n";
  gpt2_folder.write("vocab.json", vocab.dump());
  gpt2_folder.write("merges.txt", merges);
  const TestTokenizer from_vocab(convert::read_tokenizer(gpt2_folder.path() / "vocab.json"));

  GgufTokenizer gguf;
  gguf.model = "gpt2";
  gguf.pre_tokenizer = "gpt-2";
  gguf.tokens.resize(vocab.size());
  for (const auto& [token, id] : vocab.items()) gguf.tokens[id.get<size_t>()] = token;
  gguf.types.assign(vocab.size(), 1);
  gguf.types.back() = 3;
  for (const auto& [left, right] : kByteMerges) gguf.merges.push_back(left + " " + right);
  gguf.eos_id = static_cast<uint32_t>(vocab.size() - 1);
  const TestTokenizer from_gguf(convert::understand_gguf_tokenizer(gguf, "model.gguf"));

  for (const std::string text : {"", "the the\xC3\xA9 the's 12", "\xFF\n the"}) {
    EXPECT_EQ(from_vocab.encode(text), expected.encode(text));
    EXPECT_EQ(from_gguf.encode(text), expected.encode(text));
    EXPECT_EQ(expected.decode(expected.encode(text)), text);
  }
  EXPECT_EQ(from_vocab->end(), from_gguf->end());
  EXPECT_EQ(from_vocab->find_special("<|endoftext|>"), from_gguf->end());
}

TEST(TokenizerFormats, CharactersAreTheSameFromPickleAndJson) {
  const TempFolder folder;
  PickleBuilder builder;
  builder.code(op::kEmptyDict).text("vocab_size").number(3).code(op::kSetItem);
  builder.text("itos").code(op::kEmptyDict);
  const std::vector<std::string> characters = {"\n", "a", "\xC3\xA9"};
  for (int32_t id = 0; id < 3; ++id) {
    builder.number(id).text(characters[static_cast<size_t>(id)]).code(op::kSetItem);
  }
  builder.code(op::kSetItem).text("stoi").code(op::kEmptyDict);
  for (int32_t id = 0; id < 3; ++id) {
    builder.text(characters[static_cast<size_t>(id)]).number(id).code(op::kSetItem);
  }
  const auto pickle = folder.write("meta.pkl", builder.code(op::kSetItem).stop());
  const auto file = folder.write("chars.json", json{{"\n", 0}, {"a", 1}, {"\xC3\xA9", 2}}.dump());
  for (const auto& path : {pickle, file}) {
    const TestTokenizer tokenizer(convert::read_tokenizer(path));
    EXPECT_EQ(tokenizer.encode("a\xC3\xA9\n"), (std::vector<TokenId>{1, 2, 0}));
    EXPECT_THROW(tokenizer.encode("b"), std::runtime_error);
  }
}

TEST(TokenizerFormats, UserDefinedPiecesAreReadInEveryText) {
  SentencePieceFile file{llama_pieces(llama_texts())};
  file.pieces.push_back({"<tab>", 0.0f, convert::PieceType::kUserDefined});
  const TempFolder folder;
  const TestTokenizer tokenizer(
      convert::read_tokenizer(folder.write("tokenizer.model", file.bytes())));
  const auto id = static_cast<TokenId>(file.pieces.size() - 1);
  const std::vector<TokenId> ids = tokenizer.encode("the<tab>the");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 1);
  EXPECT_EQ(tokenizer.decode(ids), "the<tab>the");
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("<tab>the")),
            (std::vector<std::string>{"<s>", " ", "<tab>", "the"}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<tab>the")), "<tab>the");
}

TEST(TokenizerFormats, UnusedPiecesOnlyFillTheVocabularyUp) {
  SentencePieceFile file{llama_pieces(llama_texts())};
  file.pieces.push_back({"x", 0.0f, convert::PieceType::kUnused});
  file.pieces.push_back({"[PAD270]", 0.0f, convert::PieceType::kUnused});
  const TempFolder folder;
  const TestTokenizer tokenizer(
      convert::read_tokenizer(folder.write("tokenizer.model", file.bytes())));
  EXPECT_EQ(tokenizer->vocab_size(), file.pieces.size());
  const std::vector<TokenId> ids = tokenizer.encode("x[PAD270]");
  EXPECT_EQ(ids.size(), 2 + 9u);  // begin, prefix, and a byte each
  EXPECT_EQ(tokenizer.decode(ids), "x[PAD270]");
}

}  // namespace
}  // namespace arenite::testing
