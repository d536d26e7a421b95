// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE vocabularies, in which a token is written with one printable character per byte.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

using Vocabulary = std::map<std::string, TokenId>;  // as the file writes its tokens

// The character that stands for a byte, as a code point: itself where it prints, else one from
// 256 on. GPT-2's files brought this alphabet into use.
uint32_t byte_character(uint8_t byte);

// The bytes that a token written in this alphabet stands for. One with other characters stands
// for itself.
std::string byte_level_bytes(std::string_view token);

// A merge as a file writes it, "left right": throws InputError unless there is one space inside.
std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& origin);

// Puts a vocabulary into spec.tokens, which `bytes_of` turns into bytes. Throws InputError for an
// id that comes twice or is far beyond the number of tokens.
void add_vocabulary(TokenizerSpec& spec, const Vocabulary& vocabulary,
                    std::string (*bytes_of)(std::string_view token));

// Puts in merges, the first of lowest rank. Throws InputError if a part, or what they make, is not
// in the vocabulary.
void add_merges(TokenizerSpec& spec, const Vocabulary& vocabulary,
                const std::vector<std::pair<std::string, std::string>>& merges);

// A byte-level tokenizer without special tokens. spec.origin says where it is from.
void fill_byte_pairs(TokenizerSpec& spec, const Vocabulary& vocabulary,
                     const std::vector<std::pair<std::string, std::string>>& merges);

}  // namespace arenite::convert
