// SPDX-License-Identifier: Apache-2.0
// A character without a token is refused when a text is encoded: there is nothing to put for it.
#include "convert/tokenizers/character_vocabulary.h"

#include <span>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/unpickler.h"
#include "convert/tokenizers/tokenizer_file.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

using Kind = PickleValue::Kind;

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
