// SPDX-License-Identifier: Apache-2.0
// Several files may name the same tokens; the tokenizer's own go first.
#include "convert/tokenizers/hf_config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "convert/error.h"
#include "convert/file_map.h"
#include "convert/input_limits.h"
#include "convert/models/json_file.h"
#include "convert/tokenizers/byte_pairs.h"
#include "convert/tokenizers/character_vocabulary.h"
#include "convert/tokenizers/hf_object.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

TokenId find_token(const TokenizerSpec& spec, std::string_view content) {
  for (const auto& [id, flags] : spec.specials) {
    if (spec.tokens[id] == content) return id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), content);
  return found == spec.tokens.end() ? kNoToken : static_cast<TokenId>(found - spec.tokens.begin());
}

// The token that a field names; kNoToken where it does not.
TokenId named_token(const TokenizerSpec& spec, const HfObject& config, std::string_view field) {
  if (!config.has(field)) return kNoToken;
  const TokenId id = find_token(spec, named_token_text(config, field));
  if (id == kNoToken) config.refuse(field, "a token of the vocabulary");
  return id;
}

// The ids that a field gives, a number or a list of them. One that is no token is left over: saving
// a model fills the field in from the family's defaults, whatever the vocabulary.
std::vector<TokenId> given_ids(const TokenizerSpec& spec, const HfObject& config,
                               std::string_view field) {
  if (!config.has(field)) return {};
  const json list =
      config.at(field).is_array() ? config.at(field) : json::array({config.at(field)});
  std::vector<TokenId> ids;
  for (const json& id : list) {
    if (!id.is_number_integer()) config.refuse(field, "an id, or a list of ids");
    if (id.is_number_unsigned() && id.get<uint64_t>() < spec.tokens.size()) {
      ids.push_back(id.get<TokenId>());
    }
  }
  return ids;
}

void add_ends(TokenizerSpec& spec, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    if (spec.ends.size() > format::kEndsMax) return;  // it will be refused, however many they are
    if (std::find(spec.ends.begin(), spec.ends.end(), id) == spec.ends.end()) {
      spec.ends.push_back(id);
    }
  }
}

void apply_additions(TokenizerSpec& spec, const HfObject& config) {
  const struct {
    const char* field;
    bool has_token;
    uint32_t flag;
  } additions[] = {{"add_bos_token", spec.bos != kNoToken, format::kAddBos},
                   {"add_eos_token", !spec.ends.empty(), format::kAddEnd}};
  for (const auto& addition : additions) {
    if (!config.has(addition.field)) continue;
    spec.flags &= ~addition.flag;
    if (!config.flag(addition.field, false)) continue;
    if (!addition.has_token) config.refuse(addition.field, "false, as no such token is named");
    spec.flags |= addition.flag;
  }
}

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

std::vector<std::pair<std::string, std::string>> read_merges_file(
    const std::filesystem::path& file) {
  const FileMap map(file, kVocabularyBytesMax);
  std::vector<std::pair<std::string, std::string>> merges;
  std::string_view text = map.text();
  std::string_view line;
  for (bool is_first = true; take_line(text, line); is_first = false) {
    if (line.empty() || (is_first && line.starts_with("#version"))) continue;
    merges.push_back(split_merge(std::string(line), file.string()));
  }
  return merges;
}

}  // namespace

json read_optional_json(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? read_json_object(file) : json::object();
}

std::string named_token_text(const HfObject& config, std::string_view field) {
  return config.at(field).is_object() ? config.object(field).text("content") : config.text(field);
}

void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config) {
  if (!config.has("added_tokens_decoder")) return;
  const HfObject tokens = config.object("added_tokens_decoder");
  for (const auto& [key, value] : config.at("added_tokens_decoder").items()) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ptr != key.data() + key.size() || parsed.ec != std::errc() ||
        id >= format::kVocabularyMax) {
      tokens.refuse(key, "a key that is the token's id");
    }
    const HfObject token = tokens.object(key);
    token.expect("single_word", false, true);
    if (id >= spec.tokens.size()) spec.tokens.resize(size_t{id} + 1);
    const std::string content = token.text("content");
    if (!spec.tokens[id].empty() && spec.tokens[id] != content) {
      token.refuse("content", fmt::format("{}, as in the vocabulary", quote(spec.tokens[id])));
    }
    spec.tokens[id] = content;
    // WordPiece looks for it in the text before or behind lower case, by "normalized".
    const bool is_special = token.flag("special", false);
    if (spec.kind == format::TokenizerKind::kWordPiece && !is_special) {
      token.expect("normalized", false);
    }
    uint32_t flags = is_special ? 0 : format::kReadAlways | format::kIsText;
    if (token.flag("lstrip", false)) flags |= format::kEatsSpaceBefore;
    if (token.flag("rstrip", false)) flags |= format::kEatsSpaceBehind;
    spec.specials[id] = static_cast<uint8_t>(flags);
  }
}

void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder) {
  TokenId bos = kNoToken;
  std::vector<TokenId> ends;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const json value = read_optional_json(folder / name);
    const HfObject config(value, quote((folder / name).string()), "");
    if (bos == kNoToken) bos = named_token(spec, config, "bos_token");
    const TokenId end = named_token(spec, config, "eos_token");
    if (ends.empty() && end != kNoToken) ends.push_back(end);
  }
  add_ends(spec, ends);
  for (const char* name : {"generation_config.json", "config.json"}) {
    // A model's config repeats what the others say, or says it alone.
    if (std::string_view(name) == "config.json" && !spec.ends.empty()) break;
    const json value = read_optional_json(folder / name);
    const HfObject config(value, quote((folder / name).string()), "");
    add_ends(spec, given_ids(spec, config, "eos_token_id"));
    const std::vector<TokenId> begins = given_ids(spec, config, "bos_token_id");
    if (bos == kNoToken && !begins.empty()) bos = begins.front();
  }
  if (bos != kNoToken) spec.bos = bos;

  const json value = read_optional_json(folder / "tokenizer_config.json");
  const HfObject config(value, quote((folder / "tokenizer_config.json").string()), "");
  apply_additions(spec, config);
  // This class makes its own model from the vocabulary, and tells it of no unknown token:
  // characters that it cannot write, not even as bytes, vanish.
  const std::string name = config.has("tokenizer_class") ? config.text("tokenizer_class") : "";
  if (spec.kind == format::TokenizerKind::kSentencePieces &&
      (name == "LlamaTokenizer" || name == "LlamaTokenizerFast")) {
    spec.unknown = format::Unknown::kDrop;
  }
}

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
