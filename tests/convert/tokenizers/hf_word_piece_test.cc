// SPDX-License-Identifier: Apache-2.0
// Tests a tokenizer.json of WordPiece, and the special tokens that post-processors add around
// texts.
#include <gtest/gtest.h>

#include <string>

#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::TokenizerSpec;
using nlohmann::json;

TokenizerSpec read_word_pieces(const json& root, const char* config = "{}") {
  const TempFolder folder;
  folder.write("tokenizer_config.json", config);
  return convert::read_tokenizer(folder.write("tokenizer.json", root.dump()));
}

json special(const char* name, int type) {
  return {{"SpecialToken", {{"id", name}, {"type_id", type}}}};
}

json text(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

json added(const char* content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// The tokenizer.json of a BERT as Hugging Face's library saves it.
json bert_json() {
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", {added("[UNK]", 0), added("[CLS]", 1), added("[SEP]", 2)}},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {special("[CLS]", 0), text("A", 0), special("[SEP]", 0)}},
        {"pair",
         {special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", 1),
          special("[SEP]", 1)}},
        {"special_tokens",
         {{"[CLS]", {{"id", "[CLS]"}, {"ids", {1}}, {"tokens", {"[CLS]"}}}},
          {"[SEP]", {{"id", "[SEP]"}, {"ids", {2}}, {"tokens", {"[SEP]"}}}}}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}, {"caf", 3}, {"##e", 4}, {"!", 5}}}}},
  };
}

TEST(HfWordPiece, IsReadAsBertsTokenizer) {
  const TokenizerSpec spec = read_word_pieces(bert_json());
  EXPECT_EQ(spec.kind, format::TokenizerKind::kWordPiece);
  EXPECT_EQ(spec.word_characters_max, 100u);
  EXPECT_TRUE(spec.word_rules.lowers_case && spec.word_rules.strips_accents &&
              spec.word_rules.drops_controls);
  EXPECT_NE(spec.flags & format::kIdeographsAreWords, 0u);
  EXPECT_EQ(spec.pair_separators, 1u);
  EXPECT_NE(spec.flags & format::kSecondHasType1, 0u);
#ifdef ARENITE_HAVE_UTF8PROC
  const test::TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("Caf\xC3\x89 ! x"), (std::vector<TokenId>{1, 3, 4, 5, 0, 2}));
#endif
}

TEST(HfWordPiece, DoesNothingToATextWithoutANormalizer) {
  json root = bert_json();
  root["normalizer"] = nullptr;
  const TokenizerSpec spec = read_word_pieces(root);
  EXPECT_FALSE(spec.word_rules.lowers_case || spec.word_rules.strips_accents ||
               spec.word_rules.drops_controls);
  EXPECT_EQ(spec.flags & format::kIdeographsAreWords, 0u);
}

TEST(HfWordPiece, CleansUpUnlessToldOtherwise) {
  json root = bert_json();
  EXPECT_NE(read_word_pieces(root).flags & format::kCleansUp, 0u);
  root["decoder"]["cleanup"] = false;
  EXPECT_EQ(read_word_pieces(root).flags & format::kCleansUp, 0u);
  root["decoder"] = nullptr;
  EXPECT_EQ(read_word_pieces(root).flags & format::kCleansUp, 0u);
}

TEST(HfWordPiece, TakesItsRulesFromTheNormalizer) {
  json root = bert_json();
  root["normalizer"]["lowercase"] = false;
  root["normalizer"]["clean_text"] = false;
  EXPECT_FALSE(read_word_pieces(root).word_rules.strips_accents);
  EXPECT_FALSE(read_word_pieces(root).word_rules.drops_controls);
  root["normalizer"]["strip_accents"] = true;
  EXPECT_TRUE(read_word_pieces(root).word_rules.strips_accents);
}

