// SPDX-License-Identifier: Apache-2.0
// Tests vocab.txt and the files beside it, and the vocabulary of a trained model.
#include "convert/tokenizers/tokenizer_readers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "convert/files/npy.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"

#ifdef ARENITE_HAVE_UTF8PROC
#define ARENITE_NEEDS_UTF8PROC
#else
#define ARENITE_NEEDS_UTF8PROC GTEST_SKIP() << "this build lacks utf8proc";
#endif

namespace arenite::testing {
namespace {

using convert::TokenizerSpec;
using test::TestTokenizer;
using Texts = std::vector<std::string>;

class VocabTxt : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& lines) const {
    return folder_.write("vocab.txt", lines);
  }
  TokenizerSpec read(const std::string& lines) const {
    return convert::read_tokenizer(write(lines));
  }
  void configure(const std::string& config) const {
    folder_.write("tokenizer_config.json", config);
  }

  const std::string specials_ = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  TempFolder folder_;
};

TEST_F(VocabTxt, AloneIsAsBertsUncasedModels) {
  ARENITE_NEEDS_UTF8PROC
  const TestTokenizer tokenizer(read(specials_ + "the\ncafe\n##s\n.\n"));
  EXPECT_EQ(tokenizer->vocab_size(), 9u);
  EXPECT_EQ(tokenizer.encode("The Caf\xC3\xA9s."), (std::vector<TokenId>{2, 5, 6, 7, 8, 3}));
  EXPECT_EQ(tokenizer->bos(), 2u);
  EXPECT_EQ(tokenizer->end(), 3u);
  EXPECT_EQ(tokenizer->find_special("[MASK]"), 4u);
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(5));
}

TEST_F(VocabTxt, TakesLinesAsTheyAre) {
  const TokenizerSpec spec = read("[UNK]\r\n[CLS]\r\n[SEP]\r\n a \r\n\r\nb");
  EXPECT_EQ(spec.tokens, (Texts{"[UNK]", "[CLS]", "[SEP]", " a ", "", "b"}));
  EXPECT_EQ(spec.specials.size(), 3u);
}

TEST_F(VocabTxt, FindsTheLastOfEqualWordsAsOtherProgramsDo) {
  ARENITE_NEEDS_UTF8PROC
  const TestTokenizer tokenizer(read(specials_ + "a\nb\na\n"));
  EXPECT_EQ(tokenizer.encode_bare("a b"), (std::vector<TokenId>{7, 6}));
}

TEST_F(VocabTxt, FollowsTheConfigBesideIt) {
  configure(R"({"tokenizer_class": "DistilBertTokenizer", "do_lower_case": false,
                "tokenize_chinese_chars": false, "unk_token": "<unk>", "never_split": null,
                "cls_token": {"content": "<s>"}, "model_max_length": 512})");
  folder_.write("special_tokens_map.json", R"({"sep_token": "</s>", "unk_token": "[UNK]"})");
  const TokenizerSpec spec = read("<unk>\n<s>\n</s>\na\n");
  EXPECT_EQ(spec.unknown_token, 0u);
  EXPECT_EQ(spec.bos, 1u);
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{2}));
  EXPECT_FALSE(spec.word_rules.lowers_case);
  EXPECT_FALSE(spec.word_rules.strips_accents);
  EXPECT_EQ(spec.flags & format::kIdeographsAreWords, 0u);
  EXPECT_EQ(spec.pair_separators, 1u);
  EXPECT_NE(spec.flags & format::kSecondHasType1, 0u);
  EXPECT_NE(spec.flags & format::kCleansUp, 0u);
}

TEST_F(VocabTxt, StripsAccentsAsItLowersUnlessToldOtherwise) {
  configure(R"({"strip_accents": false})");
  EXPECT_TRUE(read(specials_).word_rules.lowers_case);
  EXPECT_FALSE(read(specials_).word_rules.strips_accents);
  configure(R"({"do_lower_case": false, "strip_accents": true})");
  EXPECT_FALSE(read(specials_).word_rules.lowers_case);
  EXPECT_TRUE(read(specials_).word_rules.strips_accents);
}

TEST_F(VocabTxt, WithoutANeededTokenIsRefused) {
  EXPECT_TRUE(refuses([&] { read("[CLS]\n[SEP]\na\n"); },
                      {"vocab.txt", "3 lines", "'[UNK]'", "unk_token"}));
  EXPECT_TRUE(refuses([&] { read("[UNK]\n[SEP]\n"); }, {"'[CLS]'", "begins a text"}));
  EXPECT_TRUE(refuses([&] { read("[UNK]\n[CLS]\n"); }, {"'[SEP]'", "ends a text"}));
  EXPECT_TRUE(refuses([&] { read(""); }, {"0 lines", "'[UNK]'"}));
}

TEST_F(VocabTxt, BytesThatAreNotUtf8AreRefused) {
  EXPECT_TRUE(refuses([&] { read("[UNK]\n\xFF\xFE\n"); }, {"vocab.txt", "line 2", "UTF-8"}));
}

