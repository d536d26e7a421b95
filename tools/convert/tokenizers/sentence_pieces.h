// SPDX-License-Identifier: Apache-2.0
// Vocabularies of SentencePiece: pieces with scores, of which the higher is merged first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Numbers of the SentencePiece model file, which GGUF uses as well.
enum class PieceType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct SentencePiece {
  std::string text;
  float score = 0.0f;
  PieceType type = PieceType::kNormal;
};

inline constexpr std::string_view kLowLine = "\xE2\x96\x81";  // U+2581, for a space

// `token` with its spaces in place of U+2581.
std::string piece_bytes(std::string_view token);

// The byte of a piece such as "<0x0A>"; -1 for others.
int piece_byte(std::string_view token);

// Maps single characters to `token`; the space is written as U+2581 and may be in texts as both.
void add_character(TokenizerSpec& spec, std::string_view written, TokenId token);

// Tokens, characters, bytes, special tokens and merges of the pieces, whose ids are their indexes.
// Merging by score is merging by rank: a pair that makes a piece has the rank of its score. With
// `escaped`, pieces are written with U+2581 for a space. Throws InputError for a piece of a type
// that is not supported, or a score that is not a number.
void fill_sentence_pieces(TokenizerSpec& spec, const std::vector<SentencePiece>& pieces,
                          bool escaped);

}  // namespace arenite::convert
