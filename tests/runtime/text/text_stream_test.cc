// SPDX-License-Identifier: Apache-2.0
// A stream returns only whole characters, however tokens split them.
#include <gtest/gtest.h>

#include <string>

#include "arenite/text_stream.h"
#include "core/utf8.h"
#include "support/random.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

std::string joined(const TextParts& parts) {
  return std::string(parts.head) + std::string(parts.tail);
}

TEST(TextStream, HoldsACharacterBackUntilItIsComplete) {
  const TestTokenizer tokenizer(byte_spec({}));
  TextStream stream(*tokenizer);
  EXPECT_EQ(joined(stream.next(0xF0)), "");
  EXPECT_EQ(joined(stream.next(0x9F)), "");
  EXPECT_EQ(joined(stream.next(0x99)), "");
  EXPECT_EQ(joined(stream.next(0x82)), "\xF0\x9F\x99\x82");
  EXPECT_EQ(joined(stream.finish()), "");
}

// fwrite and "%.*s" accept no null pointer, even for length 0.
TEST(TextStream, ReturnsNoNullPointer) {
  const TestTokenizer tokenizer(byte_spec({}));
  TextStream stream(*tokenizer);
  for (const TokenId id : {TokenId{0xF0}, TokenId{'a'}, kNoToken}) {
    const TextParts parts = stream.next(id);
    EXPECT_NE(parts.head.data(), nullptr);
    EXPECT_NE(parts.tail.data(), nullptr);
    EXPECT_NE(tokenizer->token_bytes(id).data(), nullptr);
  }
  EXPECT_NE(stream.finish().tail.data(), nullptr);
  EXPECT_NE(StopStrings({}, {}).next({}).head.data(), nullptr);
  EXPECT_NE(StopStrings({}, {}).next({}).tail.data(), nullptr);
  EXPECT_NE(StopStrings({}, {}).finish().data(), nullptr);
}

TEST(TextStream, ReturnsCompleteCharactersAndKeepsTheRest) {
  convert::TokenizerSpec spec = byte_spec({});
  spec.tokens.push_back("\x82x\xE6");          // 256: end of one character, start of another
  spec.tokens.push_back("\x97\xA5 \xC3\xA9");  // 257
  const TestTokenizer tokenizer(spec);
  TextStream stream(*tokenizer);
  EXPECT_EQ(joined(stream.next(0xC2)), "");
  EXPECT_EQ(joined(stream.next(256)), "\xC2\x82x");
  EXPECT_EQ(joined(stream.next(257)), "\xE6\x97\xA5 \xC3\xA9");
}

TEST(TextStream, PassesBytesThatAreNoUtf8AsTheyAre) {
  const TestTokenizer tokenizer(byte_spec({}));
  TextStream stream(*tokenizer);
  EXPECT_EQ(joined(stream.next(0xFF)), "\xFF");
  EXPECT_EQ(joined(stream.next(0x80)), "\x80");
  EXPECT_EQ(joined(stream.next(0xE2)), "");
  EXPECT_EQ(joined(stream.next('a')),
            "\xE2"
            "a");
  EXPECT_EQ(joined(stream.next(0xE0)), "");
  EXPECT_EQ(joined(stream.next(0x80)), "\xE0\x80");  // overlong
  EXPECT_EQ(joined(stream.next(0xED)), "");
  EXPECT_EQ(joined(stream.next(0xE2)), "\xED");  // what follows may begin a character
  EXPECT_EQ(joined(stream.next(0x82)), "");
  EXPECT_EQ(joined(stream.finish()), "\xE2\x82");
  EXPECT_EQ(joined(stream.finish()), "");
}

// Whatever the bytes and however they are cut, nothing is lost and no character is torn apart.
TEST(TextStream, ReturnsEveryByteInWholeCharacters) {
  Random random(5);
  const std::vector<std::string> units = {"a",    "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x99\x82",
                                          "\xFF", "\xC3",     "\xE6\x97"};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    bool is_utf8 = true;
    for (int i = 0; i < 20; ++i) {
      const uint32_t unit = random.below(round % 2 == 0 ? 4 : 7);
      is_utf8 = is_utf8 && unit < 4;
      text += units[unit];
    }
    convert::TokenizerSpec spec = byte_spec({});
    std::vector<TokenId> ids;
    for (size_t begin = 0; begin < text.size();) {
      const size_t length = std::min<size_t>(1 + random.below(6), text.size() - begin);
      ids.push_back(static_cast<TokenId>(spec.tokens.size()));
      spec.tokens.push_back(text.substr(begin, length));
      begin += length;
    }
    const TestTokenizer tokenizer(spec);
    ASSERT_EQ(tokenizer.decode(ids), text);
    TextStream stream(*tokenizer);
    for (const TokenId id : ids) {
      const std::string out = joined(stream.next(id));
      for (size_t i = 0; is_utf8 && i < out.size();) {
        const CodePoint code_point = decode_utf8(std::string_view(out).substr(i));
        ASSERT_NE(code_point.value, kInvalidCodePoint) << "round " << round;
        i += code_point.bytes;
      }
    }
  }
}

TEST(TextStream, DropsTheSpaceThatThePrefixPutBeforeTheText) {
  const TestTokenizer tokenizer(piece_spec({" a", "a", " ", "b"}, false));
  EXPECT_EQ(tokenizer.decode({1, 3, 4}), "aa");
  EXPECT_EQ(tokenizer.decode({1, 5, 3}), " a");
  EXPECT_EQ(tokenizer.decode({6, 3}), "b a");
  EXPECT_EQ(tokenizer.decode({1, 3}, {.keep_specials = true}), "<s> a");
  TextStream stream(*tokenizer);
  EXPECT_EQ(joined(stream.next(3)), "a");
  EXPECT_EQ(joined(stream.next(3)), " a");
  (void)stream.finish();
  EXPECT_EQ(joined(stream.next(3)), "a");
}

TEST(TextStream, KeepsTheSpaceWhereTheTokensGoOnWithAText) {
  const TestTokenizer tokenizer(piece_spec({" a", "a", " ", "b"}, false));
  TextStream stream(*tokenizer, {.is_continuation = true});
  EXPECT_EQ(joined(stream.next(3)), " a");
  (void)stream.finish();
  EXPECT_EQ(joined(stream.next(3)), " a");
}

}  // namespace
}  // namespace arenite::test
