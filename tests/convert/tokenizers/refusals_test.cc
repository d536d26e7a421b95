// SPDX-License-Identifier: Apache-2.0
// Unknown settings are refused by name, with the found and the expected value.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "convert/gguf/gguf_file.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/pickle_builder.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using convert::PieceType;
using nlohmann::json;
using Words = std::initializer_list<std::string_view>;

::testing::AssertionResult refuses_file(const std::string& name, const std::string& bytes,
                                        Words words) {
  const TempFolder folder;
  const auto file = folder.write(name, bytes);
  const auto named = refuses([&] { convert::read_tokenizer(file); }, {name});
  return named ? refuses([&] { convert::read_tokenizer(file); }, words) : named;
}

::testing::AssertionResult refuses_json(json root, const std::function<void(json&)>& change,
                                        Words words) {
  change(root);
  return refuses_file("tokenizer.json", root.dump(), words);
}

::testing::AssertionResult refuses_bytes(const std::function<void(json&)>& change, Words words) {
  return refuses_json(byte_level_json({{"a", "b"}}), change, words);
}

::testing::AssertionResult refuses_low_line(const std::function<void(json&)>& change, Words words) {
  return refuses_json(low_line_json({kLow, "a"}, {{kLow, "a"}}), change, words);
}

TEST(TokenizerRefusals, NameFieldsOfModelsInATokenizerJson) {
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["type"] = "Other"; },
                            {"model.type", "Other", "BPE, Unigram, WordPiece or WordLevel"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "a"}};
      },
      {"model.type", "WordLevel", "BPE or Unigram"}));
  EXPECT_TRUE(
      refuses_bytes([](json& j) { j["model"]["dropout"] = 0.1; }, {"model.dropout", "0.1"}));
  EXPECT_TRUE(refuses_low_line([](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; },
                               {"model.end_of_word_suffix", "</w>"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["continuing_subword_prefix"] = "##"; },
                            {"model.continuing_subword_prefix", "##"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["magic"] = 1; }, {"model", "'magic'"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["merges"][0] = "a b c"; }, {"a b c", "two"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["merges"][0] = 5; }, {"merges[0]", "5"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["merges"][0] = "a c"; },
                            {"merge 0", "'ac'", "which the vocabulary lacks"}));
  EXPECT_TRUE(
      refuses_bytes([](json& j) { j["model"]["vocab"]["b"] = -1; }, {"model.vocab.b", "-1"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["vocab"]["b"] = 97; }, {"id 97", "once"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["vocab"]["b"] = 1 << 20; },
                            {"model.vocab.b", "1048576"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"].erase("vocab"); }, {"model", "'vocab'"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"] = 3; }, {"model", "3", "object"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["model"]["unk_token"] = "?!"; }, {"unk_token", "?!"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["extra"] = 1; }, {"'extra'"}));
}

