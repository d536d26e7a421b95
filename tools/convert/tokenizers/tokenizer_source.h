// SPDX-License-Identifier: Apache-2.0
// Finds and reads a tokenizer, in whichever of the known files it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "convert/families/decoder_source.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A tokenizer.json, tokenizer.model, vocab.json (with merges.txt), tokenizer.bin or meta.pkl, told
// apart by content, or a vocab.txt, by its ending; the files beside it say which tokens begin and
// end a text. Throws InputError.
TokenizerSpec read_tokenizer(const std::filesystem::path& file);

// The tokenizer of a folder that Hugging Face's transformers wrote: tokenizer.json, else
// tokenizer.model, else vocab.json; nothing where it has none of them.
std::optional<TokenizerSpec> find_tokenizer(const std::filesystem::path& folder);

// What a person says instead of a file: the model is to have no tokenizer.
inline constexpr const char* kNoTokenizer = "none";

// The tokenizer of a model at `path`, completed (tokenizer_compiler.h): `chosen` if a person named
// a file, or a folder as for find_tokenizer; else the one in the model's own file; else the one
// beside it that goes with its kind: in a Hugging Face folder find_tokenizer's, for llama2.c
// tokenizer.bin, for a state dict nanoGPT's meta.pkl. Nothing where there is none. Tokens that
// begin and end a text are the model's where the tokenizer does not know them. Throws InputError,
// also for one that does not fit the model (check_vocabulary).
std::optional<TokenizerSpec> tokenizer_for(const std::filesystem::path& path,
                                           const std::filesystem::path& chosen,
                                           const DecoderSource& source);

// The same for an encoder with `vocab_size` rows: the one that `chosen` names, which may be a
// folder, else the one in the folder `path`, or beside the file `path`: tokenizer.json, else
// vocab.txt, tokenizer.model or vocab.json. With `lowers_case` texts are lower-cased, whatever the
// tokenizer does by itself; only WordPiece can.
std::optional<TokenizerSpec> encoder_tokenizer(const std::filesystem::path& path,
                                               const std::filesystem::path& chosen,
                                               uint32_t vocab_size, bool lowers_case = false);

// Throws InputError if there are more tokens than rows in the model's embedding. Fewer are fine:
// training programs round the rows up to a multiple of something, and the rest is padding. Returns
// how many rows have no token; a model hardly ever picks one, and decoding passes over it.
uint32_t check_vocabulary(const TokenizerSpec& spec, uint32_t vocab_size);

}  // namespace arenite::convert
