// SPDX-License-Identifier: Apache-2.0
// One reader for each file that tokenizers come in, and what all of them ask of a file.
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

// An object of a JSON file, and where it stands, such as "pre_tokenizer.pretokenizers[1]".
class HfObject {
 public:
  // All of a file; with `may_lack` an empty object where there is none. Throws InputError for a
  // file that is no object.
  explicit HfObject(const std::filesystem::path& file, bool may_lack = false);

  const std::string& file_name() const { return file_name_; }  // in quotes
  const nlohmann::json& value() const { return *value_; }
  std::string type() const { return text("type"); }
  // Throws InputError for a field that is not among these.
  void expect_only(std::initializer_list<std::string_view> fields) const;
  bool has(std::string_view field) const;  // and it is not null
  const nlohmann::json& at(std::string_view field) const;
  std::string text(std::string_view field) const;
  bool flag(std::string_view field, bool otherwise) const;
  HfObject object(std::string_view field) const;
  // Objects, in a list that is described as `expected`.
  std::vector<HfObject> list(std::string_view field, std::string_view expected) const;
  // Throws InputError unless the field has this value, or is absent where that means the same.
  void expect(std::string_view field, const nlohmann::json& value, bool may_lack = false) const;
  // Says that `field` cannot be read as it is, and what is expected.
  [[noreturn]] void refuse(std::string_view field, std::string_view expected) const;

 private:
  // Throws InputError unless `value`, of the same file, is an object.
  HfObject(const HfObject& parent, const nlohmann::json& value, std::string place);
  std::string place_of(std::string_view field) const;

  std::shared_ptr<const nlohmann::json> owner_;  // all of the file
  const nlohmann::json* value_;
  std::string file_name_;
  std::string place_;
};

// The id that a value is; nothing for what no vocabulary can have.
std::optional<TokenId> token_id(const nlohmann::json& value);

// The fields of `tokens`, each a token with its id. Throws InputError.
Vocabulary read_vocabulary(const HfObject& tokens);

class TokenizerFile {
 public:
  // Throws InputError for a file that cannot be mapped, or has more than kVocabularyBytesMax bytes.
  explicit TokenizerFile(const std::filesystem::path& file);

  std::string_view text() const { return map_.text(); }  // all of its bytes
  const std::string& name() const { return name_; }      // in quotes, for messages

 private:
  FileMap map_;
  std::string name_;
};

// Throw InputError for what no model file holds: one more token than these, a token so long, or
// more merges. Readers ask before they keep anything. `name` is the file's, in quotes.
void check_token(const std::string& name, size_t index, std::string_view token);
void check_merge_count(const std::string& name, size_t count);

// Of BERT's own tokenizer, and of all since: longer words are unknown.
inline constexpr uint32_t kBertWordCharactersMax = 100;

// `vocab.txt`: line i is token i. What is done to a text first, and how the special tokens are
// named, stands in the tokenizer_config.json and special_tokens_map.json beside it; without them it
// is as with BERT's uncased models: [UNK], [CLS], [SEP], and [PAD] and [MASK] where they are there.
// Throws InputError where one of the first three is missing.
TokenizerSpec read_vocab_txt(const std::filesystem::path& file);

// What all WordPiece tokenizers have in common: every token is looked up, of equal ones the last,
// and unknown words are `unknown_token`.
void fill_word_pieces(TokenizerSpec& spec, TokenId unknown_token);

// [CLS] text [SEP] second [SEP], with types 0 and 1.
void put_bert_tokens_around(TokenizerSpec& spec, TokenId begin, TokenId separator);

// `meta.pkl` of nanoGPT: a pickled dict with `stoi` (character to id), and with `itos` if it
// agrees.
TokenizerSpec read_character_pickle(const std::filesystem::path& file);

// Whether all tokens are single characters. Empty vocabularies are none.
bool is_character_vocabulary(const Vocabulary& vocabulary);

// REQUIRES: is_character_vocabulary(vocabulary).
TokenizerSpec character_tokenizer(const Vocabulary& vocabulary, const std::string& origin);

// A BPE model, byte-level or with U+2581 for spaces. Whatever is not understood is refused by name:
// InputError. The file does not say which token ends a text; the folder's other files do
// (tokenizer_source.h).
TokenizerSpec read_hf_tokenizer_json(const std::filesystem::path& file);

// The first tokens are unknown, begin and end; then come the 256 bytes, or there are none and a
// character without a token is the unknown one. Throws InputError for a file that ends early, and
// for bytes that are elsewhere or not all there.
TokenizerSpec read_llama2c_tokenizer(const std::filesystem::path& file);

// A model of type BPE, with or without byte fallback. Texts get the begin token, as those who train
// with such files do. Throws InputError for other types (unigram, word, char) and for normalization
// other than the plain one, by name.
TokenizerSpec read_sentencepiece_model(const std::filesystem::path& file);

// A byte-level tokenizer of `vocab.json` and, beside it, `merges.txt`: GPT-2's, or, where
// tokenizer_config.json names its class, Qwen 2's. Other classes are refused. Without merges.txt, a
// vocabulary of single characters.
TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file);

// Who decides what goes around a text.
enum class AroundText : uint8_t {
  kTokenizerSays,  // a tokenizer.json does, by its post-processor or by having none
  kConfigsSay,     // the files beside it, by "add_bos_token" and "add_eos_token"
};

// Reads tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json of
// the folder, those that are there. Where they contradict a tokenizer that decides, the spec gets
// notes. Throws InputError for a token that the vocabulary lacks.
void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder,
                     AroundText around_text);

// The token that a field of a config names, as text or as an object with `content`.
std::string named_token_text(const HfObject& config, std::string_view field);

// Puts the tokens of "added_tokens_decoder" into the spec, where the config has that.
void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config);

// The special token that an object describes: its content, and how it is read in texts.
void add_special(TokenizerSpec& spec, TokenId id, const HfObject& token);

// Throws InputError where the folder's tokenizer_config.json says otherwise than the spec what is
// done to a text: transformers would follow the one, other programs the other. Where it names other
// tokens around a text, the spec gets notes.
void check_bert_config(TokenizerSpec& spec, const std::filesystem::path& folder);

}  // namespace arenite::convert