TEST(HfWordPiece, RefusesStepsThatBertDoesNotHave) {
  const struct {
    const char* place;
    json value;
    std::initializer_list<std::string_view> expected;
  } cases[] = {
      {"/normalizer/type", "Lowercase", {"normalizer", "'clean_text'"}},
      {"/normalizer/new", 1, {"normalizer", "'new'"}},
      {"/pre_tokenizer/type", "Whitespace", {}},
      {"/pre_tokenizer/type", "ByteLevel", {"handle_chinese_chars", "BertPreTokenizer"}},
      {"/decoder/type", "BPEDecoder", {"decoder.type", "WordPiece"}},
      {"/decoder/prefix", "@@", {"decoder.prefix", "##"}},
      {"/model/continuing_subword_prefix", "@", {"continuing_subword_prefix", "##"}},
      {"/model/max_input_chars_per_word", 0, {"max_input_chars_per_word", "1 to"}},
      {"/model/unk_token", "<unk>", {"unk_token", "of the vocabulary"}},
      {"/model/fuse_unk", true, {"model", "'fuse_unk'"}},
      {"/post_processor/type", "Other", {"post_processor.type", "BertProcessing"}},
      {"/added_tokens/0/special", false, {}},
  };
  for (const auto& item : cases) {
    json root = bert_json();
    root[json::json_pointer(item.place)] = item.value;
    if (item.expected.size() == 0) {
      EXPECT_NO_THROW(read_word_pieces(root)) << item.place;
    } else {
      EXPECT_TRUE(refuses([&] { read_word_pieces(root); }, item.expected)) << item.place;
    }
  }
}

TEST(HfWordPiece, RefusesAConfigThatSaysOtherwise) {
  EXPECT_NO_THROW(
      read_word_pieces(bert_json(), R"({"do_lower_case": true, "strip_accents": null})"));
  EXPECT_TRUE(refuses([&] { read_word_pieces(bert_json(), R"({"do_lower_case": false})"); },
                      {"tokenizer_config.json", "do_lower_case", "true", "tokenizer.json"}));
  EXPECT_TRUE(
      refuses([&] { read_word_pieces(bert_json(), R"({"tokenize_chinese_chars": false})"); },
              {"tokenize_chinese_chars"}));
}

TEST(HfPostProcessor, BertProcessingEqualsItsTemplate) {
  json root = bert_json();
  root["post_processor"] = {
      {"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 1}}};
  const TokenizerSpec spec = read_word_pieces(root);
  const TokenizerSpec expected = read_word_pieces(bert_json());
  EXPECT_EQ(spec.bos, 1u);
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{2}));
  EXPECT_EQ(spec.flags, expected.flags);
  EXPECT_EQ(spec.pair_separators, 1u);
  root["post_processor"]["sep"] = "[SEP]";
  EXPECT_TRUE(
      refuses([&] { read_word_pieces(root); }, {"post_processor.sep", "a token and its id"}));
}

TEST(HfPostProcessor, RobertaProcessingPutsTwoTokensBetweenTexts) {
  json root = byte_level_json({{"a", "b"}});
  root["post_processor"] = {{"type", "RobertaProcessing"},
                            {"sep", {"</s>", 2}},
                            {"cls", {"<s>", 0}},
                            {"trim_offsets", true},
                            {"add_prefix_space", false}};
  const TokenizerSpec spec = read_word_pieces(root);
  EXPECT_EQ(spec.bos, 0u);
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{2}));
  EXPECT_EQ(spec.pair_separators, 2u);
  EXPECT_EQ(spec.flags & format::kSecondHasType1, 0u);

  const json ids = {{"<s>", {{"id", "<s>"}, {"ids", {0}}, {"tokens", {"<s>"}}}},
                    {"</s>", {{"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}}}};
  root["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {special("<s>", 0), text("A", 0), special("</s>", 0)}},
                            {"pair",
                             {special("<s>", 0), text("A", 0), special("</s>", 0),
                              special("</s>", 0), text("B", 0), special("</s>", 0)}},
                            {"special_tokens", ids}};
  EXPECT_EQ(read_word_pieces(root).pair_separators, 2u);
  EXPECT_EQ(read_word_pieces(root).flags & format::kSecondHasType1, 0u);
}

TEST(HfPostProcessor, TakesNoPairsWhereTheTemplateIsAnother) {
  json root = bert_json();
  root["post_processor"]["pair"] = {special("[CLS]", 0), text("A", 0), special("[CLS]", 1),
                                    text("B", 1)};
  EXPECT_EQ(read_word_pieces(root).pair_separators, 0u);
  root = bert_json();
  root["post_processor"]["pair"][3] = text("A", 1);
  EXPECT_EQ(read_word_pieces(root).pair_separators, 0u);
  root = bert_json();
  root["post_processor"]["pair"][4] = special("[SEP]", 0);
  EXPECT_EQ(read_word_pieces(root).pair_separators, 0u);
}

}  // namespace
}  // namespace arenite::testing
