// SPDX-License-Identifier: Apache-2.0
// Finds and reads a model's tokenizer, in any of the supported file formats.
//
//   const TokenizerSpec spec = read_tokenizer("tinyllama/tokenizer.json");
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

// Reads a tokenizer.json, tokenizer.model, vocab.json (with merges.txt), tokenizer.bin or meta.pkl,
// recognised by content, or a vocab.txt, recognised by its extension. The files next to it define
// the tokens that begin and end a text. Throws InputError.
TokenizerSpec read_tokenizer(const std::filesystem::path& file);

// Given instead of a file name: the model gets no tokenizer.
inline constexpr const char* kNoTokenizer = "none";

// Returns the character tokenizer that a training program saved next to the weights of `origin` as
// plain values (Opened::values): "stoi.a" is the id of a character, "itos.0" the character of an
// id; one of the two suffices. Returns nullopt if there is neither, or if tokens are not
// characters. Throws InputError if both are present and disagree, and for invalid ids.
std::optional<TokenizerSpec> character_tokenizer_in(
    const std::map<std::string, std::string>& values, const std::string& origin);

// Where to find a model's tokenizer, and facts about it from the model.
struct TokenizerPlace {
  // Reads the tokenizer in the model's own file, if it has one.
  std::function<std::optional<TokenizerSpec>()> own{};
  std::filesystem::path folder{};        // otherwise the first of `files` in this folder is used
  std::span<const char* const> files{};  // candidates, most complete first
  bool lowers_case = false;              // texts are lowercased, whatever the tokenizer does itself
  uint32_t vocab_size = 0;               // rows of the model's token embedding
  bool is_of_outputs = false;            // a model of features may write text: CTC
  std::optional<uint32_t> bos_id{};      // used if the tokenizer has no begin token
  std::vector<uint32_t> eos_ids{};       // used if it has no end tokens
};

// Tokenizer files that may be in the folder of each kind of model.
inline constexpr const char* kDecoderTokenizers[] = {"tokenizer.json", "tokenizer.model",
                                                     "vocab.json"};
inline constexpr const char* kEncoderTokenizers[] = {"tokenizer.json", "vocab.txt",
                                                     "tokenizer.model", "vocab.json"};
inline constexpr const char* kLlama2cTokenizers[] = {"tokenizer.bin"};
inline constexpr const char* kStateDictTokenizers[] = {"meta.pkl"};

// Returns a model's tokenizer, completed (complete_tokenizer): `chosen`, if the user named a file,
// or a folder with one of kEncoderTokenizers; else the one in its place; nullopt if there is none.
// Throws InputError, also if it does not fit the model (check_vocabulary), and for tokenizers other
// than WordPiece if texts shall be lowercased.
std::optional<TokenizerSpec> tokenizer_for(const TokenizerPlace& place,
                                           const std::filesystem::path& chosen);

// Throws InputError if there are more tokens than rows in the model's embedding. Fewer are
// accepted, as training programs pad the rows to a multiple. Returns the number of rows without a
// token; models hardly ever predict these, and decoding skips them.
uint32_t check_vocabulary(const TokenizerSpec& spec, uint32_t vocab_size);

}  // namespace arenite::convert
