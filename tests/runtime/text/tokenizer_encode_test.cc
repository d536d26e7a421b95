// SPDX-License-Identifier: Apache-2.0
// Tests encoding: prefixes, unknown characters, special tokens, whole tokens, arguments.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/model_factory.h"
#include "support/random.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

using Texts = std::vector<std::string>;

std::string random_bytes(uint64_t seed, uint32_t length) {
  Random random(seed);
  std::string bytes;
  for (uint32_t i = 0; i < length; ++i) bytes += static_cast<char>(random.below(256));
  return bytes;
}

convert::TokenizerSpec story_pieces(bool byte_fallback) {
  return piece_spec({" the", " t", "he", " ", "t", "h", "e", "c", "a", " ca", " c", "\xC3\xA9"},
                    byte_fallback);
}

// Adds a token with a name and returns its id.
TokenId add_special(convert::TokenizerSpec& spec, const std::string& name, uint32_t flags = 0) {
  const auto id = static_cast<TokenId>(spec.tokens.size());
  spec.tokens.push_back(name);
  spec.specials[id] = static_cast<uint8_t>(flags);
  return id;
}

TEST(TokenizerEncode, RoundTripsAnyBytesThroughByteTokens) {
  const TestTokenizer pairs(byte_spec({"the", " the", "\xE2\x82"}, {{convert::kLlama3Split}}));
  const TestTokenizer gpt2(byte_spec({"the"}, {{convert::kGpt2Split}}));
  convert::TokenizerSpec spec = story_pieces(true);
  const TestTokenizer pieces(spec);
  for (uint32_t length = 0; length < 200; ++length) {
    const std::string text = random_bytes(length, length);
    for (const TestTokenizer* tokenizer : {&pairs, &gpt2, &pieces}) {
      ASSERT_EQ((*tokenizer).decode((*tokenizer).encode(text)), text) << length;
    }
  }
}

TEST(TokenizerEncode, PutsTheModelsTokensAroundTheTextOnlyWhereAsked) {
  convert::TokenizerSpec spec = story_pieces(true);
  spec.flags |= format::kAddEnd;
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode(""), (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(tokenizer.encode_bare("").empty());
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("the")), (Texts{"<s>", " the", "</s>"}));
  EXPECT_EQ(tokenizer->bos(), 1u);
  EXPECT_EQ(tokenizer->end(), 2u);
  EXPECT_TRUE(tokenizer->is_end(2));
  EXPECT_FALSE(tokenizer->is_end(1));
}

TEST(TokenizerEncode, PutsASpaceBeforeTheTextAsTheModelWants) {
  convert::TokenizerSpec spec = story_pieces(true);
  const auto encoded = [&](format::Prefix prefix, const char* text) {
    spec.prefix = prefix;
    const TestTokenizer tokenizer(spec);
    return tokenizer.texts(tokenizer.encode_bare(text));
  };
  EXPECT_EQ(encoded(format::Prefix::kAlways, "the"), (Texts{" the"}));
  EXPECT_EQ(encoded(format::Prefix::kAlways, " the"), (Texts{" ", " the"}));
  EXPECT_EQ(encoded(format::Prefix::kUnlessSpace, "the"), (Texts{" the"}));
  EXPECT_EQ(encoded(format::Prefix::kUnlessSpace, " the"), (Texts{" the"}));
  EXPECT_EQ(encoded(format::Prefix::kNever, "the"), (Texts{"t", "he"}));
}

TEST(TokenizerEncode, GivesUnknownCharactersTheTokensOfTheModel) {
  convert::TokenizerSpec spec = story_pieces(false);
  const std::string text = "ca\xE6\x97\xA5\xE6\x9C\xAC t\xFF";
  const auto encoded = [&] {
    const TestTokenizer tokenizer(spec);
    return tokenizer.texts(tokenizer.encode_bare(text));
  };
  EXPECT_EQ(encoded(), (Texts{" ca", "<unk>", " t", "<unk>"}));
  spec.flags &= ~uint32_t{format::kFuseUnknown};
  EXPECT_EQ(encoded(), (Texts{" ca", "<unk>", "<unk>", " t", "<unk>"}));
  spec.unknown = format::Unknown::kDrop;
  EXPECT_EQ(encoded(), (Texts{" ca", " t"}));
}

TEST(TokenizerEncode, FusesUnknownCharactersOfOnePieceOnly) {
  convert::TokenizerSpec spec = byte_spec({}, {{convert::kGpt2Split}});
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = add_special(spec, "<unk>");
  spec.flags |= format::kFuseUnknown;
  for (const char c : {'1', '2', 'x'}) spec.byte_tokens[static_cast<uint8_t>(c)] = kNoToken;
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("12xa")), (Texts{"<unk>", "<unk>", "a"}));
}

