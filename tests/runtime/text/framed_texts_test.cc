// SPDX-License-Identifier: Apache-2.0
// Tests encoding of pairs of texts, and limits on the number of tokens.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "support/guarded_buffer.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

using Texts = std::vector<std::string>;
using Types = std::vector<int>;

// "a" is token 97, and so on. <s> text </s></s> second </s>, as RoBERTa was trained.
convert::TokenizerSpec roberta_spec() {
  convert::TokenizerSpec spec = byte_spec({});
  spec.tokens.insert(spec.tokens.end(), {"<s>", "</s>"});
  spec.specials = {{256, 0}, {257, 0}};
  spec.bos = 256;
  spec.ends = {257};
  spec.flags = format::kAddBos | format::kAddEnd;
  spec.pair_separators = 2;
  return spec;
}

struct Pair {
  Texts tokens;
  Types types;
};

// Encodes into guarded spans of exactly the promised sizes.
Pair encode_pair(const TestTokenizer& tokenizer, std::string_view text, std::string_view second,
                 const EncodeOptions& options = {}) {
  const size_t ids_max = encode_tokens_max(text.size() + second.size());
  const size_t types_max = options.tokens_max != 0 ? options.tokens_max : ids_max;
  const GuardedBuffer id_memory(ids_max * sizeof(TokenId), alignof(TokenId));
  const GuardedBuffer type_memory(types_max);
  const std::span<TokenId> ids(reinterpret_cast<TokenId*>(id_memory.data()), ids_max);
  const std::span<uint8_t> types(reinterpret_cast<uint8_t*>(type_memory.data()), types_max);
  Diagnostic why;
  const Result<size_t> count = tokenizer->encode_pair(text, second, options, ids, types, &why);
  if (!count.ok()) throw std::runtime_error(describe(count.status(), why));
  const auto end = static_cast<std::ptrdiff_t>(*count);
  return {tokenizer.texts({ids.begin(), ids.begin() + end}), {types.begin(), types.begin() + end}};
}

