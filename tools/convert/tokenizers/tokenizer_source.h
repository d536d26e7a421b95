// SPDX-License-Identifier: Apache-2.0
// Finds and reads a tokenizer, in whichever of the known files it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A tokenizer.json, tokenizer.model, vocab.json (with merges.txt), tokenizer.bin or meta.pkl, told
// apart by content, or a vocab.txt, by its ending; the files beside it say which tokens begin and
// end a text. Throws InputError.
TokenizerSpec read_tokenizer(const std::filesystem::path& file);

// What a person says instead of a file: the model is to have no tokenizer.
inline constexpr const char* kNoTokenizer = "none";

// The tokenizer of characters that a training program keeps beside the weights of `origin`, as
// plain values (Opened::values): "stoi.a" is the id of a character, "itos.0" the character of an
// id, and one of the two is enough. Nothing where there is neither, or the tokens are not
// characters. Throws InputError where both are there and disagree, and for ids that are none.
std::optional<TokenizerSpec> character_tokenizer_in(
    const std::map<std::string, std::string>& values, const std::string& origin);

// Where the tokenizer of a model is, and what the model says of it.
struct TokenizerPlace {
  // Reads the one in the model's own file, if it has one.
  std::function<std::optional<TokenizerSpec>()> own{};
  std::filesystem::path folder{};        // in which, otherwise, the first of
  std::span<const char* const> files{};  // these is the model's, the most telling first
  bool lowers_case = false;              // of texts, whatever the tokenizer does by itself
  uint32_t vocab_size = 0;               // rows that the model has for tokens
  std::optional<uint32_t> bos_id{};      // where the tokenizer does not know which tokens begin
  std::vector<uint32_t> eos_ids{};       // and end a text
};

// The files that may be in a folder beside a model of each kind.
inline constexpr const char* kDecoderTokenizers[] = {"tokenizer.json", "tokenizer.model",
                                                     "vocab.json"};
inline constexpr const char* kEncoderTokenizers[] = {"tokenizer.json", "vocab.txt",
                                                     "tokenizer.model", "vocab.json"};
inline constexpr const char* kLlama2cTokenizers[] = {"tokenizer.bin"};
inline constexpr const char* kStateDictTokenizers[] = {"meta.pkl"};

// The tokenizer of a model, completed (complete_tokenizer): `chosen` if a person named a file, or
// a folder that has one of kEncoderTokenizers; else the one in its place. Nothing where there is
// none. Throws InputError, also for one that does not fit the model (check_vocabulary), and for a
// tokenizer other than WordPiece where texts are to be lower-cased.
std::optional<TokenizerSpec> tokenizer_for(const TokenizerPlace& place,
                                           const std::filesystem::path& chosen);

// Throws InputError if there are more tokens than rows in the model's embedding. Fewer are fine:
// training programs round the rows up to a multiple of something, and the rest is padding. Returns
// how many rows have no token; a model hardly ever picks one, and decoding passes over it.
uint32_t check_vocabulary(const TokenizerSpec& spec, uint32_t vocab_size);

}  // namespace arenite::convert
