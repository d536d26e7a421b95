// SPDX-License-Identifier: Apache-2.0
// Tests how the parts of a tokenizer.json and the files beside it are converted.
#include <gtest/gtest.h>

#include <string>

#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::TokenizerSpec;
using nlohmann::json;
using test::TestTokenizer;

TokenizerSpec read(const json& root) {
  const TempFolder folder;
  return convert::read_tokenizer(folder.write("tokenizer.json", root.dump()));
}

json low_line() { return low_line_json({kLow, "a", "b"}, {{kLow, "a"}}); }

using Splits = std::vector<convert::SplitStep>;

json split(const std::string& expression) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", expression}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TEST(HfTokenizerJson, ByteLevelIsGpt2sPattern) {
  const TokenizerSpec spec = read(byte_level_json({{"a", "b"}}));
  EXPECT_EQ(spec.kind, format::TokenizerKind::kBytePairs);
  EXPECT_EQ(spec.splits, Splits{{convert::kGpt2Split}});
  EXPECT_EQ(spec.prefix, format::Prefix::kNever);
  EXPECT_EQ(spec.tokens[256], "ab");
  EXPECT_EQ(spec.tokens[257], "<|end|>");
  EXPECT_EQ(spec.specials.at(257), 0);
  EXPECT_EQ(spec.byte_tokens[0x20], 0x20u);
  EXPECT_EQ(spec.bos, kNoToken);
}

TEST(HfTokenizerJson, ByteLevelMayPutASpaceBeforeEachPart) {
  json root = byte_level_json({});
  root["pre_tokenizer"]["add_prefix_space"] = true;
  const TokenizerSpec spec = read(root);
  EXPECT_EQ(spec.prefix, format::Prefix::kUnlessSpace);
  EXPECT_NE(spec.flags & format::kPrefixEveryPart, 0u);
}

TEST(HfTokenizerJson, RecognisesTheExpressionsOfLlama3AndQwen2) {
  const std::string begin = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})";
  const std::string end = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json root = byte_level_json({{"a", "b"}});
  json byte_level = root["pre_tokenizer"];
  byte_level["use_regex"] = false;
  root["model"]["ignore_merges"] = true;
  const auto with = [&](const std::string& expression) {
    root["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers", {split(expression), byte_level}}};
    return read(root);
  };
  const TokenizerSpec llama = with(begin + "{1,3}" + end);
  EXPECT_EQ(llama.splits, Splits{{convert::kLlama3Split}});
  EXPECT_EQ(llama.whole_tokens.size(), 257u);  // all but the special one
  root["normalizer"] = {{"type", "NFC"}};
  root["model"]["ignore_merges"] = false;
  const TokenizerSpec qwen = with(begin + end);
  EXPECT_EQ(qwen.splits, Splits{{convert::kQwen2Split}});
  EXPECT_NE(qwen.flags & format::kExpectsNfc, 0u);
  EXPECT_TRUE(qwen.whole_tokens.empty());
  EXPECT_TRUE(TestTokenizer(qwen)->expects_nfc());
}

TEST(HfTokenizerJson, DigitsAreCutOneByOne) {
  json root = byte_level_json({});
  root["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Digits"}, {"individual_digits", true}}, root["pre_tokenizer"]}}};
  EXPECT_EQ(read(root).splits, (Splits{{convert::kDigitSplit}, {convert::kGpt2Split}}));
}

// transformers saves the normalizer of ALBERT twice in a row.
TEST(HfTokenizerJson, RepeatedStepsOfANormalizerShareTheirTable) {
#ifndef ARENITE_HAVE_UTF8PROC
  GTEST_SKIP() << "this build lacks utf8proc";
#endif
  json root = byte_level_json({{"a", "b"}});
  json steps = {{{"type", "NFKD"}}, {{"type", "StripAccents"}}, {{"type", "Lowercase"}}};
  for (int i = 0; i < 3; ++i) steps.push_back(json(steps[static_cast<size_t>(i)]));
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const TestTokenizer tokenizer(read(root));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode_bare("\u00C0B")), "ab");
}

