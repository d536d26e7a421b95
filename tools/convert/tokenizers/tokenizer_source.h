// SPDX-License-Identifier: Apache-2.0
// Finds and reads a tokenizer, in whichever of the known files it is.
#pragma once

#include <filesystem>
#include <optional>

#include "convert/decoders/decoder_source.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A tokenizer.json, tokenizer.model, vocab.json (with merges.txt), tokenizer.bin or meta.pkl, told
// apart by content; the files beside it say which tokens begin and end a text. Throws InputError.
TokenizerSpec read_tokenizer(const std::filesystem::path& file);

// The tokenizer of a model's folder; nothing where the folder has none.
std::optional<TokenizerSpec> find_tokenizer(const std::filesystem::path& folder);

// The tokenizer of a model at `path`, completed (tokenizer_compiler.h): `chosen` if a person named
// a file; else the one in the model's own file; else the one beside it that goes with its kind.
// Nothing where there is none. Tokens that begin and end a text are the model's where the tokenizer
// does not know them. Throws InputError for one with more tokens than the model's vocabulary;
// models often have a few rows more than there are tokens.
std::optional<TokenizerSpec> tokenizer_for(const std::filesystem::path& path,
                                           const std::filesystem::path& chosen,
                                           const DecoderSource& source);

}  // namespace arenite::convert
