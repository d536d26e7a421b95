// SPDX-License-Identifier: Apache-2.0
// Finds and reads a tokenizer, in whichever of the known files it is.
#pragma once

#include <filesystem>
#include <optional>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A tokenizer.json, tokenizer.model, vocab.json (with merges.txt), tokenizer.bin or meta.pkl, told
// apart by content; the files beside it say which tokens begin and end a text. Throws InputError.
TokenizerSpec read_tokenizer(const std::filesystem::path& file);

// The tokenizer of a model's folder; nothing where the folder has none.
std::optional<TokenizerSpec> find_tokenizer(const std::filesystem::path& folder);

}  // namespace arenite::convert