// Gemma lists runs of U+2581 as added tokens, though merges make them.
TEST(HfTokenizerJson, AddedRunsOfSpacesArePieces) {
  json root = low_line_json({kLow, "a"}, {{kLow, kLow}, {kLow + kLow, kLow}, {kLow, "a"}});
  root["normalizer"] = root["normalizer"]["normalizers"][1];
  const json& vocab = root["model"]["vocab"];
  for (const std::string& run : {kLow + kLow, kLow + kLow + kLow}) {
    root["added_tokens"].push_back(
        {{"id", vocab[run]}, {"content", run}, {"normalized", false}, {"special", false}});
  }
  root["decoder"]["decoders"].erase(3);  // Strip
  const TokenizerSpec spec = read(root);
  const TestTokenizer tokenizer(spec);
  const auto ids = tokenizer.encode_bare("a   a  a");
  EXPECT_EQ(tokenizer.texts(ids), (std::vector<std::string>{"a", "   ", "a", "  ", "a"}));
  EXPECT_EQ(tokenizer.decode(ids), "a   a  a");
}

TEST(HfTokenizerJson, MetaspaceIsTheNormalizersPrefixUnlessThereIsASpace) {
  json root = low_line();
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kLow}, {"prepend_scheme", "first"}, {"split", false}};
  const TokenizerSpec first = read(root);
  EXPECT_EQ(first.prefix, format::Prefix::kUnlessSpace);
  EXPECT_EQ(first.flags & format::kPrefixEveryPart, 0u);
  EXPECT_TRUE(first.splits.empty());
  root["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", kLow},
                           {"add_prefix_space", true},
                           {"str_rep", kLow}};  // as older files say
  const TokenizerSpec always = read(root);
  EXPECT_NE(always.flags & format::kPrefixEveryPart, 0u);
  EXPECT_EQ(always.splits, test::space_splits());
  root["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_EQ(read(root).prefix, format::Prefix::kNever);
  root["decoder"] = {
      {"type", "Metaspace"}, {"replacement", kLow}, {"prepend_scheme", "never"}, {"split", true}};
  root["model"]["byte_fallback"] = false;
  EXPECT_EQ(read(root).flags & format::kDropFirstSpace, 0u);
}

TEST(HfTokenizerJson, CuttingAtSpacesThatAreReplacedDoesNothing) {
  json root = low_line();
  root["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kLow}};
  root["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  const TokenizerSpec spec = read(root);
  EXPECT_TRUE(spec.splits.empty());
  EXPECT_EQ(spec.prefix, format::Prefix::kNever);
}

TEST(HfTokenizerJson, LowLineTokensAreSpacesAndBytes) {
  const TokenizerSpec spec = read(low_line());
  EXPECT_EQ(spec.kind, format::TokenizerKind::kSentencePieces);
  EXPECT_EQ(spec.tokens[3 + 0x0A], "\n");
  EXPECT_EQ(spec.byte_tokens[0x0A], 3u + 0x0A);
  EXPECT_EQ(spec.characters.at(' '), spec.characters.at(0x2581));
  EXPECT_EQ(spec.tokens.back(), " a");
  EXPECT_EQ(spec.unknown_token, 0u);
  EXPECT_EQ(spec.bos, 1u);
  EXPECT_EQ(spec.flags, uint32_t{format::kAddBos | format::kPrefixEveryPart |
                                 format::kDropFirstSpace | format::kFuseUnknown});
}

// A piece is looked up as the file writes it, so that "<0x61>" is no "a".
TEST(HfTokenizerJson, BytesOfByteFallbackAreNoWholeTokens) {
  json root = low_line();
  root["model"]["ignore_merges"] = true;
  const TokenizerSpec spec = read(root);
  EXPECT_EQ(spec.whole_tokens.size(), 4u);  // U+2581, "a", "b", and both
  const TestTokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode_bare("a"), (std::vector<TokenId>{3 + 256 + 3}));
}

TEST(HfTokenizerJson, TemplatesMayEndATextToo) {
  json root = low_line();
  root["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}});
  root["post_processor"]["special_tokens"]["</s>"] = {
      {"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}};
  const TestTokenizer tokenizer(read(root));
  EXPECT_EQ(tokenizer.texts(tokenizer.encode("a")),
            (std::vector<std::string>{"<s>", " a", "</s>"}));
}

TEST(HfTokenizerJson, AddedTokensAreReadAlwaysUnlessTheyAreSpecial) {
  json root = byte_level_json({});
  root["added_tokens"].push_back({{"id", 257}, {"content", "    "}, {"special", false}});
  root["added_tokens"].push_back(
      {{"id", 258}, {"content", "<mask>"}, {"special", true}, {"lstrip", true}, {"rstrip", true}});
  const TokenizerSpec spec = read(root);
  EXPECT_EQ(spec.specials.at(257), format::kReadAlways | format::kIsText);
  EXPECT_EQ(spec.specials.at(258), format::kEatsSpaceBefore | format::kEatsSpaceBehind);
  EXPECT_EQ(spec.tokens[257], "    ");
}

TEST(HfConfig, NamesTheTokensThatBeginAndEndAText) {
  const TempFolder folder;
  folder.write("tokenizer_config.json",
               json{{"bos_token", nullptr}, {"eos_token", {{"content", "<|end|>"}}}}.dump());
  folder.write("generation_config.json", json{{"eos_token_id", {256, 65}}}.dump());
  folder.write("config.json", json{{"eos_token_id", 7}, {"bos_token_id", 7}}.dump());
  const TokenizerSpec spec =
      convert::read_tokenizer(folder.write("tokenizer.json", byte_level_json({}).dump()));
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{256, 65}));
  EXPECT_EQ(spec.bos, kNoToken);
  EXPECT_EQ(spec.flags & format::kAddBos, 0u);
}

TEST(HfConfig, FallsBackToTheModelsConfig) {
  const TempFolder folder;
  folder.write("config.json", json{{"eos_token_id", 256}, {"bos_token_id", 65}}.dump());
  const TokenizerSpec spec =
      convert::read_tokenizer(folder.write("tokenizer.json", byte_level_json({}).dump()));
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{256}));
  EXPECT_EQ(spec.bos, 65u);
}

