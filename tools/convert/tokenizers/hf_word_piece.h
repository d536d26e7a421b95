// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json whose model is WordPiece.
#pragma once

#include <filesystem>
#include <string>

#include "convert/tokenizers/byte_pairs.h"
#include "convert/tokenizers/hf_object.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Reads the model and the steps around it, but for the unknown and the added tokens, into a spec
// whose origin is set. What is not as BERT has it is refused by name: InputError.
void fill_hf_word_piece(TokenizerSpec& spec, const HfObject& root, const Vocabulary& vocabulary,
                        const std::string& file_name);

// Throws InputError where the folder's tokenizer_config.json says otherwise than the spec what is
// done to a text: transformers would follow the one, other programs the other. Where it names other
// tokens around a text, the spec gets notes.
void check_bert_config(TokenizerSpec& spec, const std::filesystem::path& folder);

}  // namespace arenite::convert
