// SPDX-License-Identifier: Apache-2.0
// Two files of byte-level BPE, from before tokenizer.json put all into one.
#include "convert/tokenizers/vocab_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/tokenizers/byte_pairs.h"
#include "convert/tokenizers/character_vocabulary.h"
#include "convert/tokenizers/hf_config.h"
#include "convert/tokenizers/hf_object.h"
#include "convert/tokenizers/tokenizer_file.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

Vocabulary read_plain_vocabulary(const std::filesystem::path& file) {
  const json root = read_json_object(file);
  Vocabulary vocabulary;
  for (const auto& [token, id] : root.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= format::kVocabularyMax) {
      throw InputError("{}: the id of {} is {}: expected 0 to {}", quote(file.string()),
                       quote(token), show(id), format::kVocabularyMax - 1);
    }
    vocabulary[token] = id.get<TokenId>();
  }
  return vocabulary;
}

using Merges = std::vector<std::pair<std::string, std::string>>;

Merges read_merges_file(const std::filesystem::path& file) {
  const TokenizerFile source(file);
  std::string_view text = source.text();
  Merges merges;
  std::string_view line;
  for (bool is_first = true; take_line(text, line); is_first = false) {
    if (line.empty() || (is_first && line.starts_with("#version"))) continue;
    merges.push_back(split_merge(line, file.string()));
    check_merge_count(source.name(), merges.size());
  }
  return merges;
}

}  // namespace

TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file) {
  const Vocabulary vocabulary = read_plain_vocabulary(vocab_file);
  const std::filesystem::path merges_file = vocab_file.parent_path() / "merges.txt";
  if (!std::filesystem::exists(merges_file)) {
    if (is_character_vocabulary(vocabulary)) {
      return character_tokenizer(vocabulary, vocab_file.string());
    }
    throw InputError("{} holds tokens of several characters: expected merges.txt beside it",
                     quote(vocab_file.string()));
  }
  TokenizerSpec spec;
  spec.origin = vocab_file.string();
  spec.pattern = format::Pattern::kGpt2;
  spec.unknown = format::Unknown::kDrop;

  const std::filesystem::path config_file = vocab_file.parent_path() / "tokenizer_config.json";
  const json value = read_optional_json(config_file);
  const HfObject config(value, quote(config_file.string()), "");
  const std::string name =
      config.has("tokenizer_class") ? config.text("tokenizer_class") : "GPT2Tokenizer";
  if (name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast") {
    spec.pattern = format::Pattern::kQwen2;
    spec.flags |= format::kExpectsNfc;
  } else if (name != "GPT2Tokenizer" && name != "GPT2TokenizerFast") {
    config.refuse("tokenizer_class",
                  "GPT2Tokenizer or Qwen2Tokenizer; for others save a tokenizer.json");
  }
  fill_byte_pairs(spec, vocabulary, read_merges_file(merges_file));
  if (config.flag("add_prefix_space", false)) {
    spec.prefix = format::Prefix::kUnlessSpace;
    spec.flags |= format::kPrefixEveryPart;
  }
  add_decoder_tokens(spec, config);
  const auto end_of_text = vocabulary.find("<|endoftext|>");
  if (end_of_text != vocabulary.end()) {
    spec.specials.try_emplace(end_of_text->second, uint8_t{0});
    if (!config.has("eos_token")) spec.ends = {end_of_text->second};
  }
  return spec;
}

}  // namespace arenite::convert
