// SPDX-License-Identifier: Apache-2.0
// Tests the special tokens around a text where a tokenizer and the files beside it disagree, and
// the report of the disagreement.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/gguf/gguf_file.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::TokenizerSpec;
using nlohmann::json;
using test::TestTokenizer;

json special_token(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }

// "<s>" is token 1, "</s>" 2, "<unk>" 0.
json template_of(const json& single) {
  const auto token = [](const char* name, TokenId id) {
    return json{{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", json::array()},
          {"special_tokens",
           {{"<s>", token("<s>", 1)}, {"</s>", token("</s>", 2)}, {"<unk>", token("<unk>", 0)}}}};
}

const json kText = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
const json kByteLevel = {{"type", "ByteLevel"}};
const json kRoberta = {{"type", "RobertaProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 1}}};

class Frame : public ::testing::Test {
 protected:
  TokenizerSpec read(const json& post_processor) const {
    json root = low_line_json({"a", "b"}, {});
    root["post_processor"] = post_processor;
    return convert::read_tokenizer(folder_.write("tokenizer.json", root.dump()));
  }
  std::vector<std::string> encode(const json& post_processor) const {
    const TestTokenizer tokenizer(read(post_processor));
    return tokenizer.texts(tokenizer.encode("a"));
  }
  // Whether one note holds all of these.
  static ::testing::AssertionResult notes(const TokenizerSpec& spec,
                                          const std::vector<std::string>& words) {
    for (const std::string& note : spec.notes) {
      if (std::all_of(words.begin(), words.end(), [&](const std::string& word) {
            return note.find(word) != std::string::npos;
          })) {
        return ::testing::AssertionSuccess();
      }
    }
    return ::testing::AssertionFailure()
           << spec.notes.size() << " notes: " << (spec.notes.empty() ? "" : spec.notes.front());
  }

  TempFolder folder_;
};

using Texts = std::vector<std::string>;

TEST_F(Frame, PrefersThePostProcessorToTheConfigs) {
  folder_.write("config.json", json{{"bos_token_id", 0}, {"eos_token_id", 0}}.dump());
  folder_.write("tokenizer_config.json", json{{"bos_token", "<unk>"}}.dump());
  const json processor = template_of({special_token("<s>"), kText, special_token("</s>")});
  EXPECT_EQ(encode(processor), (Texts{"<s>", " ", "a", "</s>"}));
  const TokenizerSpec spec = read(processor);
  EXPECT_EQ(spec.bos, 1u);
  EXPECT_EQ(spec.ends.front(), 2u);
  EXPECT_TRUE(notes(spec, {"config.json", "bos_token_id is 0", "begin with token 1", "'<s>'"}));
  EXPECT_TRUE(notes(spec, {"config.json", "eos_token_id is 0", "end with token 2", "'</s>'"}));
  EXPECT_TRUE(notes(spec, {"tokenizer_config.json", "bos_token is \"<unk>\"", "token 1"}));
}

TEST_F(Frame, HasNoNotesWhereAllAgree) {
  folder_.write("config.json", json{{"bos_token_id", 1}, {"eos_token_id", {5, 2}}}.dump());
  folder_.write(
      "tokenizer_config.json",
      json{{"bos_token", "<s>"}, {"add_bos_token", true}, {"add_eos_token", true}}.dump());
  EXPECT_TRUE(
      read(template_of({special_token("<s>"), kText, special_token("</s>")})).notes.empty());
}

// transformers 5 ignores the two flags if there is a tokenizer.json.
TEST_F(Frame, IsNotChangedByTheConfigsFlags) {
  const json names = {
      {"tokenizer_class", "LlamaTokenizerFast"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const json begins = template_of({special_token("<s>"), kText});
  const json plain = template_of(json::array({kText}));
  const struct {
    json processor;
    const char* field;
    bool value;
    Texts texts;
    std::vector<std::string> note;  // empty: none
  } cases[] = {
      {begins, "add_bos_token", false, {"<s>", " ", "a"}, {"add_bos_token is false", "token 1"}},
      {begins, "add_bos_token", true, {"<s>", " ", "a"}, {}},
      {begins, "add_eos_token", true, {"<s>", " ", "a"}, {"add_eos_token is true", "no token"}},
      {plain, "add_bos_token", true, {" ", "a"}, {"add_bos_token is true", "begin with no token"}},
      {kByteLevel, "add_bos_token", true, {" ", "a"}, {"add_bos_token is true", "no token"}},
      {kByteLevel, "add_bos_token", false, {" ", "a"}, {}},
      {nullptr, "add_bos_token", true, {" ", "a"}, {"add_bos_token is true", "no token"}},
      {kRoberta, "add_eos_token", false, {"<s>", " ", "a", "</s>"}, {"add_eos_token is false"}},
  };
  for (const auto& each : cases) {
    json config = names;
    config[each.field] = each.value;
    folder_.write("tokenizer_config.json", config.dump());
    EXPECT_EQ(encode(each.processor), each.texts) << each.processor << config;
    const TokenizerSpec spec = read(each.processor);
    EXPECT_EQ(spec.notes.empty(), each.note.empty()) << each.processor << config;
    if (!each.note.empty()) {
      EXPECT_TRUE(notes(spec, each.note)) << each.processor << config;
    }
  }
}

TEST_F(Frame, MayStandAnywhereInASequenceButOnlyOnce) {
  const json begins = template_of({special_token("<s>"), kText});
  const auto sequence = [](const json& first, const json& second) {
    return json{{"type", "Sequence"}, {"processors", {first, second}}};
  };
  EXPECT_EQ(encode(sequence(kByteLevel, begins)), (Texts{"<s>", " ", "a"}));
  EXPECT_EQ(encode(sequence(begins, kByteLevel)), (Texts{"<s>", " ", "a"}));
  EXPECT_EQ(encode(sequence(kByteLevel, kRoberta)), (Texts{"<s>", " ", "a", "</s>"}));
  EXPECT_TRUE(refuses([&] { read(sequence(begins, kRoberta)); },
                      {"post_processor.processors[1].type", "second"}));
  EXPECT_TRUE(refuses([&] { read(sequence(kRoberta, begins)); },
                      {"post_processor.processors[1].type", "second"}));
}

TEST(GgufFrame, LlamaDefaultsToTheIdsOfSentencePiece) {
  convert::GgufTokenizer tokens;
  tokens.model = "llama";
  tokens.tokens = {"<unk>", "<s>", "</s>", "a"};
  tokens.types = {2, 3, 3, 1};
  tokens.scores = {0, 0, 0, 0};
  const TokenizerSpec spec = convert::understand_gguf_tokenizer(tokens, "m.gguf");
  EXPECT_EQ(spec.bos, 1u);
  EXPECT_EQ(spec.ends, (std::vector<TokenId>{2}));
  EXPECT_NE(spec.flags & format::kAddBos, 0u);
  tokens.bos_id = kNoToken;  // -1
  EXPECT_EQ(convert::understand_gguf_tokenizer(tokens, "m.gguf").bos, kNoToken);
  tokens.bos_id.reset();
  tokens.add_bos = false;
  EXPECT_EQ(convert::understand_gguf_tokenizer(tokens, "m.gguf").flags & format::kAddBos, 0u);
}

TEST(GgufFrame, NamesAMissingToken) {
  convert::GgufTokenizer tokens;
  tokens.model = "gpt2";
  tokens.tokens = {"a"};
  tokens.add_bos = true;
  const TokenizerSpec spec = convert::understand_gguf_tokenizer(tokens, "m.gguf");
  EXPECT_EQ(spec.flags & format::kAddBos, 0u);
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_NE(spec.notes[0].find("add_bos_token is true"), std::string::npos);
}

}  // namespace
}  // namespace arenite::testing
