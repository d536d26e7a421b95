// SPDX-License-Identifier: Apache-2.0
// Plain lists of tokens: BERT's vocab.txt, vocab.json with its merges, and nanoGPT's characters.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/files/pickle.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

// ---- vocab.txt ----

void check_utf8(std::string_view token, size_t line, const std::string& file_name) {
  for (size_t i = 0; i < token.size();) {
    const CodePoint next = decode_utf8(token.substr(i));
    if (next.value == kInvalidCodePoint) {
      throw InputError("{}, line {}: {} is not UTF-8: expected a vocabulary, one token a line",
                       file_name, line, quote(token));
    }
    i += next.bytes;
  }
}

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  const TokenizerFile source(file);
  std::vector<std::string> lines;
  std::string_view text = source.text();
  for (std::string_view line; take_line(text, line);) {
    check_token(source.name(), lines.size(), line);
    check_utf8(line, lines.size() + 1, source.name());
    lines.emplace_back(line);
  }
  return lines;
}

// Checks for classes that tokenize as BERT does.
void check_config(const HfObject& config) {
  const std::string name =
      config.has("tokenizer_class") ? config.text("tokenizer_class") : "BertTokenizer";
  const std::string_view known[] = {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"};
  if (std::none_of(std::begin(known), std::end(known), [&](std::string_view slow) {
        return name == slow || name == std::string(slow) + "Fast";
      })) {
    config.refuse("tokenizer_class",
                  "BertTokenizer, DistilBertTokenizer or ElectraTokenizer; for others save a "
                  "tokenizer.json");
  }
  config.expect("do_basic_tokenize", true, true);
  config.expect("never_split", nlohmann::json::array(), true);
  config.expect("wordpieces_prefix", format::kContinuation, true);
}

WordRules word_rules(const HfObject& config) {
  WordRules rules;
  rules.drops_controls = config.flag("clean_text", true);
  rules.lowers_case = config.flag("do_lower_case", true);
  rules.strips_accents = config.flag("strip_accents", rules.lowers_case);
  return rules;
}

TokenId find_last(const TokenizerSpec& spec, std::string_view name) {
  const auto found = std::find(spec.tokens.rbegin(), spec.tokens.rend(), name);
  if (found == spec.tokens.rend()) return kNoToken;
  return static_cast<TokenId>(spec.tokens.rend() - found - 1);
}

// The files next to a vocabulary that may name its tokens, in order of precedence.
using TokenNames = std::array<HfObject, 2>;

std::string token_name(const TokenNames& configs, std::string_view field,
                       std::string_view otherwise) {
  for (const HfObject& config : configs) {
    if (config.has(field)) return named_token_text(config, field);
  }
  return std::string(otherwise);
}

TokenId needed_token(const TokenizerSpec& spec, const TokenNames& configs, const char* field,
                     const char* otherwise, const char* purpose) {
  const std::string name = token_name(configs, field, otherwise);
  const TokenId id = find_last(spec, name);
  refuse_if(
      id == kNoToken,
      "{}: none of the {} lines is {}, which {}: expected that token, or another name for it in "
      "tokenizer_config.json, '{}'",
      quote(spec.origin), spec.tokens.size(), quote(name), purpose, field);
  return id;
}

// Checks added_tokens.json, the older form of added_tokens_decoder, which does not say how its
// tokens are matched.
void check_added_tokens(const TokenizerSpec& spec, const std::filesystem::path& file) {
  const HfObject added(file, true);
  for (const auto& [token, value] : added.value().items()) {
    const std::optional<TokenId> id = token_id(value);
    if (id && *id < spec.tokens.size() && spec.tokens[*id] == token) continue;
    added.refuse(token,
                 "a token of the vocabulary, or in added_tokens_decoder of tokenizer_config.json; "
                 "or save a tokenizer.json");
  }
}

// ---- vocab.json and characters ----

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

constexpr std::string_view kStoi = "stoi.";
constexpr std::string_view kItos = "itos.";

}  // namespace

TokenizerSpec read_vocab_txt(const std::filesystem::path& file) {
  TokenizerSpec spec;
  spec.origin = file.string();
  spec.kind = format::TokenizerKind::kWordPiece;
  spec.tokens = read_lines(file);
  const std::filesystem::path folder = file.parent_path();
  const TokenNames configs = {HfObject(folder / "tokenizer_config.json", true),
                              HfObject(folder / "special_tokens_map.json", true)};
  const HfObject& config = configs[0];
  check_config(config);
  spec.word_rules = word_rules(config);
  if (config.flag("tokenize_chinese_chars", true)) {
    spec.flags |= format::kIdeographsAreWords;
  }
  spec.word_characters_max = kBertWordCharactersMax;
  spec.flags |= format::kCleansUp;  // as the library does for tokenizers of such files

  const TokenId unknown =
      needed_token(spec, configs, "unk_token", "[UNK]", "stands for unknown words");
  const TokenId begin = needed_token(spec, configs, "cls_token", "[CLS]", "begins a text");
  const TokenId separator = needed_token(spec, configs, "sep_token", "[SEP]", "ends a text");
  const TokenId others[] = {find_last(spec, token_name(configs, "pad_token", "[PAD]")),
                            find_last(spec, token_name(configs, "mask_token", "[MASK]"))};
  for (const TokenId id : {unknown, begin, separator, others[0], others[1]}) {
    if (id != kNoToken) spec.specials[id] = 0;
  }
  fill_word_pieces(spec, unknown);
  add_decoder_tokens(spec, config);
  check_added_tokens(spec, folder / "added_tokens.json");
  put_bert_tokens_around(spec, begin, separator);
  return spec;
}

void fill_word_pieces(TokenizerSpec& spec, TokenId unknown_token) {
  spec.kind = format::TokenizerKind::kWordPiece;
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = unknown_token;
  std::map<std::string_view, TokenId> last;
  for (TokenId id = 0; id < spec.tokens.size(); ++id) last[spec.tokens[id]] = id;
  for (const auto& [token, id] : last) spec.whole_tokens.push_back(id);
}

void put_bert_tokens_around(TokenizerSpec& spec, TokenId begin, TokenId separator) {
  spec.bos = begin;
  spec.ends = {separator};
  spec.pair_separators = 1;
  spec.flags |= format::kAddBos | format::kAddEnd | format::kSecondHasType1;
}

TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file) {
  const Vocabulary vocabulary = read_vocabulary(HfObject(vocab_file));
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
  spec.splits = {{kGpt2Split}};
  spec.unknown = format::Unknown::kDrop;

  const HfObject config(vocab_file.parent_path() / "tokenizer_config.json", true);
  const std::string name =
      config.has("tokenizer_class") ? config.text("tokenizer_class") : "GPT2Tokenizer";
  if (name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast") {
    spec.splits = {{kQwen2Split}};
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
  std::optional<TokenizerSpec> spec =
      character_tokenizer_in(plain_values(pickle, name), file.string());
  refuse_if(!spec,
            "{} has no dict 'stoi' of single characters and their ids: expected the meta.pkl that "
            "nanoGPT writes for a text of characters",
            name);
  return *std::move(spec);
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
  refuse_if(!by_character.empty() && !by_id.empty() && by_character != by_id,
            "{}: stoi and itos disagree: expected the same characters and ids", quote(origin));
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
  add_vocabulary(spec, vocabulary, [](std::string_view token) { return std::string(token); });
  for (const auto& [token, id] : vocabulary) spec.characters[decode_utf8(token).value] = id;
  return spec;
}

}  // namespace arenite::convert
