// SPDX-License-Identifier: Apache-2.0
// One reader for each tokenizer file format, and shared code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "convert/files/memory.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// An object in a JSON file and its path in it, such as "pre_tokenizer.pretokenizers[1]".
class HfObject {
 public:
  // Reads the whole file; with `may_lack`, a missing file gives an empty object. Throws InputError
  // if the file does not hold an object.
  explicit HfObject(const std::filesystem::path& file, bool may_lack = false);

  const std::string& file_name() const { return file_name_; }  // quoted
  const nlohmann::json& value() const { return *value_; }
  std::string type() const { return text("type"); }
  // Throws InputError for any other field.
  void expect_only(std::initializer_list<std::string_view> fields) const;
  bool has(std::string_view field) const;  // present and not null
  const nlohmann::json& at(std::string_view field) const;
  std::string text(std::string_view field) const;
  bool flag(std::string_view field, bool otherwise) const;
  HfObject object(std::string_view field) const;
  // Returns a list of objects; `expected` describes it in messages.
  std::vector<HfObject> list(std::string_view field, std::string_view expected) const;
  // Throws InputError unless the field equals `value`; with `may_lack`, it may be absent.
  void expect(std::string_view field, const nlohmann::json& value, bool may_lack = false) const;
  // Throws InputError: the value of `field` is not supported; `expected` describes supported ones.
  [[noreturn]] void refuse(std::string_view field, std::string_view expected) const;

 private:
  // Throws InputError unless `value`, from the same file, is an object.
  HfObject(const HfObject& parent, const nlohmann::json& value, std::string place);
  std::string place_of(std::string_view field) const;

  std::shared_ptr<const nlohmann::json> owner_;  // the whole file
  const nlohmann::json* value_;
  std::string file_name_;
  std::string place_;
};

// Returns the value as an id; nullopt if no vocabulary can have it.
std::optional<TokenId> token_id(const nlohmann::json& value);

// Reads an object of tokens with their ids. Throws InputError.
Vocabulary read_vocabulary(const HfObject& tokens);

class TokenizerFile {
 public:
  // Throws InputError if the file cannot be mapped, or is larger than kVocabularyBytesMax.
  explicit TokenizerFile(const std::filesystem::path& file);

  std::string_view text() const { return map_.text(); }  // the whole file
  const std::string& name() const { return name_; }      // quoted, for messages

 private:
  FileMap map_;
  std::string name_;
};

// Throw InputError beyond the limits of model files: number of tokens, length of a token, number of
// merges. Readers check before they store anything. `name` is the file's, quoted.
void check_token(const std::string& name, size_t index, std::string_view token);
void check_merge_count(const std::string& name, size_t count);

// Longer words are unknown, as in BERT's own tokenizer and its successors.
inline constexpr uint32_t kBertWordCharactersMax = 100;

// Reads `vocab.txt`, where line i is token i. Text normalization and special tokens come from the
// tokenizer_config.json and special_tokens_map.json next to it; the defaults are those of BERT's
// uncased models: [UNK], [CLS], [SEP], and [PAD] and [MASK] if present. Throws InputError if one of
// the first three is missing.
TokenizerSpec read_vocab_txt(const std::filesystem::path& file);

// Fills in the shared part of WordPiece tokenizers: tokens are whole words or pieces, the last of
// equal ones counts, and unknown words become `unknown_token`.
void fill_word_pieces(TokenizerSpec& spec, TokenId unknown_token);

// Sets the template [CLS] text [SEP] second [SEP], with types 0 and 1.
void put_bert_tokens_around(TokenizerSpec& spec, TokenId begin, TokenId separator);

// Reads nanoGPT's `meta.pkl`: a pickled dict with `stoi` (character to id), and optionally an
// `itos` that must agree.
TokenizerSpec read_character_pickle(const std::filesystem::path& file);

// Whether all tokens are single characters; false for an empty vocabulary.
bool is_character_vocabulary(const Vocabulary& vocabulary);

// REQUIRES: is_character_vocabulary(vocabulary).
TokenizerSpec character_tokenizer(const Vocabulary& vocabulary, const std::string& origin);

// Reads a tokenizer.json. Throws InputError that names anything unsupported. Other files of the
// folder define which token ends a text (tokenizer_source.h).
TokenizerSpec read_hf_tokenizer_json(const std::filesystem::path& file);

// Reads llama2.c's tokenizer.bin. The first tokens are unknown, begin and end. The 256 byte tokens
// follow; if absent, characters without a token become the unknown token. Throws InputError for a
// truncated file, and for byte tokens that are misplaced or incomplete.
TokenizerSpec read_llama2c_tokenizer(const std::filesystem::path& file);

// Reads a SentencePiece model of any type (unigram, BPE, word, char), with or without byte
// fallback. Texts get the begin token, as in the programs that train with such files. Throws
// InputError that names unsupported settings.
TokenizerSpec read_sentencepiece_model(const std::filesystem::path& file);

// Reads a byte-level tokenizer from `vocab.json` and the `merges.txt` next to it: GPT-2's, or Qwen
// 2's if tokenizer_config.json names its class; refuses other classes. Without merges.txt, reads a
// vocabulary of single characters.
TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file);

// Source of the tokens around a text.
enum class AroundText : uint8_t {
  kTokenizerSays,  // tokenizer.json, by its post-processor or the lack of one
  kConfigsSay,     // the files beside it, by "add_bos_token" and "add_eos_token"
};

// Applies tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json of
// the folder, if present. Adds notes if they contradict a tokenizer that takes precedence. Throws
// InputError for a token that is not in the vocabulary.
void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder,
                     AroundText around_text);

// Returns the token that a config field names, as text or as an object with `content`.
std::string named_token_text(const HfObject& config, std::string_view field);

// Adds the tokens of the config's "added_tokens_decoder", if present.
void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config);

// Adds the special token of a JSON object: its content, and how it is matched in texts.
void add_special(TokenizerSpec& spec, TokenId id, const HfObject& token);

// Throws InputError if the folder's tokenizer_config.json contradicts the spec's text
// normalization, since transformers would follow one of them and other programs the other. Adds
// notes if it names other tokens around a text.
void check_bert_config(TokenizerSpec& spec, const std::filesystem::path& folder);

}  // namespace arenite::convert
