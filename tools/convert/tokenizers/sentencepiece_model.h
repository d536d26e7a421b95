// SPDX-License-Identifier: Apache-2.0
// Reads the pieces, scores and settings of a `tokenizer.model`, as SentencePiece writes it.
#pragma once

#include <filesystem>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A model of type BPE, with or without byte fallback. Texts get the begin token, as those who train
// with such files do. Throws InputError for other types (unigram, word, char) and for normalization
// other than the plain one, by name.
TokenizerSpec read_sentencepiece_model(const std::filesystem::path& file);

}  // namespace arenite::convert