TEST_F(VocabTxt, UnknownConfigsAreRefused) {
  configure(R"({"tokenizer_class": "MPNetTokenizer"})");
  EXPECT_TRUE(refuses([&] { read(specials_); }, {"tokenizer_class", "MPNet", "BertTokenizer"}));
  configure(R"({"do_basic_tokenize": false})");
  EXPECT_TRUE(refuses([&] { read(specials_); }, {"do_basic_tokenize", "false"}));
  configure(R"({"never_split": ["x"]})");
  EXPECT_TRUE(refuses([&] { read(specials_); }, {"never_split"}));
  configure(R"({"do_lower_case": "yes"})");
  EXPECT_TRUE(refuses([&] { read(specials_); }, {"do_lower_case", "true or false"}));
  configure(R"({"added_tokens_decoder": {"5": {"content": "new", "normalized": true}}})");
  EXPECT_TRUE(refuses([&] { read(specials_); }, {"added_tokens_decoder.5", "normalized"}));
}

TEST_F(VocabTxt, AddedTokensNeedTheirDecoder) {
  folder_.write("added_tokens.json", R"({"<end>": 5})");
  EXPECT_TRUE(
      refuses([&] { read(specials_); }, {"added_tokens.json", "<end>", "added_tokens_decoder"}));
  configure(R"({"added_tokens_decoder": {"5": {"content": "<end>", "special": true}}})");
  const TokenizerSpec spec = read(specials_);
  EXPECT_EQ(spec.specials.at(5), 0);
  EXPECT_EQ(spec.tokens.at(5), "<end>");
}

// The tokenizer of an encoder with `rows` rows whose files are in `folder`.
std::optional<TokenizerSpec> encoder_tokenizer(const std::filesystem::path& folder,
                                               const std::filesystem::path& chosen, uint32_t rows,
                                               bool lowers_case = false) {
  return convert::tokenizer_for({.folder = folder,
                                 .files = convert::kEncoderTokenizers,
                                 .lowers_case = lowers_case,
                                 .vocab_size = rows},
                                chosen);
}

TEST_F(VocabTxt, LowersCaseForAnEncoderThatWantsIt) {
  ARENITE_NEEDS_UTF8PROC
  write(specials_ + "a\n");
  configure(R"({"do_lower_case": false})");
  const auto kept = encoder_tokenizer(folder_.path(), "", 8);
  EXPECT_FALSE(kept->word_rules.lowers_case);
  const auto lowered = encoder_tokenizer(folder_.path(), "", 8, true);
  EXPECT_TRUE(lowered->word_rules.lowers_case);
  EXPECT_FALSE(lowered->word_rules.strips_accents);
  EXPECT_FALSE(kept->folds.contains('A'));
  EXPECT_EQ(lowered->folds.at('A'), std::vector<uint32_t>{'a'});
  const auto byte_pairs = project_folder() / "models/home-intent/tokenizer.json";
  EXPECT_TRUE(refuses([&] { encoder_tokenizer("", byte_pairs, 1u << 20, true); },
                      {"tokenizer.json", "do_lower_case", "BERT's normalizer"}));
}

TEST_F(VocabTxt, IsFoundForAnEncoder) {
  ARENITE_NEEDS_UTF8PROC
  EXPECT_FALSE(encoder_tokenizer(folder_.path(), "", 9).has_value());
  write(specials_ + "a\n");
  const auto spec = encoder_tokenizer(folder_.path(), "", 8);
  ASSERT_TRUE(spec.has_value());
  EXPECT_FALSE(spec->punctuation.empty());  // completed
  EXPECT_FALSE(encoder_tokenizer(folder_.path(), convert::kNoTokenizer, 8).has_value());
  EXPECT_TRUE(encoder_tokenizer("", folder_.path(), 6).has_value());
  EXPECT_TRUE(encoder_tokenizer("", folder_.path() / "vocab.txt", 6).has_value());
  EXPECT_TRUE(refuses([&] { encoder_tokenizer(folder_.path(), "", 5); },
                      {"vocab.txt", "6 tokens", "5 rows", "--tokenizer none"}));
}

// The ids of this collection were made with a larger vocabulary, and tokens that the smaller one
// lacks then became [UNK]: sentences without any show what both have in common.
TEST(SentimentVocabulary, GivesTheIdsThatTheModelWasTrainedWith) {
  ARENITE_NEEDS_UTF8PROC
  const auto folder = collection_folder() / "real" / "sentiment-sst2";
  ARENITE_NEEDS_DATA(folder);
  const TestTokenizer tokenizer(*encoder_tokenizer(folder, "", 4998));
  const auto ids = convert::NpyArray::read(folder / "input_ids.npy").to_i64();
  const auto lengths = convert::NpyArray::read(folder / "lengths.npy").to_i64();
  const size_t row = ids.size() / lengths.size();
  std::ifstream in(folder / "sentences.txt");
  size_t lines = 0;
  size_t compared = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(lines * row);
    const std::vector<TokenId> expected(begin, begin + lengths.at(lines));
    if (std::find(expected.begin(), expected.end(), 1u) != expected.end()) continue;
    EXPECT_EQ(tokenizer.encode(line, {.tokens_max = row}), expected) << line;
    ++compared;
  }
  EXPECT_EQ(lines, 872u);
  EXPECT_EQ(compared, 231u);
}

}  // namespace
}  // namespace arenite::testing
