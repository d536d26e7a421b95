// SPDX-License-Identifier: Apache-2.0
// Plain lists of tokens: vocab.json with its merges, and the characters of nanoGPT.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/paths.h"
#include "convert/files/pickle.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "core/utf8.h"

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

using Kind = PickleValue::Kind;

constexpr std::string_view kStoi = "stoi.";
constexpr std::string_view kItos = "itos.";

std::string same_bytes(std::string_view token) { return std::string(token); }

const PickleValue* find(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
  const PickleValue* found = nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = pickle.values[dict.items[i]];
    if (name.kind == Kind::kString && name.text == key) found = &pickle.values[dict.items[i + 1]];
  }
  return found;
}

// `from` and `to` say which of key and value is the character and which the id.
Vocabulary read_map(const Pickle& pickle, const PickleValue& dict, const char* field,
                    size_t character_place, const std::string& name) {
  Vocabulary vocabulary;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& character = pickle.values[dict.items[i + character_place]];
    const PickleValue& id = pickle.values[dict.items[i + 1 - character_place]];
    if (character.kind != Kind::kString || id.kind != Kind::kInt) {
      throw InputError("{}, {}: found {} and {}: expected a character and its id", name, field,
                       describe(character.kind), describe(id.kind));
    }
    if (id.integer < 0 || id.integer >= format::kVocabularyMax) {
      throw InputError("{}, {}: the id of {} is {}: expected 0 to {}", name, field,
                       quote(character.text), id.integer, format::kVocabularyMax - 1);
    }
    if (character.text.size() > kUtf8BytesMax) {  // pickles may repeat a long text for nothing
      throw InputError("{}, {}: expected single characters, found {}", name, field,
                       quote(character.text));
    }
    vocabulary[std::string(character.text)] = static_cast<TokenId>(id.integer);
  }
  return vocabulary;
}

}  // namespace

TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file) {
  const Vocabulary vocabulary = read_plain_vocabulary(vocab_file);
  const std::filesystem::path merges_file = vocab_file.parent_path() / "merges.txt";
  if (!is_there(merges_file)) {
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

TokenizerSpec read_character_pickle(const std::filesystem::path& file) {
  const TokenizerFile source(file);
  const std::string& name = source.name();
  const Pickle pickle = unpickle(std::as_bytes(std::span(source.text())), name);
  const PickleValue& root = pickle.values[pickle.root];
  const PickleValue* stoi = root.kind == Kind::kDict ? find(pickle, root, "stoi") : nullptr;
  if (stoi == nullptr || stoi->kind != Kind::kDict) {
    throw InputError(
        "{} has no dict 'stoi': expected the meta.pkl that nanoGPT writes for a text "
        "of characters",
        name);
  }
  const Vocabulary vocabulary = read_map(pickle, *stoi, "stoi", 0, name);
  if (!is_character_vocabulary(vocabulary)) {
    throw InputError("{}, stoi: expected single characters as keys", name);
  }
  const PickleValue* itos = find(pickle, root, "itos");
  if (itos != nullptr && itos->kind == Kind::kDict &&
      read_map(pickle, *itos, "itos", 1, name) != vocabulary) {
    throw InputError("{}: stoi and itos disagree: the file is damaged", name);
  }
  return character_tokenizer(vocabulary, file.string());
}

std::optional<TokenizerSpec> character_tokenizer_in(
    const std::map<std::string, std::string>& values, const std::string& origin) {
  Vocabulary by_character;
  Vocabulary by_id;
  for (const auto& [path, text] : values) {
    const bool is_stoi = path.starts_with(kStoi);
    if (!is_stoi && !path.starts_with(kItos)) continue;
    const std::string key = path.substr((is_stoi ? kStoi : kItos).size());
    const std::string& character = is_stoi ? key : text;
    if (character.size() > kUtf8BytesMax) return std::nullopt;  // words
    const std::string& number = is_stoi ? text : key;
    TokenId id = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), id);
    if (result.ec != std::errc() || result.ptr != number.data() + number.size() ||
        id >= format::kVocabularyMax) {
      throw InputError("{}, {}: the id of {} is {}: expected 0 to {}", quote(origin),
                       is_stoi ? "stoi" : "itos", quote(character), quote(number),
                       format::kVocabularyMax - 1);
    }
    (is_stoi ? by_character : by_id)[character] = id;
  }
  if (!by_character.empty() && !by_id.empty() && by_character != by_id) {
    throw InputError("{}: stoi and itos disagree: expected the same characters and ids",
                     quote(origin));
  }
  const Vocabulary& vocabulary = by_character.empty() ? by_id : by_character;
  if (!is_character_vocabulary(vocabulary)) return std::nullopt;
  return character_tokenizer(vocabulary, origin);
}

bool is_character_vocabulary(const Vocabulary& vocabulary) {
  for (const auto& [token, id] : vocabulary) {
    if (token.empty()) return false;
    const CodePoint code_point = decode_utf8(token);
    if (code_point.value == kInvalidCodePoint || code_point.bytes != token.size()) return false;
  }
  return !vocabulary.empty();
}

TokenizerSpec character_tokenizer(const Vocabulary& vocabulary, const std::string& origin) {
  TokenizerSpec spec;
  spec.origin = origin;
  spec.kind = format::TokenizerKind::kCharacters;
  spec.unknown = format::Unknown::kRefuse;
  add_vocabulary(spec, vocabulary, same_bytes);
  for (const auto& [token, id] : vocabulary) spec.characters[decode_utf8(token).value] = id;
  return spec;
}

}  // namespace arenite::convert
