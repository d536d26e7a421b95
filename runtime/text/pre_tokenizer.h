// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizer: splits a part of a text into pieces. Tokens never cross the border of a piece.
//   PreTokenizer pre_tokenizer(view, part);
//   for (Piece piece; pre_tokenizer.next(piece);) add_piece(part, piece);  // as in Encoder
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/utf8.h"
#include "format/tokenizer_reader.h"

namespace arenite::text {

inline constexpr uint32_t kSpaceMark = 0x2581;  // SentencePiece's space

// Constants of the arithmetic that decomposes Hangul syllables: The Unicode Standard, section 3.12.
inline constexpr uint32_t kSyllables = 0xAC00, kSyllableCount = 11172;
inline constexpr uint32_t kInitialCount = 19, kInitials = 0x1100, kVowels = 0x1161,
                          kFinals = 0x11A7;
inline constexpr uint32_t kVowelCount = 21, kFinalCount = 28;

// A view of a part of a text, with or without a prefix space. Position 0 is that space if there is
// one; the text is not copied and must outlive the part.
class Part {
 public:
  Part(std::string_view text, bool has_prefix) : text_(text), prefix_bytes_(has_prefix ? 1 : 0) {}

  size_t size() const { return text_.size() + prefix_bytes_; }

  // REQUIRES for both: position < size().
  uint8_t byte(size_t position) const {
    assert(position < size());
    if (position < prefix_bytes_) return ' ';
    return static_cast<uint8_t>(text_[position - prefix_bytes_]);
  }
  CodePoint code_point(size_t position) const {
    assert(position < size());
    if (position < prefix_bytes_) return {' ', 1};
    const size_t begin = position - prefix_bytes_;
    return decode_utf8({text_.data() + begin, text_.size() - begin});
  }

  // Returns the address of a byte; for the prefix, that of the text's first byte. REQUIRES:
  // position <= size().
  const char* at(size_t position) const { return text_.data() + text_offset(position); }

  // Returns the index of that byte in the text without the prefix.
  size_t text_offset(size_t position) const {
    return position < prefix_bytes_ ? 0 : position - prefix_bytes_;
  }

 private:
  std::string_view text_;
  size_t prefix_bytes_;
};

// Bytes [begin, end) of a part.
struct Piece {
  size_t begin = 0;
  size_t end = 0;
};

// The steps that divide a text into parts (SplitFlags::kPartsFollow), or parts into pieces.
enum class SplitSteps : uint8_t { kUpToParts, kOfParts };
bool has_step(const format::TokenizerView& view, format::SplitFlags flag);

// Splits by tables that the converter compiles from regular expressions. The pieces of a step are
// the texts of the next one; a text without steps is one piece. A search remembers where its last
// match ended and reads on until no longer match is possible; the converter refuses expressions by
// which several searches would read on over the same text.
class PreTokenizer {
 public:
  PreTokenizer(const format::TokenizerView& view, const Part& part,
               SplitSteps which = SplitSteps::kOfParts);

  // Writes the next piece, which is never empty. Returns false at the end of the part.
  bool next(Piece& piece);

 private:
  // The bytes that a step divides.
  struct Range {
    size_t begin, end;
  };
  size_t piece_end(const uint32_t* step, const Range& text, bool& is_dropped) const;
  size_t match_end(const uint32_t* step, size_t begin, const Range& text, size_t& read) const;
  uint32_t start_state(const uint32_t* step, size_t begin, const Range& text) const;
  uint32_t column_at(const uint32_t* step, size_t position, uint32_t& bytes) const;

  std::span<const uint32_t> columns_;
  const Part& part_;
  uint32_t column_count_ = 0;
  uint32_t step_count_ = 0;
  const uint32_t* steps_[format::kSplitStepsMax] = {};  // in `splits`
  Range pieces_[format::kSplitStepsMax] = {};  // the piece of each step that holds position_
  size_t position_ = 0;
};

}  // namespace arenite::text