TEST(EncodePair, PutsBertsTokensAroundBothTexts) {
  const TestTokenizer tokenizer(word_spec({"a", "b", "##c"}));
  const Pair pair = encode_pair(tokenizer, "a bc", "b");
  EXPECT_EQ(pair.tokens, (Texts{"[CLS]", "a", "b", "##c", "[SEP]", "b", "[SEP]"}));
  EXPECT_EQ(pair.types, (Types{0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(encode_pair(tokenizer, "", "").tokens, (Texts{"[CLS]", "[SEP]", "[SEP]"}));
  EXPECT_EQ(encode_pair(tokenizer, "", "").types, (Types{0, 0, 1}));
}

TEST(EncodePair, PutsTwoTokensBetweenRobertasTexts) {
  const TestTokenizer tokenizer(roberta_spec());
  const Pair pair = encode_pair(tokenizer, "ab", "c");
  EXPECT_EQ(pair.tokens, (Texts{"<s>", "a", "b", "</s>", "</s>", "c", "</s>"}));
  EXPECT_EQ(pair.types, (Types{0, 0, 0, 0, 0, 0, 0}));
}

// Sizes are checked before a text is read, so the sizes here may be false.
TEST(EncodePair, RefusesTextsThatAreTooLongAtOnce) {
  const TestTokenizer tokenizer(roberta_spec());
  const auto long_text = [](size_t bytes) { return std::string_view("ab", bytes); };
  const auto refused_field = [&](size_t first, std::optional<size_t> second, uint64_t expected) {
    TokenId ids[16];
    Diagnostic why;
    const Result<size_t> count =
        second ? tokenizer->encode_pair(long_text(first), long_text(*second), {}, ids, {}, &why)
               : tokenizer->encode(long_text(first), {}, ids, &why);
    EXPECT_EQ(count.status(), Status::kInvalidArgument);
    EXPECT_EQ(why.expected, expected);
    return std::string(why.field);
  };
  EXPECT_EQ(refused_field(kTextBytesMax + 1, {}, kTextBytesMax), "text");
  EXPECT_EQ(refused_field(kTextBytesMax + 1, 0, kTextBytesMax), "text");
  EXPECT_EQ(refused_field(2, kTextBytesMax - 1, kTextBytesMax - 2), "second");
  EXPECT_EQ(refused_field(kTextBytesMax, 1, 0), "second");
  EXPECT_EQ(refused_field(0, kTextBytesMax + 1, kTextBytesMax), "second");
  // The longest ones are refused for the span alone.
  const size_t most = encode_tokens_max(kTextBytesMax);
  EXPECT_EQ(refused_field(kTextBytesMax, {}, most), "out");
  EXPECT_EQ(refused_field(2, kTextBytesMax - 2, most), "out");
}

TEST(EncodePair, FitsInItsSpansHoweverLongTheTextsAre) {
  const TestTokenizer bytes(roberta_spec());
  const TestTokenizer words(word_spec({"a", ",", "##a"}));
  for (size_t first = 0; first < 6; ++first) {
    for (size_t second = 0; second < 6; ++second) {
      const std::string text(first, ',');
      const Pair pair = encode_pair(bytes, text, std::string(second, 'a'));
      EXPECT_EQ(pair.tokens.size(), first + second + 4);
      EXPECT_EQ(encode_pair(words, text, std::string(second, ',')).tokens.size(),
                first + second + 3);
    }
  }
}

TEST(EncodePair, PutsNothingBetweenWhereNotAsked) {
  const TestTokenizer tokenizer(word_spec({"a", "b"}));
  const Pair pair = encode_pair(tokenizer, "a", "b", {.add_bos_and_end = false});
  EXPECT_EQ(pair.tokens, (Texts{"a", "b"}));
  EXPECT_EQ(pair.types, (Types{0, 1}));
}

TEST(EncodePair, GivesNoTypesWhereNotAsked) {
  const TestTokenizer tokenizer(word_spec({"a"}));
  std::vector<TokenId> ids(encode_tokens_max(2));
  EXPECT_EQ(*tokenizer->encode_pair("a", "a", {}, ids, {}), 5u);
}

// Lengths 0, 2, 4, 8, truncated to 7 in all: the expected lengths of Hugging Face's own tests.
TEST(EncodePair, CutsTheLongerTextFirst) {
  const TestTokenizer tokenizer(roberta_spec());
  const struct {
    size_t first, second, first_kept, second_kept;
  } cases[] = {{0, 0, 0, 0}, {0, 2, 0, 2}, {0, 4, 0, 4}, {0, 8, 0, 7}, {2, 0, 2, 0}, {2, 2, 2, 2},
               {2, 4, 2, 4}, {2, 8, 2, 5}, {4, 0, 4, 0}, {4, 2, 4, 2}, {4, 4, 3, 4}, {4, 8, 3, 4},
               {8, 0, 7, 0}, {8, 2, 5, 2}, {8, 4, 4, 3}, {8, 8, 3, 4}};
  for (const auto& item : cases) {
    const Pair pair = encode_pair(tokenizer, std::string("abcdefgh", item.first),
                                  std::string("ijklmnop", item.second), {.tokens_max = 7 + 4});
    std::string all;
    for (const std::string& token : pair.tokens) all += token;
    EXPECT_EQ(all, "<s>" + std::string("abcdefgh", item.first_kept) + "</s></s>" +
                       std::string("ijklmnop", item.second_kept) + "</s>");
  }
}

TEST(EncodeTokensMax, KeepsTheFirstTokensAndThoseAroundThem) {
  const TestTokenizer tokenizer(word_spec({"a", "b", "c"}));
  const auto kept = [&](size_t tokens_max, bool around) {
    return tokenizer.texts(
        tokenizer.encode("a b c", {.add_bos_and_end = around, .tokens_max = tokens_max}));
  };
  EXPECT_EQ(kept(4, true), (Texts{"[CLS]", "a", "b", "[SEP]"}));
  EXPECT_EQ(kept(5, true), (Texts{"[CLS]", "a", "b", "c", "[SEP]"}));
  EXPECT_EQ(kept(2, true), (Texts{"[CLS]", "[SEP]"}));
  EXPECT_EQ(kept(1, false), (Texts{"a"}));
  EXPECT_EQ(kept(0, true).size(), 5u);
}

TEST(EncodeTokensMax, RefusesLessThanTheTokensAroundATextWithBothNumbers) {
  const TestTokenizer tokenizer(roberta_spec());
  std::vector<TokenId> ids(encode_tokens_max(2), 7);
  Diagnostic why;
  EXPECT_EQ(tokenizer->encode("a", {.tokens_max = 1}, ids, &why).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "options.tokens_max");
  EXPECT_EQ(why.index, 0u);
  EXPECT_EQ(why.found, 1u);
  EXPECT_EQ(why.expected, 2u);
  EXPECT_EQ(tokenizer->encode_pair("a", "b", {.tokens_max = 3}, ids, {}, &why).status(),
            Status::kInvalidArgument);
  EXPECT_EQ(why.expected, 4u);
  EXPECT_EQ(ids, std::vector<TokenId>(ids.size(), 7));
}

TEST(EncodePair, RefusesSmallSpansAndTokenizersWithoutPairs) {
  const TestTokenizer tokenizer(word_spec({"a"}));
  std::vector<TokenId> ids(encode_tokens_max(2));
  std::vector<uint8_t> types(ids.size());
  Diagnostic why;
  const auto refused = [&](size_t id_count, size_t type_count, size_t tokens_max) {
    why = {};
    return tokenizer
        ->encode_pair("a", "a", {.tokens_max = tokens_max}, std::span(ids).first(id_count),
                      std::span(types).first(type_count), &why)
        .status();
  };
  EXPECT_EQ(refused(ids.size() - 1, 0, 0), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "out");
  EXPECT_EQ(why.index, 0u);
  EXPECT_EQ(refused(ids.size(), types.size() - 1, 0), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "out_types");
  EXPECT_EQ(why.found, types.size() - 1);
  EXPECT_EQ(why.expected, types.size());
  EXPECT_EQ(refused(ids.size(), 3, 4), Status::kInvalidArgument);
  EXPECT_EQ(refused(ids.size(), 4, 4), Status::kOk);

  const TestTokenizer single(byte_spec({}));
  EXPECT_EQ(single->encode_pair("a", "a", {}, ids, {}, &why).status(), Status::kUnsupported);
  EXPECT_STREQ(why.field, "tokenizer.pair_separators");
  EXPECT_EQ(Tokenizer().encode_pair("a", "a", {}, ids, {}, &why).status(),
            Status::kInvalidArgument);
}

TEST(EncodePair, SaysWhichTextHasAWordWithoutTokens) {
  convert::TokenizerSpec spec = word_spec({"a"});
  spec.unknown = format::Unknown::kRefuse;
  const TestTokenizer tokenizer(spec);
  std::vector<TokenId> ids(encode_tokens_max(4));
  Diagnostic why;
  EXPECT_FALSE(tokenizer->encode_pair("a", "a b", {}, ids, {}, &why).ok());
  EXPECT_STREQ(why.field, "second");
  EXPECT_EQ(why.index, 2u);
}

}  // namespace
}  // namespace arenite::test
