// SPDX-License-Identifier: Apache-2.0
// Files of hostile size: refused by name before they take time or memory, or read in time that goes
// with their size.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/input_limits.h"
#include "convert/tokenizers/piece_search.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_compiler.h"
#include "convert/tokenizers/tokenizer_file.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::testing {
namespace {

using convert::SentencePiece;
using nlohmann::json;
using Words = std::initializer_list<std::string_view>;

::testing::AssertionResult refuses_file(const std::string& name, const std::string& bytes,
                                        Words words) {
  const TempFolder folder;
  const auto file = folder.write(name, bytes);
  return refuses([&] { convert::read_tokenizer(file); }, words);
}

std::vector<SentencePiece> with_long_piece(size_t bytes) {
  return llama_pieces({std::string(bytes, 'a')});
}

TEST(TokenizerLimits, OfTheLengthOfAToken) {
  const size_t longer = format::kTokenBytesMax + 1;
  const std::string sentence_pieces = SentencePieceFile{.pieces = with_long_piece(longer)}.bytes();
  EXPECT_TRUE(refuses_file("tokenizer.model", sentence_pieces, {"token 259", "1025", "1024"}));
  EXPECT_TRUE(refuses_file("tokenizer.bin", llama2c_file(with_long_piece(1000000)),
                           {"token 259", "1000000 bytes", "1024"}));
  EXPECT_TRUE(refuses_file("vocab.txt", "[UNK]\n" + std::string(longer, 'a'),
                           {"token 1", "1025 bytes", "1024"}));
  const TempFolder folder;
  EXPECT_NO_THROW(convert::read_tokenizer(
      folder.write("tokenizer.bin", llama2c_file(with_long_piece(format::kTokenBytesMax)))));
}

TEST(TokenizerLimits, OfTheNumberOfTokens) {
  const size_t more = format::kVocabularyMax + 1;
  std::string pieces;  // messages without a field
  for (size_t i = 0; i < more; ++i) pieces += std::string("\x0A\x00", 2);
  EXPECT_TRUE(
      refuses_file("tokenizer.model", "\x0A\x03\x0A\x01x" + pieces, {"more than 1048576 tokens"}));
  std::string bin(4, '\1');
  bin += std::string(8 * more, '\0');
  EXPECT_TRUE(refuses_file("tokenizer.bin", bin, {"more than 1048576 tokens"}));
  EXPECT_TRUE(refuses_file("vocab.txt", std::string(more, '\n'), {"more than 1048576 tokens"}));
}

TEST(TokenizerLimits, OfTheSizeOfAFile) {
  for (const char* name : {"tokenizer.bin", "tokenizer.model", "vocab.txt", "meta.pkl"}) {
    const TempFolder folder;
    const std::string start = std::string(name) == "tokenizer.model" ? "\x0A\x01"
                              : std::string(name) == "meta.pkl"      ? "\x80\x02"
                                                                     : "ab";
    const auto file = folder.write(name, start);
    std::filesystem::resize_file(file, convert::kVocabularyBytesMax + 1);  // takes no disk
    EXPECT_TRUE(refuses([&] { convert::read_tokenizer(file); },
                        {name, "16777217 bytes", "16777216"}));
  }
}

// Of half as much and of all, in time of the CPU: four times as long would be a loop in a loop.
// Three allows for caches, the best of three runs for a machine that does other things.
void expect_linear(const std::function<std::string(size_t)>& bytes_of, const char* name,
                   size_t size) {
  const auto seconds = [&](size_t n) {
    const TempFolder folder;
    const auto file = folder.write(name, bytes_of(n));
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
      const std::clock_t start = std::clock();
      convert::TokenizerSpec spec = convert::read_tokenizer(file);
      convert::complete_tokenizer(spec);
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double half = seconds(size / 2);
  const double whole = seconds(size);
  EXPECT_LT(whole, 3.0 * half + 0.02) << name << ": " << half << " s, then " << whole << " s";
  ::testing::Test::RecordProperty(std::string(name) + "_milliseconds",
                                  static_cast<int>(1000 * whole));
}

std::string word_of(size_t number) {
  std::string word;
  for (; number != 0; number /= 26) word += static_cast<char>('a' + number % 26);
  return word + "_";
}

json byte_level_of(size_t tokens) {
  json root = byte_level_json({});
  for (size_t i = 0; i < tokens; ++i) root["model"]["vocab"][word_of(i)] = 300 + i;
  return root;
}

TEST(TokenizerTime, GoesWithTheNumberOfTokens) {
  expect_linear([](size_t n) { return byte_level_of(n).dump(); }, "tokenizer.json", 100000);
  expect_linear(
      [](size_t n) {
        std::string lines = "[UNK]\n[CLS]\n[SEP]\n";
        for (size_t i = 0; i < n; ++i) lines += word_of(i) + "\n";
        return lines;
      },
      "vocab.txt", 200000);
}

TEST(TokenizerTime, GoesWithTheNumberOfAddedTokens) {
  expect_linear(
      [](size_t n) {
        json root = byte_level_json({});
        for (size_t i = 0; i < n; ++i) {
          root["added_tokens"].push_back(
              {{"id", 300 + i}, {"content", "<" + word_of(i) + ">"}, {"special", true}});
        }
        return root.dump();
      },
      "tokenizer.json", format::kSpecialsMax - 1);
}

// The tables of WordPiece come from all code points, of which few matter to a small vocabulary: a
// second and a half was spent on them once.
TEST(TokenizerTime, OfASmallVocabularyIsShort) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers make it ten times as long";
#endif
  const TempFolder folder;
  const auto file = folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nhello\n##s\n");
  double best = 1e9;
  for (int run = 0; run < 3; ++run) {
    const std::clock_t start = std::clock();
    convert::TokenizerSpec spec = convert::read_tokenizer(file);
    convert::complete_tokenizer(spec);
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  EXPECT_LT(best, 0.5);
}

// Pieces of which each is the beginning of the next, and all merges that they have.
TEST(TokenizerTime, GoesWithTheBytesOfPiecesThatHoldEachOther) {
  const auto pieces_of = [](size_t n) {
    std::vector<std::string> pieces;
    for (size_t i = 0; i < n; ++i) {
      std::string piece = word_of(i);
      piece.resize(format::kTokenBytesMax, 'a');
      pieces.push_back(piece);
    }
    for (size_t length = 1; length <= 64; ++length) pieces.push_back(std::string(length, 'a'));
    return llama_pieces(pieces);
  };
  expect_linear([&](size_t n) { return llama2c_file(pieces_of(n)); }, "tokenizer.bin", 4000);
  expect_linear([&](size_t n) { return SentencePieceFile{.pieces = pieces_of(n)}.bytes(); },
                "tokenizer.model", 4000);
}

TEST(PieceSearch, FindsThePiecesAtBothEdges) {
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
