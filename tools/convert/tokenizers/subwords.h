// SPDX-License-Identifier: Apache-2.0
// Subword vocabularies as files write them: those of byte-level BPE, in which a token is written
// with one printable character per byte, and the pieces of SentencePiece, whose merges files do not
// list.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arenite/token.h"
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

// A byte-level tokenizer without special tokens. spec.origin says where it is from. With a suffix,
// such as "</w>", the last byte of a piece is the token that ends so.
void fill_byte_pairs(TokenizerSpec& spec, const Vocabulary& vocabulary,
                     const std::vector<std::pair<std::string, std::string>>& merges,
                     const std::string& suffix = "");

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

enum class TextEdge : uint8_t { kBegin, kEnd };

class PieceSearch {
 public:
  // `texts` by id; those without text are never found. They must outlive this.
  PieceSearch(std::vector<std::string_view> texts, TextEdge edge);

  // Element n - 1 becomes the id of the piece that is the first, or last, n bytes of `text`, for n
  // from 1 to all but one; kNoToken where there is none. Looks at each byte once, in log n steps
  // for n pieces: asking for each part of its own would read a long text as often as it has bytes.
  void find(std::string_view text, std::vector<TokenId>& found) const;

 private:
  uint8_t byte(std::string_view text, size_t depth) const {
    const size_t place = edge_ == TextEdge::kBegin ? depth : text.size() - 1 - depth;
    return static_cast<uint8_t>(text[place]);
  }

  std::vector<std::string_view> texts_;
  TextEdge edge_;
  std::vector<TokenId> order_;  // by their bytes, read from the edge
};

}  // namespace arenite::convert