// The flags apply to a tokenizer.model; a tokenizer.json states itself what surrounds a text
// (frame_test.cc).
TEST(HfConfig, TellsWhetherBeginAndEndTokensAreAdded) {
  const TempFolder folder;
  const auto file =
      folder.write("tokenizer.model", SentencePieceFile{.pieces = llama_pieces({"a"})}.bytes());
  const auto flags = [&](const json& config) {
    folder.write("tokenizer_config.json", config.dump());
    return convert::read_tokenizer(file).flags;
  };
  EXPECT_NE(flags({{"bos_token", "<s>"}}) & format::kAddBos, 0u);
  EXPECT_EQ(flags({{"add_bos_token", false}}) & format::kAddBos, 0u);
  EXPECT_NE(flags({{"eos_token", "</s>"}, {"add_eos_token", true}}) & format::kAddEnd, 0u);
}

TEST(HfConfig, LlamasClassDropsUnknownCharacters) {
  const TempFolder folder;
  const auto file = folder.write("tokenizer.json", low_line().dump());
  EXPECT_EQ(convert::read_tokenizer(file).unknown, format::Unknown::kToken);
  folder.write("tokenizer_config.json", json{{"tokenizer_class", "LlamaTokenizer"}}.dump());
  EXPECT_EQ(convert::read_tokenizer(file).unknown, format::Unknown::kDrop);
}

TEST(HfConfig, VocabJsonTakesItsClassAndAddedTokensFromTheConfig) {
  const TempFolder folder;
  json vocab = byte_level_json({})["model"]["vocab"];
  const auto file = folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", "a b\r\n");
  vocab["ab"] = 256;
  folder.write("vocab.json", vocab.dump());
  folder.write("tokenizer_config.json",
               json{{"tokenizer_class", "Qwen2Tokenizer"},
                    {"eos_token", "<|im_end|>"},
                    {"added_tokens_decoder",
                     {{"257", {{"content", "<|im_end|>"}, {"special", true}}},
                      {"258", {{"content", "<tool>"}, {"special", false}}}}}}
                   .dump());
  const TokenizerSpec spec = convert::read_tokenizer(file);
  EXPECT_EQ(spec.splits, Splits{{convert::kQwen2Split}});
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{257}));
  EXPECT_EQ(spec.specials.at(258), format::kReadAlways | format::kIsText);
}

// These are the files of a small GPT-2 that transformers saved.
TEST(HfConfig, PassesOverIdsThatAreNoTokens) {
  const TempFolder folder;
  folder.write("generation_config.json",
               json{{"eos_token_id", 50256}, {"bos_token_id", -1}}.dump());
  folder.write("config.json", json{{"eos_token_id", {50256, 65}}, {"bos_token_id", 50256}}.dump());
  const TokenizerSpec spec =
      convert::read_tokenizer(folder.write("tokenizer.json", byte_level_json({}).dump()));
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{65}));
  EXPECT_EQ(spec.bos, kNoToken);
}

}  // namespace
}  // namespace arenite::testing
