// SPDX-License-Identifier: Apache-2.0
// Tests WordPiece: characters, words, their pieces, and decoding.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "arenite/text_stream.h"
#include "core/utf8.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

using Texts = std::vector<std::string>;

Texts encoded(const convert::TokenizerSpec& spec, std::string_view text,
              const EncodeOptions& options = {.add_bos_and_end = false}) {
  const TestTokenizer tokenizer(spec);
  return tokenizer.texts(tokenizer.encode(text, options));
}

// The message of the failure; empty where there is none.
std::string failure(const convert::TokenizerSpec& spec, std::string_view text) {
  try {
    (void)encoded(spec, text);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(WordPiece, TakesTheLongestTokensFromLeftToRight) {
  const convert::TokenizerSpec spec = word_spec({"un", "una", "##a", "##aff", "##able", "##ff"});
  EXPECT_EQ(encoded(spec, "unaffable"), (Texts{"una", "##ff", "##able"}));
  EXPECT_EQ(encoded(spec, "una un"), (Texts{"una", "un"}));
}

TEST(WordPiece, GivesAWordWithoutPiecesOneUnknownToken) {
  const convert::TokenizerSpec spec = word_spec({"the", "##r", "##e", "a"});
  EXPECT_EQ(encoded(spec, "there therf a"), (Texts{"the", "##r", "##e", "[UNK]", "a"}));
  EXPECT_EQ(encoded(spec, "e \xFF a\xFF"), (Texts{"[UNK]", "[UNK]", "[UNK]"}));
}

TEST(WordPiece, NeverBeginsAWordWithAContinuation) {
  const convert::TokenizerSpec spec = word_spec({"##ab", "##", "#", "a", "b", "##b", "##a"});
  EXPECT_EQ(encoded(spec, "##ab"), (Texts{"#", "#", "a", "##b"}));
}

TEST(WordPiece, FoldsCharactersBeforeItLooksWordsUp) {
  const convert::TokenizerSpec spec = word_spec({"the", "cafe", "i", "##\xCC\x87x"});
  EXPECT_EQ(encoded(spec, "THE Caf\xC3\x89 cafe\xCC\x81"), (Texts{"the", "cafe", "cafe"}));
  EXPECT_EQ(encoded(spec, "\xC4\xB0x"), (Texts{"i", "##\xCC\x87x"}));
  EXPECT_EQ(encoded(spec, std::string_view("t\0h\0e", 5)), (Texts{"the"}));
}

TEST(WordPiece, MakesAWordOfEachPunctuationAndIdeograph) {
  convert::TokenizerSpec spec =
      word_spec({"a", "b", "-", "\xE2\x80\x9C", "\xE4\xB8\xAD", "\xE6\x96\x87"});
  EXPECT_EQ(encoded(spec,
                    "a-b\xE2\x80\x9C"
                    "a"),
            (Texts{"a", "-", "b", "\xE2\x80\x9C", "a"}));
  EXPECT_EQ(encoded(spec, "a\xE4\xB8\xAD\xE6\x96\x87"),
            (Texts{"a", "\xE4\xB8\xAD", "\xE6\x96\x87"}));
  spec.flags &= ~uint32_t{format::kIdeographsAreWords};
  EXPECT_EQ(encoded(spec, "a\xE4\xB8\xAD\xE6\x96\x87 a"), (Texts{"[UNK]", "a"}));
}

std::string between_letters(uint32_t code_point) {
  char form[kUtf8BytesMax];
  return "a" + std::string(form, encode_utf8(code_point, form)) + "a";
}

// Tests the first and the last of each range, and their neighbours.
TEST(WordPiece, KnowsTheIdeographsAndSpacesOfUnicode) {
  const convert::TokenizerSpec spec = word_spec({"a"});
  for (const auto& [first, last] :
       std::initializer_list<std::pair<uint32_t, uint32_t>>{{0x3400, 0x4DBF},
                                                            {0x4E00, 0x9FFF},
                                                            {0xF900, 0xFAFF},
                                                            {0x20000, 0x2A6DF},
                                                            {0x2A700, 0x2B81F},
                                                            {0x2B920, 0x2CEAF},
                                                            {0x2F800, 0x2FA1F}}) {
    EXPECT_EQ(encoded(spec, between_letters(first)), (Texts{"a", "[UNK]", "a"})) << first;
    EXPECT_EQ(encoded(spec, between_letters(last)), (Texts{"a", "[UNK]", "a"})) << last;
    EXPECT_EQ(encoded(spec, between_letters(first - 1)), (Texts{"[UNK]"})) << first;
    EXPECT_EQ(encoded(spec, between_letters(last + 1)), (Texts{"[UNK]"})) << last;
  }
  for (const auto& [first, last] :
       std::initializer_list<std::pair<uint32_t, uint32_t>>{{0x85, 0x85},
                                                            {0xA0, 0xA0},
                                                            {0x1680, 0x1680},
                                                            {0x2000, 0x200A},
                                                            {0x2028, 0x2029},
                                                            {0x202F, 0x202F},
                                                            {0x205F, 0x205F},
                                                            {0x3000, 0x3000}}) {
    EXPECT_EQ(encoded(spec, between_letters(first)), (Texts{"a", "a"})) << first;
    EXPECT_EQ(encoded(spec, between_letters(last)), (Texts{"a", "a"})) << last;
    EXPECT_EQ(encoded(spec, between_letters(first - 1)), (Texts{"[UNK]"})) << first;
    EXPECT_EQ(encoded(spec, between_letters(last + 1)), (Texts{"[UNK]"})) << last;
  }
}

TEST(WordPiece, DecomposesHangulWhereAskedTo) {
  convert::TokenizerSpec spec = word_spec(
      {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xE1\x84\x80\xE1\x85\xA1", "\xED\x95\x9C"});
  EXPECT_EQ(encoded(spec, "\xED\x95\x9C \xEA\xB0\x80"),
            (Texts{"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xE1\x84\x80\xE1\x85\xA1"}));
  spec.flags &= ~uint32_t{format::kDecomposeHangul};
  EXPECT_EQ(encoded(spec, "\xED\x95\x9C \xEA\xB0\x80"), (Texts{"\xED\x95\x9C", "[UNK]"}));
}

TEST(WordPiece, CleansUpAsItsDecoderDoes) {
  const std::vector<std::string> words = {
      ".",  "it",  "'", "s",  "do",  "n't", ".",    "a", "##.", "...", ",", "?!",  "!", "'s",
      "do", "not", "'", "'m", "'ve", "'re", "n'ts", "(", "x",   ")",   ":", "'ll", ".5"};
  convert::TokenizerSpec spec = word_spec({});
  std::vector<TokenId> ids;
  for (const std::string& word : words) {
    ids.push_back(static_cast<TokenId>(spec.tokens.size()));
    spec.tokens.push_back(word);
  }
  EXPECT_EQ(TestTokenizer(spec).decode(ids),
            ". it ' s do n't . a. ... , ?! ! 's do not ' 'm 've 're n'ts ( x ) : 'll .5");
  spec.flags |= format::kCleansUp;
  EXPECT_EQ(TestTokenizer(spec).decode(ids),
            ". it ' s don't. a....,?!!'s do not ''m've'ren'ts ( x ) : 'll.5");
}

TEST(WordPiece, GivesTooLongAWordTheUnknownToken) {
  const convert::TokenizerSpec spec = word_spec({"a", "##a"});
  EXPECT_EQ(encoded(spec, std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(encoded(spec, std::string(101, 'a')), (Texts{"[UNK]"}));
}

TEST(WordPiece, ReadsSpecialTokensOnlyWhereAllowed) {
  const convert::TokenizerSpec spec = word_spec({"a", "b", "[", "]", "sep"});
  EXPECT_EQ(encoded(spec, "a[SEP]b"), (Texts{"a", "[", "sep", "]", "b"}));
  EXPECT_EQ(encoded(spec, "a[SEP]b", {.read_specials = true}),
            (Texts{"[CLS]", "a", "[SEP]", "b", "[SEP]"}));
}

TEST(WordPiece, SaysWhichWordHasNoTokensWhereNoneStandsForIt) {
  convert::TokenizerSpec spec = word_spec({"a", "##b", "c"});
  spec.unknown = format::Unknown::kRefuse;
  EXPECT_EQ(encoded(spec, "ab c"), (Texts{"a", "##b", "c"}));
  const std::string message = failure(spec, "c[SEP] ab\xC3\x89");
  EXPECT_NE(message.find("lacks a word"), std::string::npos) << message;
  spec.unknown = format::Unknown::kDrop;
  EXPECT_EQ(encoded(spec, "ab x c"), (Texts{"a", "##b", "c"}));
}

TEST(WordPiece, PointsAtTheWordWithoutTokens) {
  convert::TokenizerSpec spec = word_spec({"a", "c"});
  spec.unknown = format::Unknown::kRefuse;
  const TestTokenizer tokenizer(spec);
  const std::string_view text =
      "c[SEP] \xCC\x81\xC3\x89"
      "a";
  std::vector<TokenId> ids(encode_tokens_max(text.size()));
  Diagnostic why;
  const auto count = tokenizer->encode(text, {.read_specials = true}, ids, &why);
  EXPECT_EQ(count.status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "text");
  EXPECT_EQ(why.index, 9u);  // the accent before it is not part of it
  EXPECT_EQ(why.found, 0xC9u);
}

TEST(WordPiece, DecodesWithSpacesBetweenWords) {
  const TestTokenizer tokenizer(word_spec({"play", "##ing", ",", "chess"}));
  EXPECT_EQ(tokenizer.decode({2, 4, 5, 6, 7, 3}), "playing , chess");
  EXPECT_EQ(tokenizer.decode({5, 4}), "##ing play");
  EXPECT_EQ(tokenizer.decode({4, 5}, {.is_continuation = true}), " playing");
  EXPECT_EQ(tokenizer.decode({2, 4}, {.keep_specials = true}), "[CLS] play");
}

TEST(WordPiece, ReleasesAnIncompleteCharacterBeforeASpace) {
  const TestTokenizer tokenizer(word_spec({"a\xE2\x82", "##\xAC", "b"}));
  EXPECT_EQ(tokenizer.decode({4, 5, 6}), "a\xE2\x82\xAC b");
  TextStream stream(*tokenizer);
  EXPECT_EQ(stream.next(4).tail, "a");
  const TextParts parts = stream.next(6);
  EXPECT_EQ(parts.head, "\xE2\x82 ");
  EXPECT_EQ(parts.tail, "b");
}

TEST(WordPiece, TakesTimeInProportionToAnyText) {
  std::string almost(100, 'a');  // tried at each letter, in vain
  almost += 'b';
  convert::TokenizerSpec spec = word_spec({almost, "##" + almost, "##a", "a"});
  spec.word_characters_max = format::kWordCharactersMax;
  const TestTokenizer tokenizer(spec);
  std::string text(1u << 16, 'a');
  for (size_t i = 1023; i < text.size(); i += 1024) text[i] = ' ';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer.encode_bare(text).size(), text.size() / 1024 * 1023);
  EXPECT_EQ(tokenizer.encode_bare(std::string(1u << 20, 'a')).size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace arenite::test
