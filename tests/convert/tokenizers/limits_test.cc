// SPDX-License-Identifier: Apache-2.0
// Files of hostile size are refused by name before they take time or memory.
#include <gtest/gtest.h>

#include <string>

#include "convert/files/input_limits.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::testing {
namespace {

using convert::SentencePiece;
using Words = std::initializer_list<std::string_view>;

::testing::AssertionResult refuses_limit(const std::string& name, const std::string& bytes,
                                         Words words) {
  const TempFolder folder;
  const auto file = folder.write(name, bytes);
  return refuses([&] { convert::read_tokenizer(file); }, words);
}

std::vector<SentencePiece> with_long_piece(size_t bytes) {
  return llama_pieces({std::string(bytes, 'a')});
}

TEST(TokenizerLimits, ApplyToTheLengthOfAToken) {
  const size_t longer = format::kTokenBytesMax + 1;
  const std::string sentence_pieces = SentencePieceFile{.pieces = with_long_piece(longer)}.bytes();
  EXPECT_TRUE(refuses_limit("tokenizer.model", sentence_pieces, {"token 259", "1025", "1024"}));
  EXPECT_TRUE(refuses_limit("tokenizer.bin", llama2c_file(with_long_piece(1000000)),
                            {"token 259", "1000000 bytes", "1024"}));
  EXPECT_TRUE(refuses_limit("vocab.txt", "[UNK]\n" + std::string(longer, 'a'),
                            {"token 1", "1025 bytes", "1024"}));
  const TempFolder folder;
  EXPECT_NO_THROW(convert::read_tokenizer(
      folder.write("tokenizer.bin", llama2c_file(with_long_piece(format::kTokenBytesMax)))));
}

TEST(TokenizerLimits, ApplyToTheNumberOfTokens) {
  const size_t more = format::kVocabularyMax + 1;
  std::string pieces;  // messages without a field
  for (size_t i = 0; i < more; ++i) pieces += std::string("\x0A\x00", 2);
  EXPECT_TRUE(
      refuses_limit("tokenizer.model", "\x0A\x03\x0A\x01x" + pieces, {"more than 1048576 tokens"}));
  std::string bin(4, '\1');
  bin += std::string(8 * more, '\0');
  EXPECT_TRUE(refuses_limit("tokenizer.bin", bin, {"more than 1048576 tokens"}));
  EXPECT_TRUE(refuses_limit("vocab.txt", std::string(more, '\n'), {"more than 1048576 tokens"}));
}

TEST(TokenizerLimits, ApplyToTheSizeOfAFile) {
  for (const char* name : {"tokenizer.bin", "tokenizer.model", "vocab.txt", "meta.pkl"}) {
    const TempFolder folder;
    const std::string start = std::string(name) == "tokenizer.model" ? "\x0A\x01"
                              : std::string(name) == "meta.pkl"      ? "\x80\x02"
                                                                     : "ab";
    const auto file = folder.write(name, start);
    std::filesystem::resize_file(file, convert::kVocabularyBytesMax + 1);  // takes no disk
    EXPECT_TRUE(
        refuses([&] { convert::read_tokenizer(file); }, {name, "16777217 bytes", "16777216"}));
  }
}

TEST(PieceSearch, FindsPiecesAtEitherEnd) {
  const std::vector<std::string_view> texts = {"ab", "", "a", "abc", "bc", "c", "\xC3\xA9"};
  std::vector<TokenId> found;
  const convert::PieceSearch begins(texts, convert::TextEdge::kBegin);
  begins.find("abcd", found);
  EXPECT_EQ(found, (std::vector<TokenId>{2, 0, 3}));
  begins.find("abc", found);  // not all of it
  EXPECT_EQ(found, (std::vector<TokenId>{2, 0}));
  begins.find("\xC3\xA9x", found);
  EXPECT_EQ(found, (std::vector<TokenId>{kNoToken, 6}));
  begins.find("xab", found);
  EXPECT_EQ(found, (std::vector<TokenId>{kNoToken, kNoToken}));
  begins.find("", found);
  EXPECT_TRUE(found.empty());
  const convert::PieceSearch ends(texts, convert::TextEdge::kEnd);
  ends.find("aabc", found);
  EXPECT_EQ(found, (std::vector<TokenId>{5, 4, 3}));
  ends.find("x\xC3\xA9", found);
  EXPECT_EQ(found, (std::vector<TokenId>{kNoToken, 6}));
}

}  // namespace
}  // namespace arenite::testing
