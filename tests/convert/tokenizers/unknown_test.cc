// SPDX-License-Identifier: Apache-2.0
// Vocabularies without tokens for all bytes: encoding of other characters, and the report about
// them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::TokenizerSpec;
using nlohmann::json;
using test::TestTokenizer;
using Texts = std::vector<std::string>;

// The notes that a conversion prints.
std::vector<std::string> notes_of(TokenizerSpec spec) {
  convert::complete_tokenizer(spec);
  return spec.notes;
}

std::vector<convert::SentencePiece> character_pieces(const std::vector<std::string>& characters) {
  std::vector<convert::SentencePiece> pieces = {{"<unk>"}, {"<s>"}, {"</s>"}};
  for (const std::string& character : characters) pieces.push_back({character, 0.0f});
  return pieces;
}

Texts encode(const TokenizerSpec& spec, const std::string& text) {
  const TestTokenizer tokenizer(spec);
  return tokenizer.texts(tokenizer.encode(text));
}

// A model of stories on a microcontroller has such a file: token 3 is a line feed.
TEST(UnknownCharacters, Llama2cWithoutBytesGivesTheUnknownToken) {
  const TempFolder folder;
  const auto file = folder.write("tokenizer.bin",
                                 llama2c_file(character_pieces({"\n", " ", "a", "b", "\xC3\xA9"})));
  const TokenizerSpec spec = convert::read_tokenizer(file);
  EXPECT_EQ(encode(spec, "a\nb\xC3\xA9"), (Texts{"<s>", " ", "a", "\n", "b", "\xC3\xA9"}));
  EXPECT_EQ(encode(spec, "aZb"), (Texts{"<s>", " ", "a", "<unk>", "b"}));
  EXPECT_EQ(encode(spec, "a\xE6\x9D\xB1"), (Texts{"<s>", " ", "a", "<unk>"}));
  EXPECT_EQ(notes_of(spec), (Texts{"no bytes have tokens: characters without a token become token "
                                   "0, '<unk>'"}));
}

// A space before a text would be a token that no text of the training began with.
TEST(UnknownCharacters, Llama2cWithoutASpacePutsNoneBeforeTexts) {
  const TempFolder folder;
  const auto file = folder.write("tokenizer.bin", llama2c_file(character_pieces({"\n", "a", "b"})));
  EXPECT_EQ(encode(convert::read_tokenizer(file), "ab"), (Texts{"<s>", "a", "b"}));
}

TEST(UnknownCharacters, Llama2cWithBytesGivesBytesWithoutANote) {
  const TempFolder folder;
  const auto file = folder.write("tokenizer.bin", llama2c_file(llama_pieces({" ", "a"})));
  const TokenizerSpec spec = convert::read_tokenizer(file);
  EXPECT_EQ(encode(spec, "Z"), (Texts{"<s>", " ", "Z"}));
  EXPECT_TRUE(notes_of(spec).empty());
}

TEST(UnknownCharacters, JsonWithoutAByteGivesTheUnknownToken) {
  json root = low_line_json({"a", "b"}, {});
  root["model"]["vocab"].erase("<0x80>");
  const TempFolder folder;
  const TokenizerSpec spec = convert::read_tokenizer(folder.write("tokenizer.json", root.dump()));
  // U+00E9 has the bytes C3 A9; U+4000 has E4 80 80.
  EXPECT_EQ(encode(spec, "a\xC3\xA9"), (Texts{"<s>", " ", "a", "\xC3", "\xA9"}));
  EXPECT_EQ(encode(spec, "a\xE4\x80\x80"), (Texts{"<s>", " ", "a", "<unk>"}));
  EXPECT_EQ(notes_of(spec), (Texts{"1 bytes have no token: characters without a token become "
                                   "token 0, '<unk>'"}));
}

TEST(UnknownCharacters, SentencePiecesWithoutBytesGiveTheUnknownPiece) {
  SentencePieceFile model;
  model.pieces = llama_pieces({"\xE2\x96\x81", "a"});
  model.pieces.erase(model.pieces.begin() + 3, model.pieces.begin() + 259);
  model.trainer = proto_field(3, uint64_t{2});
  const TempFolder folder;
  const TokenizerSpec spec =
      convert::read_tokenizer(folder.write("tokenizer.model", model.bytes()));
  EXPECT_EQ(encode(spec, "aZZ"), (Texts{"<s>", " ", "a", "<unk>"}));
  EXPECT_EQ(notes_of(spec).size(), 1u);
}

TEST(UnknownCharacters, BytePairsWithoutBytesOmitThem) {
  json root = byte_level_json({});
  root["model"]["vocab"].erase("Z");
  const TempFolder folder;
  const TokenizerSpec spec = convert::read_tokenizer(folder.write("tokenizer.json", root.dump()));
  EXPECT_EQ(encode(spec, "aZb"), (Texts{"a", "b"}));
  EXPECT_EQ(notes_of(spec), (Texts{"1 bytes have no token: they are left out"}));
}

}  // namespace
}  // namespace arenite::testing