TEST(TokenizerRefusals, NameStepsInATokenizerJson) {
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["normalizer"] = {{"type", "ByteLevel"}};
      },
      {"normalizer.type", "ByteLevel", "NFC"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a|b"}}}, {"content", ""}};
      },
      {"normalizer.pattern", "a|b", "a small set of characters"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["normalizer"] = {{"type", "BertNormalizer"}};
      },
      {"handle_chinese_chars", "BertPreTokenizer"}));
  EXPECT_TRUE(refuses_low_line(
      [](json& j) {
        j["normalizer"]["normalizers"][1]["pattern"] = {{"Regex", " +"}};
      },
      {"do not belong together"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
        j["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
      },
      {"model.end_of_word_suffix", "BPEDecoder"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["decoder"] = {{"type", "CTC"}, {"pad_token", "a"}, {"word_delimiter_token", "a"}};
        j["pre_tokenizer"] = nullptr;
      },
      {"decoder", "CTC", "a word delimiter"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
      },
      {"pre_tokenizer.type", "UnicodeScripts", "ByteLevel"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["pre_tokenizer"]["extra"] = 1; },
                            {"pre_tokenizer", "'extra'"}));
  EXPECT_TRUE(refuses_bytes([](json& j) { j["decoder"] = nullptr; }, {"do not belong together"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["pre_tokenizer"] = j["decoder"] = nullptr;
        j["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "b"}};
      },
      {"model.unk_token", "b"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["decoder"] = {{"type", "WordPiece"}};
      },
      {"decoder.type", "WordPiece"}));
  EXPECT_TRUE(refuses_low_line([](json& j) { j["decoder"]["decoders"][3]["start"] = 2; },
                               {"decoders[3].start", "2"}));
  EXPECT_TRUE(refuses_bytes(
      [](json& j) {
        j["post_processor"] = {{"type", "OtherProcessing"}};
      },
      {"post_processor.type", "OtherProcessing"}));
  EXPECT_TRUE(refuses_low_line(
      [](json& j) {
        json& single = j["post_processor"]["single"];
        single.push_back(single[1]);
      },
      {"post_processor.single", "one text"}));
  EXPECT_TRUE(refuses_low_line(
      [](json& j) { j["post_processor"]["special_tokens"] = json::object(); }, {"'<s>'"}));
}

json split(const json& pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

TEST(TokenizerRefusals, NameStepsThatDoNotFollowEachOther) {
  const auto refuses_steps = [](const std::vector<json>& steps, Words words) {
    return refuses_bytes(
        [&](json& j) {
          json all = json::array();
          for (const json& step : steps) all.push_back(step.is_null() ? j["pre_tokenizer"] : step);
          j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", all}};
        },
        words);
  };
  const json own;
  const json space = {{"type", "Metaspace"}, {"replacement", kLow}};
  EXPECT_TRUE(refuses_steps({own, own}, {"pretokenizers[1].type", "second"}));
  EXPECT_TRUE(refuses_steps({own, space}, {"pretokenizers[1].type", "after ByteLevel"}));
  EXPECT_TRUE(refuses_steps({space, {{"type", "Whitespace"}}}, {"[1].type", "U+2581"}));
  const json letter = {{"String", "a"}};
  EXPECT_TRUE(refuses_steps({split(letter, "Merged"), own}, {"behavior", "Merged", "Isolated"}));
  EXPECT_TRUE(refuses_steps({split(letter, "Contiguous", true), own}, {"invert", "false"}));
}

TEST(TokenizerRefusals, QuoteExpressionsThatCannotBeTables) {
  const TempFolder folder;
  const auto refuses_expression = [&](const char* expression, const char* why,
                                      const char* behavior = "Isolated") {
    json root = byte_level_json({});
    root["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {split({{"Regex", expression}}, behavior), root["pre_tokenizer"]}}};
    const auto file = folder.write("tokenizer.json", root.dump());
    return refuses(
        [&] {
          convert::TokenizerSpec spec = convert::read_tokenizer(file);
          spec.letters = spec.numbers = {0xC0, 0xD6};
          convert::complete_tokenizer(spec);
        },
        {"tokenizer.json", "the expression", why});
  };
  EXPECT_TRUE(refuses_expression("(?<=ab)c", "look-behind of more than one set"));
  EXPECT_TRUE(refuses_expression("(?!b)\\b\\w", "look-behind follows look-ahead"));
  EXPECT_TRUE(refuses_expression("(a)\\1", "the escape \\1"));
  EXPECT_TRUE(refuses_expression("(ab)\\1*", "the escape \\1"));
  EXPECT_TRUE(refuses_expression("(a)(b)\\1*", "the escape \\1"));
  EXPECT_TRUE(refuses_expression("([\\s\\S])\\1*", "too many characters"));
  EXPECT_TRUE(refuses_expression("a\\G", "the escape \\G"));
  EXPECT_TRUE(refuses_expression("a(?=bc)", "more than one set"));
  EXPECT_TRUE(refuses_expression("(?>a|b)c", "the group '(?>'"));
  EXPECT_TRUE(refuses_expression("a++[a-c]", "a possessive quantifier"));
  EXPECT_TRUE(refuses_expression("(ab)++", "several characters"));
  EXPECT_TRUE(refuses_expression("a*", "a match of no characters"));
  EXPECT_TRUE(refuses_expression("(a*)*b", "may be empty"));
  EXPECT_TRUE(refuses_expression("\\p{Greek}", "the property 'Greek'"));
  EXPECT_TRUE(refuses_expression("(?i:À)", "beyond ASCII"));
  EXPECT_TRUE(refuses_expression("a{2,1}", "the quantifier {2,1}"));
  EXPECT_TRUE(refuses_expression("(a", "no ')'"));
  EXPECT_TRUE(refuses_expression("a)", "without '('"));
  EXPECT_TRUE(refuses_expression("[a", "no end"));
  EXPECT_TRUE(refuses_expression("[b-a]", "a range of no characters"));
  EXPECT_TRUE(refuses_expression("[a&&b]", "matches no text"));
  EXPECT_TRUE(refuses_expression("ab", "to be joined", "Contiguous"));
  EXPECT_TRUE(refuses_expression("a+b|a", "many times"));
  EXPECT_TRUE(refuses_expression("(a|b)*a(a|b){12}", "states"));
  EXPECT_TRUE(refuses_expression("[ab]*a[ab]{10}", "bytes"));
}

TEST(TokenizerRefusals, NameFieldsOfUnigram) {
  const json space = {{"type", "Metaspace"}, {"replacement", kLow}, {"prepend_scheme", "always"}};
  json root = byte_level_json({});
  root["pre_tokenizer"] = root["decoder"] = space;
  root["post_processor"] = nullptr;
  root["added_tokens"] = json::array();
  root["model"] = {{"type", "Unigram"},
                   {"unk_id", 0},
                   {"vocab", json::array({json::array({"<unk>", 0.0}), json::array({kLow, -1.0}),
                                          json::array({"a", -2.0})})},
                   {"byte_fallback", false}};
  const auto refuses_with = [&](const std::function<void(json&)>& change, Words words) {
    return refuses_json(root, change, words);
  };
  const TempFolder folder;
  EXPECT_EQ(convert::read_tokenizer(folder.write("tokenizer.json", root.dump())).kind,
            format::TokenizerKind::kUnigram);
  EXPECT_TRUE(refuses_with([](json& j) { j["model"]["unk_id"] = 3; }, {"model.unk_id", "3"}));
  EXPECT_TRUE(refuses_with([](json& j) { j["model"]["vocab"] = json::array(); }, {"model.vocab"}));
  EXPECT_TRUE(refuses_with([](json& j) { j["model"]["vocab"][1] = "a"; }, {"vocab[1]", "score"}));
  EXPECT_TRUE(refuses_with([](json& j) { j["model"]["byte_fallback"] = true; },
                           {"model.byte_fallback", "256 bytes"}));
  EXPECT_TRUE(refuses_with([](json& j) { j["model"]["alpha"] = 0.1; }, {"model", "'alpha'"}));
  EXPECT_TRUE(refuses_with(
      [](json& j) {
        for (json& token : j["model"]["vocab"]) token[1] = 50.0;
      },
      {"scores are above 10"}));
  EXPECT_TRUE(refuses_with(
      [](json& j) {
        j["model"]["vocab"].push_back({" ", -1.0});
      },
      {"U+2581", "differ only"}));
  const auto with_step = [](const json& step) { return [=](json& j) { j["normalizer"] = step; }; };
  EXPECT_TRUE(refuses_with(with_step({{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}),
                           {"precompiled_charsmap", "base64"}));
  EXPECT_TRUE(refuses_with(with_step({{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAA"}}),
                           {"precompiled_charsmap", "damaged"}));
  EXPECT_TRUE(refuses_with(
      with_step({{"type", "Replace"}, {"pattern", {{"Regex", "a+b"}}}, {"content", " "}}),
      {"normalizer.pattern", "a+b", "white space"}));
  EXPECT_TRUE(refuses_with(
      [&](json& j) {
        j["normalizer"] = {{"type", "Lowercase"}};
        json first = space;
        first["prepend_scheme"] = "first";
        j["pre_tokenizer"] = {{"type", "Sequence"},
                              {"pretokenizers", {{{"type", "WhitespaceSplit"}}, first}}};
      },
      {"prepend_scheme", "first", "always or never"}));
}

TEST(TokenizerRefusals, NameFieldsOfAddedTokens) {
  const auto added = [](const char* field, const json& value) {
    return [=](json& j) { j["added_tokens"][0][field] = value; };
  };
  EXPECT_TRUE(refuses_bytes(added("id", 65), {"added_tokens[0].id", "65"}));
  EXPECT_TRUE(refuses_bytes(added("id", "65"), {"added_tokens[0].id"}));
  EXPECT_TRUE(refuses_bytes(added("content", 5), {"added_tokens[0].content", "a string"}));
  EXPECT_TRUE(refuses_bytes(added("extra", 5), {"added_tokens[0]", "'extra'"}));
}

TEST(TokenizerRefusals, NameFieldsOfConfigs) {
  const TempFolder folder;
  const auto file = folder.write("tokenizer.json", byte_level_json({}).dump());
  const auto refuses_config = [&](const char* name, const json& config, Words words) {
    const auto path = folder.write(name, config.dump());
    const auto result = refuses([&] { convert::read_tokenizer(file); }, words);
    std::filesystem::remove(path);
    return result;
  };
  EXPECT_TRUE(refuses_config("tokenizer_config.json", {{"eos_token", "<eos>"}},
                             {"tokenizer_config.json", "eos_token", "<eos>", "vocabulary"}));
  EXPECT_TRUE(refuses_config("generation_config.json", {{"eos_token_id", "5000"}},
                             {"generation_config.json", "eos_token_id", "5000", "an id"}));
  EXPECT_TRUE(refuses_config("config.json", {{"bos_token_id", 1.5}}, {"config.json", "1.5"}));
}

TEST(TokenizerRefusals, NameTokensToAddThatAreMissing) {
  const TempFolder folder;
  const auto file = folder.write("vocab.json", R"({"a": 0, "bc": 1})");
  folder.write("merges.txt", "");
  folder.write("tokenizer_config.json", R"({"add_bos_token": true})");
  EXPECT_TRUE(refuses([&] { convert::read_tokenizer(file); }, {"add_bos_token", "no such token"}));
}

TEST(TokenizerRefusals, NameFilesBesideVocabJson) {
  const TempFolder folder;
  const auto file = folder.write("vocab.json", R"({"ab": 0, "c": 1})");
  EXPECT_TRUE(refuses([&] { convert::read_tokenizer(file); }, {"vocab.json", "merges.txt"}));
  folder.write("merges.txt", "a b\n");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "CodeGenTokenizer"})");
  EXPECT_TRUE(refuses([&] { convert::read_tokenizer(file); },
                      {"tokenizer_class", "CodeGenTokenizer", "GPT2Tokenizer"}));
}

TEST(TokenizerRefusals, NameFieldsOfSentencePieceModels) {
  const std::vector<convert::SentencePiece> pieces = llama_pieces({kLow, "a"});
  const auto refuses_model = [&](const SentencePieceFile& file, Words words) {
    return refuses_file("tokenizer.model", file.bytes(), words);
  };
  const std::string identity = proto_field(4, uint64_t{0});
  EXPECT_TRUE(refuses_model({pieces, proto_field(3, uint64_t{5})}, {"model_type", "5", "1 to 4"}));
  const std::string bpe = proto_field(3, uint64_t{2});
  EXPECT_TRUE(refuses_model(
      {pieces, bpe, proto_field(1, std::string("nmt_nfkc")) + proto_field(2, std::string("x"))},
      {"precompiled_charsmap", "truncated"}));
  EXPECT_TRUE(
      refuses_model({pieces, bpe, identity + proto_field(5, uint64_t{0})}, {"escape_whitespaces"}));
  EXPECT_TRUE(refuses_model({pieces, bpe + proto_field(24, uint64_t{1}), identity},
                            {"treat_whitespace_as_suffix"}));
  auto changed = pieces;
  changed.push_back({"\n", 0.0f, PieceType::kUserDefined});
  EXPECT_TRUE(refuses_model({changed, bpe, ""}, {"user-defined", "normalizer would change"}));
  changed.back() = {kLow + "a", 0.0f, PieceType::kUnused};
  EXPECT_TRUE(refuses_model({changed}, {"piece 261", kLow + "a", "unused"}));
  changed.back() = {"<0x1>", 0.0f, PieceType::kByte};
  EXPECT_TRUE(refuses_model({changed}, {"piece 261", "<0x0A>"}));
  changed.back() = {"a", 0.0f, PieceType::kNormal};
  EXPECT_TRUE(refuses_model({changed}, {"piece 261", "repeats"}));
  changed.back() = {"b", std::numeric_limits<float>::quiet_NaN(), PieceType::kNormal};
  EXPECT_TRUE(refuses_model({changed}, {"score of piece 261", "is NaN"}));
  changed.back() = {"b", 0.0f, static_cast<PieceType>(9)};
  EXPECT_TRUE(refuses_model({changed}, {"piece 261", "type is 9"}));
}

TEST(TokenizerRefusals, NameBrokenProtobufFields) {
  const auto refuses_message = [](const std::string& bytes, Words words) {
    return refuses_file("tokenizer.model", bytes, words);
  };
  EXPECT_TRUE(
      refuses_message("\x0A\x05"
                      "abc",
                      {"field 1", "5 bytes", "3 are left"}));
  EXPECT_TRUE(refuses_message("\x0A\x02\x0B\x0B", {"wire type 3"}));
  EXPECT_TRUE(refuses_message("\x0A\x01\x80", {"a number has", "are left"}));
  EXPECT_TRUE(
      refuses_message("\x0A\x03\x15"
                      "ab",
                      {"a number has", "are left"}));
  EXPECT_TRUE(refuses_message("\x0A\x02\x08\x01", {"field 1 is of wire type 0"}));
  EXPECT_TRUE(refuses_message("\x0A" + std::string(11, '\xFF'), {"ten bytes"}));
  EXPECT_TRUE(refuses_message(proto_field(1, std::string("\x02\x00", 2)), {"number"}));
}

TEST(TokenizerRefusals, NameFaultsOfLlama2cFiles) {
  const auto refuses_bin = [](const std::string& bytes, Words words) {
    return refuses_file("tokenizer.bin", bytes, words);
  };
  std::vector<convert::SentencePiece> pieces = llama_pieces({"a"});
  const std::string whole = llama2c_file(pieces);
  EXPECT_TRUE(refuses_bin(whole.substr(0, whole.size() - 1), {"truncated"}));
  EXPECT_TRUE(refuses_bin(whole.substr(0, 3), {"truncated"}));
  pieces[10].text = "x";
  EXPECT_TRUE(refuses_bin(llama2c_file(pieces), {"token 10", "'x'", "byte 7"}));
  pieces.resize(100);
  pieces[10].text = "<0x07>";
  EXPECT_TRUE(refuses_bin(llama2c_file(pieces), {"100 tokens", "259"}));
  pieces = llama_pieces({"a"});
  pieces[3].text = "\n";  // then no other token is a byte
  EXPECT_TRUE(refuses_bin(llama2c_file(pieces), {"token 4", "<0x01>", "no byte"}));
  pieces.resize(2);
  EXPECT_TRUE(refuses_bin(llama2c_file(pieces), {"2 tokens", "at least 3"}));
  std::string lying = whole;
  lying[0] = 2;
  EXPECT_TRUE(refuses_bin(lying, {"token 0", "announces"}));
}

TEST(TokenizerRefusals, NameFieldsOfGgufTokenizers) {
  convert::GgufTokenizer tokens;
  tokens.model = "bert";
  const auto refused = [&](Words words) {
    return refuses([&] { convert::understand_gguf_tokenizer(tokens, "m.gguf"); }, words);
  };
  EXPECT_TRUE(refused({"m.gguf", "tokenizer.ggml.model", "'bert'", "'llama'"}));
  tokens.model = "llama";
  tokens.tokens = {"<unk>", "a"};
  EXPECT_TRUE(refused({"tokenizer.ggml.scores"}));
  tokens.scores = {0.0f, 0.0f};
  tokens.types = {2, 7};
  EXPECT_TRUE(refused({"token_type[1]", "7"}));
  tokens.model = "gpt2";
  tokens.types = {1, 1};
  tokens.pre_tokenizer = "other";
  EXPECT_TRUE(refused({"tokenizer.ggml.pre", "other", "qwen2 deepseek-r1-qwen"}));
  tokens.pre_tokenizer = "qwen2";
  tokens.merges = {"a"};
  EXPECT_TRUE(refused({"'a'", "two tokens"}));
  tokens.merges.clear();
  tokens.tokens[1] = "<unk>";
  EXPECT_TRUE(refused({"token 1", "repeats"}));
}

TEST(TokenizerRefusals, NameEntriesOfCharacterPickles) {
  const auto refuses_pickle = [](PickleBuilder& builder, Words words) {
    return refuses_file("meta.pkl", builder.stop(), words);
  };
  PickleBuilder none;
  none.code(op::kEmptyDict);
  EXPECT_TRUE(refuses_pickle(none, {"'stoi'", "nanoGPT"}));
  PickleBuilder words;
  words.code(op::kEmptyDict).text("stoi").code(op::kEmptyDict).text("ab").number(0);
  words.code(op::kSetItem).code(op::kSetItem);
  EXPECT_TRUE(refuses_pickle(words, {"'stoi'", "single characters"}));
  PickleBuilder negative;
  negative.code(op::kEmptyDict).text("stoi").code(op::kEmptyDict).text("a").number(-1);
  negative.code(op::kSetItem).code(op::kSetItem);
  EXPECT_TRUE(refuses_pickle(negative, {"'a'", "-1"}));
  PickleBuilder two;
  two.code(op::kEmptyDict).text("stoi").code(op::kEmptyDict).text("a").number(0);
  two.code(op::kSetItem).code(op::kSetItem);
  two.text("itos").code(op::kEmptyDict).number(1).text("a").code(op::kSetItem).code(op::kSetItem);
  EXPECT_TRUE(refuses_pickle(two, {"stoi and itos disagree"}));
}

TEST(TokenizerRefusals, NameFaultsFoundByTheCompiler) {
  const auto refused = [](const std::function<void(convert::TokenizerSpec&)>& change, Words words) {
    convert::TokenizerSpec spec = test::byte_spec({"ab"});
    change(spec);
    return refuses([&] { test::model_with(spec); }, words);
  };
  using Spec = convert::TokenizerSpec;
  EXPECT_TRUE(refused([](Spec& s) { s.tokens.clear(); }, {"empty"}));
  EXPECT_TRUE(refused([](Spec& s) { s.tokens.push_back(std::string(1025, 'x')); },
                      {"token 257", "1025 bytes", "1024"}));
  EXPECT_TRUE(refused([](Spec& s) { s.bos = 300; }, {"begin token", "300"}));
  EXPECT_TRUE(refused([](Spec& s) { s.ends = {300}; }, {"end token", "300"}));
  EXPECT_TRUE(refused([](Spec& s) { s.unknown_token = 300; }, {"unknown token", "300"}));
  EXPECT_TRUE(refused([](Spec& s) { s.specials[300] = 0; }, {"special token", "300"}));
  EXPECT_TRUE(refused(
      [](Spec& s) {
        s.tokens.push_back("");
        s.specials[257] = 0;
      },
      {"special token 257", "0 bytes"}));
  EXPECT_TRUE(refused(
      [](Spec& s) {
        s.tokens.insert(s.tokens.end(), {"<s>", "<s>"});
        s.specials = {{257, 0}, {258, 0}};
      },
      {"257 and 258", "'<s>'"}));
  EXPECT_TRUE(refused([](Spec& s) { s.merges.push_back(s.merges[0]); }, {"'a' and 'b'", "twice"}));
  EXPECT_TRUE(refused([](Spec& s) { s.merges[0].token = 65; }, {"'a' and 'b' into 'A'"}));
  EXPECT_TRUE(refused(
      [](Spec& s) {
        s.tokens.push_back("a");
        s.whole_tokens = {97, 257};
      },
      {"97 and 257", "'a'"}));
}

}  // namespace
}  // namespace arenite::testing
