// SPDX-License-Identifier: Apache-2.0
// BERT's vocabularies: a word a line, "##" before what goes on within a word.
#pragma once

#include <filesystem>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

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

}  // namespace arenite::convert
