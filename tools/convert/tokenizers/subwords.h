// SPDX-License-Identifier: Apache-2.0
// Subword vocabularies as files store them: byte-level BPE, whose tokens have one printable
// character per byte, and SentencePiece, whose pieces imply the merges.
//
//   byte-level:    "\u0120the"  ->  " the"     (byte_level_bytes)
//   SentencePiece: "\u2581the"  ->  " the"     (piece_bytes)
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

using Vocabulary = std::map<std::string, TokenId>;  // tokens as the file writes them

// Returns the character that stands for a byte in GPT-2's alphabet: the byte itself if printable,
// else a code point from 256 on.
uint32_t byte_character(uint8_t byte);

// Returns the bytes of a token in this alphabet. A token with other characters is returned
// unchanged.
std::string byte_level_bytes(std::string_view token);

// Splits a merge "left right". Throws InputError unless there is exactly one space, between the
// parts.
std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& origin);

// Sets spec.tokens to the vocabulary, converted by `bytes_of`. Throws InputError for a duplicate
// id, or for one far beyond the number of tokens.
void add_vocabulary(TokenizerSpec& spec, const Vocabulary& vocabulary,
                    std::string (*bytes_of)(std::string_view token));

// Adds merges, lowest rank first. Throws InputError if a part or a result is not in the vocabulary.
void add_merges(TokenizerSpec& spec, const Vocabulary& vocabulary,
                const std::vector<std::pair<std::string, std::string>>& merges);

// Fills in a byte-level tokenizer without special tokens; spec.origin is set. With a suffix such as
// "</w>", the last byte of a piece is the token with that suffix.
void fill_byte_pairs(TokenizerSpec& spec, const Vocabulary& vocabulary,
                     const std::vector<std::pair<std::string, std::string>>& merges,
                     const std::string& suffix = "");

// Piece types of the SentencePiece model file, also used by GGUF.
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

inline constexpr uint32_t kSpaceMarkCharacter = 0x2581;  // for a space
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Returns `token` with U+2581 replaced by spaces.
std::string piece_bytes(std::string_view token);

// Returns the byte of a piece such as "<0x0A>"; -1 for others.
int piece_byte(std::string_view token);

// Maps a single character to `token`. With `marks_spaces` a space is written as U+2581, and texts
// may contain either.
void add_character(TokenizerSpec& spec, std::string_view written, TokenId token,
                   bool marks_spaces = true);

// Fills in tokens, characters, bytes, special tokens and merges from pieces, whose ids are their
// indices. Merging by score equals merging by rank: a pair that results in a piece has the rank of
// the piece's score. `escaped`: pieces write spaces as U+2581. `merges`: false leaves merges out.
// Throws InputError for an unsupported type of piece, or a score that is NaN.
void fill_sentence_pieces(TokenizerSpec& spec, const std::vector<SentencePiece>& pieces,
                          bool escaped, bool merges = true);

enum class TextEdge : uint8_t { kBegin, kEnd };

class PieceSearch {
 public:
  // `texts` are indexed by id; empty ones are never found. They must outlive this object.
  PieceSearch(std::vector<std::string_view> texts, TextEdge edge);

  // Sets found[n - 1] to the id of the piece that equals the first (or last) n bytes of `text`, for
  // each n below its length; kNoToken if there is none. Reads each byte once, with log(pieces)
  // steps, whereas a lookup per prefix would be quadratic in the length.
  void find(std::string_view text, std::vector<TokenId>& found) const;

 private:
  uint8_t byte(std::string_view text, size_t depth) const {
    const size_t place = edge_ == TextEdge::kBegin ? depth : text.size() - 1 - depth;
    return static_cast<uint8_t>(text[place]);
  }

  std::vector<std::string_view> texts_;
  TextEdge edge_;
  std::vector<TokenId> order_;  // sorted by bytes, read from the edge
};

}  // namespace arenite::convert
