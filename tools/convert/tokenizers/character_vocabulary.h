// SPDX-License-Identifier: Apache-2.0
// Vocabularies in which each character is a token.
#pragma once

#include <filesystem>

#include "convert/tokenizers/byte_pairs.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// `meta.pkl` of nanoGPT: a pickled dict with `stoi` (character to id), and with `itos` if it
// agrees.
TokenizerSpec read_character_pickle(const std::filesystem::path& file);

// Whether all tokens are single characters. Empty vocabularies are none.
bool is_character_vocabulary(const Vocabulary& vocabulary);

// REQUIRES: is_character_vocabulary(vocabulary).
TokenizerSpec character_tokenizer(const Vocabulary& vocabulary, const std::string& origin);

}  // namespace arenite::convert
