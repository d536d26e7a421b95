// SPDX-License-Identifier: Apache-2.0
// WordPiece, BERT's tokenization: folds a text, splits it into words, and replaces each word from
// left to right by the longest matching tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/token.h"
#include "format/tokenizer_reader.h"
#include "text/special_finder.h"

namespace arenite::text {

inline constexpr uint32_t kFoldedMax = 4;

// The code points that a character becomes, such as lower case without accents: at most as many as
// it has bytes in UTF-8, and none if it is dropped.
struct Folded {
  std::array<uint32_t, kFoldedMax> code_points = {};
  uint32_t count = 0;
};

Folded fold(const format::TokenizerView& view, uint32_t code_point);

class WordPieces {
 public:
  // REQUIRES: out.size() >= text.size().
  WordPieces(const format::TokenizerView& view, std::string_view text, std::span<TokenId> out);

  // Writes the tokens to the front of `out`. Returns false if a word has no tokens and the
  // tokenizer refuses unknown words.
  bool run();

  size_t count() const { return count_; }             // tokens written
  size_t word_offset() const { return word_begin_; }  // bytes of the text before the last word

 private:
  bool add_character(size_t position, uint32_t code_point);
  void extend_word(size_t position, uint32_t code_point);
  bool end_word();
  bool find_pieces();

  const format::TokenizerView& view_;
  std::string_view text_;
  std::span<TokenId> out_;
  PrefixSearch continuation_;  // narrowed to the tokens that continue a word
  size_t count_ = 0;
  // The first word_characters_max code points of the current word are in `out` after the tokens.
  // They fit: tokens and code points are never more than the bytes of their text.
  size_t word_size_ = 0;
  size_t word_begin_ = 0;
};

}  // namespace arenite::text
