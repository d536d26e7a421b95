// SPDX-License-Identifier: Apache-2.0
// Writes the files of small tokenizers, one of each format.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/tokenizers/tokenizer_builders.h"
#include "fuzz/bundle.h"
#include "fuzz/seeds.h"
#include "support/pickle_builder.h"

namespace arenite::test {
namespace {

using namespace arenite::testing;
using nlohmann::json;

struct NamedBytes {
  const char* name;
  std::string bytes;
};

void write(const SeedFolder& seeds, const std::string& seed, const std::vector<NamedBytes>& files) {
  std::vector<fuzz::BundleFile> bundle;
  for (const NamedBytes& file : files) {
    bundle.push_back({fuzz::bundle_name(file.name), file.bytes});
  }
  seeds.write(seed, fuzz::write_bundle(bundle));
}

json special(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
json text_of(const char* name) { return {{"Sequence", {{"id", name}, {"type_id", 0}}}}; }

// The tokenizer.json of a BERT as Hugging Face's library saves it.
json word_piece_json() {
  return {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 0}, {"content", "[UNK]"}, {"special", true}, {"normalized", false}}}},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {special("[CLS]"), text_of("A"), special("[SEP]")}},
        {"pair",
         {special("[CLS]"), text_of("A"), special("[SEP]"), text_of("B"), special("[SEP]")}},
        {"special_tokens",
         {{"[CLS]", {{"id", "[CLS]"}, {"ids", {1}}, {"tokens", {"[CLS]"}}}},
          {"[SEP]", {{"id", "[SEP]"}, {"ids", {2}}, {"tokens", {"[SEP]"}}}}}}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}, {"t", 3}, {"##est", 4}, {"!", 5}}}}}};
}

// The config files beside a BERT's tokenizer.
std::vector<NamedBytes> bert_configs() {
  const json config = {{"tokenizer_class", "BertTokenizer"},
                       {"do_lower_case", true},
                       {"unk_token", "[UNK]"},
                       {"strip_accents", nullptr},
                       {"tokenize_chinese_chars", true},
                       {"cls_token", "[CLS]"}};
  return {{"tokenizer_config.json", config.dump()},
          {"special_tokens_map.json", R"({"sep_token":{"content":"[SEP]"}})"}};
}

std::vector<NamedBytes> configs(const std::string& tokenizer_class) {
  if (tokenizer_class == "BertTokenizer") return bert_configs();
  const bool is_llama = tokenizer_class == "LlamaTokenizer";
  const char* const end = is_llama ? "</s>" : "<|end|>";
  const json config = {{"tokenizer_class", tokenizer_class},
                       {"add_bos_token", is_llama},
                       {"add_eos_token", false},
                       {"bos_token", is_llama ? "<s>" : end},
                       {"eos_token", {{"content", end}}},
                       {"model_max_length", 512}};
  return {{"tokenizer_config.json", config.dump()},
          {"special_tokens_map.json", json{{"eos_token", {{"content", end}}}}.dump()},
          {"generation_config.json", R"({"bos_token_id":1,"eos_token_id":[2,0]})"},
          {"config.json", R"({"eos_token_id":2})"}};
}

void write_with_configs(const SeedFolder& seeds, const std::string& seed,
                        std::vector<NamedBytes> files, const char* tokenizer_class) {
  write(seeds, seed, files);
  for (NamedBytes& config : configs(tokenizer_class)) files.push_back(std::move(config));
  write(seeds, seed + "_configs", files);
}

std::string characters_pickle() {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("vocab_size").number(2).code(op::kSetItem);
  pickle.text("itos").code(op::kEmptyDict);
  pickle.number(0).text("t").code(op::kSetItem).number(1).text("e").code(op::kSetItem);
  pickle.code(op::kSetItem).text("stoi").code(op::kEmptyDict);
  pickle.text("t").number(0).code(op::kSetItem).text("e").number(1).code(op::kSetItem);
  return pickle.code(op::kSetItem).stop();
}

}  // namespace

void write_tokenizer_seeds(const std::filesystem::path& corpus) {
  const SeedFolder seeds(corpus, "read_tokenizer");
  const json byte_level = byte_level_json({{"t", "h"}, {"th", "e"}, {"\xC4\xA0", "the"}});
  write_with_configs(seeds, "byte_level", {{"tokenizer.json", byte_level.dump()}}, "GPT2Tokenizer");
  json splits = byte_level;
  splits["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "(?i:'s)|[^\\r\\p{Lu}]?[a-c&&[^b]]++| {2,3}?|\\s+(?!\\S)"}}},
         {"behavior", "Removed"},
         {"invert", true}},
        {{"type", "Digits"}, {"individual_digits", false}},
        byte_level["pre_tokenizer"],
        {{"type", "Punctuation"}, {"behavior", "MergedWithNext"}}}}};
  write(seeds, "splits", {{"tokenizer.json", splits.dump()}});
  const json word_level = {
      {"pre_tokenizer", {{"type", "Whitespace"}}},
      {"model",
       {{"type", "WordLevel"}, {"vocab", {{"[UNK]", 0}, {"t", 1}}}, {"unk_token", "[UNK]"}}}};
  write(seeds, "word_level", {{"tokenizer.json", word_level.dump()}});
  const json low_line =
      low_line_json({"\xE2\x96\x81", "t", "h", "e"}, {{"t", "h"}, {"\xE2\x96\x81", "th"}});
  write_with_configs(seeds, "low_line", {{"tokenizer.json", low_line.dump()}}, "LlamaTokenizer");
  write_with_configs(seeds, "word_piece", {{"tokenizer.json", word_piece_json().dump()}},
                     "BertTokenizer");
  json unigram = low_line;
  unigram["model"] = {
      {"type", "Unigram"},
      {"unk_id", 0},
      {"vocab", json::array({json::array({"<unk>", 0.0}), json::array({"\xE2\x96\x81", -1.5}),
                             json::array({"the", -2.5})})},
      {"byte_fallback", false}};
  unigram["added_tokens"] = json::array();
  unigram["post_processor"] = nullptr;
  unigram["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Lowercase"}},
        {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
        {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAAAA"}},
        {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}};
  unigram["pre_tokenizer"] = unigram["decoder"] = {
      {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "always"}};
  write_with_configs(seeds, "unigram", {{"tokenizer.json", unigram.dump()}}, "T5Tokenizer");
  const auto pieces = llama_pieces({"\xE2\x96\x81t", "he", "t", "h", "e", "\xE2\x96\x81"});
  SentencePieceFile model;
  model.pieces = pieces;
  write_with_configs(seeds, "sentence_pieces", {{"tokenizer.model", model.bytes()}},
                     "LlamaTokenizer");
  write(seeds, "llama2c", {{"tokenizer.bin", llama2c_file(pieces)}});
  write_with_configs(seeds, "vocab_txt",
                     {{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nt\n##est\nthe\n!\n"}},
                     "BertTokenizer");
  write_with_configs(seeds, "vocab_json",
                     {{"vocab.json", byte_level["model"]["vocab"].dump()},
                      {"merges.txt", "#version: 0.2\nt h\nth e\n"}},
                     "GPT2Tokenizer");
  write(seeds, "characters", {{"vocab.json", R"({"t":0,"e":1,"\n":2})"}});
  write(seeds, "meta", {{"meta.pkl", characters_pickle()}});
}

}  // namespace arenite::test