// Bytes that stand for a character come between those before it and those after it.
TEST(TokenizerEncode, FusesUnknownCharactersUpToOneThatHasBytes) {
  convert::TokenizerSpec spec = story_pieces(true);
  spec.flags |= format::kFuseUnknown;
  spec.byte_tokens[0x97] = kNoToken;
  const TestTokenizer tokenizer(spec);
  const auto encoded = [&](std::string_view text) {
    return tokenizer.texts(tokenizer.encode_bare(text));
  };
  EXPECT_EQ(encoded("a\xE6\x97\xA5\xE6\x97\xA6"), (Texts{" ", "a", "<unk>"}));
  EXPECT_EQ(encoded("a\xE6\x97\xA5\xC3\xA8\xE6\x97\xA5"),
            (Texts{" ", "a", "<unk>", "\xC3", "\xA8", "<unk>"}));
}

TEST(TokenizerEncode, PutsThePrefixAloneBeforeATextLikeTokenThatBeginsTheText) {
  convert::TokenizerSpec spec = story_pieces(true);
  spec.prefix = format::Prefix::kAlways;
  spec.flags &= ~uint32_t{format::kPrefixEveryPart};
  add_special(spec, "<tab>", format::kReadAlways | format::kIsText);
  const auto encoded = [&](std::string_view text) {
    const TestTokenizer tokenizer(spec);
    return tokenizer.texts(tokenizer.encode(text, {false, true}));
  };
  EXPECT_EQ(encoded("<tab>the"), (Texts{" ", "<tab>", "t", "he"}));
  EXPECT_EQ(encoded("<tab>"), (Texts{" ", "<tab>"}));
  EXPECT_EQ(encoded("the<tab>"), (Texts{" the", "<tab>"}));
  EXPECT_EQ(encoded("<s><tab>the"), (Texts{"<s>", "<tab>", "t", "he"}));
  spec.flags |= format::kPrefixEveryPart;
  EXPECT_EQ(encoded("<tab>the"), (Texts{"<tab>", " the"}));
}

TEST(TokenizerEncode, RefusesAnUnknownCharacterWhereNothingStandsForIt) {
  convert::TokenizerSpec spec = story_pieces(false);
  spec.unknown = format::Unknown::kRefuse;
  const TestTokenizer tokenizer(spec);
  std::vector<TokenId> out(encode_tokens_max(9));
  Diagnostic why;
  EXPECT_EQ(tokenizer->encode("the\xE6\x97\xA5!", {}, out, &why).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "text");
  EXPECT_EQ(why.index, 3u);
  EXPECT_EQ(why.found, 0x65E5u);
}

TEST(TokenizerEncode, FallsBackToBytesOnlyWhereAllOfThemAreThere) {
  convert::TokenizerSpec spec = story_pieces(true);
  spec.byte_tokens[0x97] = kNoToken;
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.texts(tokenizer.encode_bare("a\xE6\x97\xA5\xF0\x9F\x99\x82")),
            (Texts{" ", "a", "<unk>", "\xF0", "\x9F", "\x99", "\x82"}));
}

TEST(TokenizerEncode, ReadsSpecialTokensOnlyWhereAllowed) {
  convert::TokenizerSpec spec = byte_spec({"<|"}, {{convert::kGpt2Split}});
  const TokenId end = add_special(spec, "<|end|>");
  const TokenId longer = add_special(spec, "<|end|>>");
  const TokenId always = add_special(spec, "<tab>", format::kReadAlways | format::kIsText);
  const TestTokenizer tokenizer(spec);
  const std::string text = "a<|end|>b<|end|>>c<tab><|en";
  const std::vector<TokenId> read = tokenizer.encode(text, {.read_specials = true});
  EXPECT_EQ(read, (std::vector<TokenId>{'a', end, 'b', longer, 'c', always, 256, 'e', 'n'}));
  const std::vector<TokenId> unread = tokenizer.encode(text);
  EXPECT_EQ(std::count(unread.begin(), unread.end(), end), 0);
  EXPECT_EQ(std::count(unread.begin(), unread.end(), always), 1);
  EXPECT_EQ(tokenizer.decode(unread), text);
  EXPECT_EQ(tokenizer.decode(read), "abc<tab><|en");
  EXPECT_EQ(tokenizer.decode(read, {.keep_specials = true}), text);
  EXPECT_EQ(tokenizer->find_special("<|end|>"), end);
  EXPECT_EQ(tokenizer->find_special("<|end|"), kNoToken);
  EXPECT_TRUE(tokenizer->is_special(end));
  EXPECT_FALSE(tokenizer->is_special(always));
  EXPECT_FALSE(tokenizer->is_special('a'));
}

TEST(TokenizerEncode, SpecialTokensEatTheSpaceAroundThem) {
  convert::TokenizerSpec spec = byte_spec({});
  const TokenId mask = add_special(spec, "<m>", format::kEatsSpaceBefore);
  const TokenId chat = add_special(spec, "<c>", format::kEatsSpaceBehind);
  const TestTokenizer tokenizer(spec);
  const EncodeOptions options{.read_specials = true};
  EXPECT_EQ(tokenizer.encode("a \n\xE3\x80\x80<m> b", options),
            (std::vector<TokenId>{'a', mask, ' ', 'b'}));
  EXPECT_EQ(tokenizer.encode("a <c> \xC2\xA0\tb", options),
            (std::vector<TokenId>{'a', ' ', chat, 'b'}));
  EXPECT_EQ(tokenizer.encode("<c>  <m>", options), (std::vector<TokenId>{chat, mask}));
}

TEST(TokenizerEncode, PutsThePrefixAfterSpecialTokensOnlyWhereTheModelDoes) {
  convert::TokenizerSpec spec = story_pieces(true);
  const EncodeOptions options{.add_bos_and_end = false, .read_specials = true};
  {
    const TestTokenizer tokenizer(spec);
    EXPECT_EQ(tokenizer.texts(tokenizer.encode("the</s>the", options)),
              (Texts{" the", "</s>", "t", "he"}));
  }
  spec.flags |= format::kPrefixEveryPart;
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("the</s>the", options)),
            (Texts{" the", "</s>", " the"}));
}

TEST(TokenizerEncode, TakesWholeTokensBeforeMerges) {
  convert::TokenizerSpec spec = byte_spec({"ab", "abc"}, {{convert::kLlama3Split}});
  spec.tokens.push_back("bcd");  // no merges make it
  const TokenId whole = static_cast<TokenId>(spec.tokens.size() - 1);
  EXPECT_EQ(TestTokenizer(spec).texts(TestTokenizer(spec).encode("bcd")), (Texts{"b", "c", "d"}));
  for (TokenId id = 0; id < spec.tokens.size(); ++id) spec.whole_tokens.push_back(id);
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("bcd"), (std::vector<TokenId>{whole}));
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("bcde abcd")),
            (Texts{"b", "c", "d", "e", " ", "abc", "d"}));
}

TEST(TokenizerEncode, RefusesASpanThatIsTooSmallAndSaysHowLargeItMustBe) {
  const TestTokenizer tokenizer(byte_spec({}));
  std::vector<TokenId> out(encode_tokens_max(5) - 1);
  Diagnostic why;
  EXPECT_EQ(tokenizer->encode("hello", {}, out, &why).status(), Status::kInvalidArgument);
  EXPECT_EQ(why.found, 32u);
  EXPECT_EQ(why.expected, 33u);
  out.push_back(0);
  EXPECT_EQ(*tokenizer->encode("hello", {}, out, &why), 5u);
}

// The span is exactly as large as promised and guarded: more would fault.
TEST(TokenizerEncode, NeedsNoMoreThanItsSpanForTheWorstTexts) {
  convert::TokenizerSpec spec = story_pieces(true);
  spec.flags |= format::kPrefixEveryPart | format::kAddEnd;
  add_special(spec, "!");
  const TestTokenizer tokenizer(spec);
  for (const std::string text : {"!", "a", "!!!!", "!a!a!a!a", "a!a!a!a", "\xFF\xFF", "aaaaaaaa"}) {
    const std::vector<TokenId> ids = tokenizer.encode(text, {.read_specials = true});
    EXPECT_LE(ids.size(), encode_tokens_max(text.size()));
  }
}

TEST(TokenizerEncode, CharactersAreTokensAndOthersAreRefused) {
  convert::TokenizerSpec spec;
  spec.origin = "characters";
  spec.kind = format::TokenizerKind::kCharacters;
  for (const char* character : {"\n", "a", "b", "\xC3\xA9"}) spec.tokens.push_back(character);
  spec.characters = {{'\n', 0}, {'a', 1}, {'b', 2}, {0xE9, 3}};
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("b\xC3\xA9\na"), (std::vector<TokenId>{2, 3, 0, 1}));
  EXPECT_THROW(tokenizer.encode("abc"), std::runtime_error);
  EXPECT_EQ(tokenizer->bos(), kNoToken);
  EXPECT_EQ(tokenizer->end(), kNoToken);
}

TEST(Tokenizer, IsUnsupportedInAModelWithoutOne) {
  const TestModel model(make_model(ModuleSpec{}).span(), Target::kPortable);
  Diagnostic why;
  EXPECT_EQ(Tokenizer::of(*model, &why).status(), Status::kUnsupported);
  EXPECT_STREQ(why.field, "tokenizer");
  EXPECT_EQ(Tokenizer::of(Model(), &why).status(), Status::kInvalidArgument);
}

TEST(Tokenizer, WithoutAModelRefusesToEncode) {
  std::vector<TokenId> out(encode_tokens_max(1));
  Diagnostic why;
  EXPECT_EQ(Tokenizer().encode("a", {}, out, &why).status(), Status::kInvalidArgument);
  EXPECT_NE(why.reason, nullptr);
}

TEST(Tokenizer, GivesNoBytesForIdsOutsideTheVocabulary) {
  const TestTokenizer tokenizer(byte_spec({}));
  EXPECT_EQ(tokenizer->token_bytes(65), "A");
  EXPECT_EQ(tokenizer->token_bytes(256), "");
  EXPECT_EQ(tokenizer->token_bytes(kNoToken), "");
  EXPECT_EQ(tokenizer.decode({65, 256, kNoToken, 66}), "AB");
}

}  // namespace
}  // namespace arenite::test
