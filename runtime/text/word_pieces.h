// SPDX-License-Identifier: Apache-2.0
// BERT's tokenization: a text is folded and cut into words, and a word is, from left to right, the
// longest tokens that make it.
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

// What a character becomes before words are looked up: lower case, without accents.

inline constexpr uint32_t kFoldedMax = 4;

// Never more code points than the character has bytes in UTF-8; none where it is dropped.
struct Folded {
  std::array<uint32_t, kFoldedMax> code_points = {};
  uint32_t count = 0;
};

Folded fold(const format::TokenizerView& view, uint32_t code_point);

class WordPieces {
 public:
  // REQUIRES: out.size() >= text.size().
  WordPieces(const format::TokenizerView& view, std::string_view text, std::span<TokenId> out);

  // Writes the tokens to the front of `out`. False where a word has none, and none stands for it.
  bool run();

  size_t count() const { return count_; }             // of tokens
  size_t word_offset() const { return word_begin_; }  // where in the text the last word begins

 private:
  bool add_character(size_t position, uint32_t code_point);
  void extend_word(size_t position, uint32_t code_point);
  bool end_word();
  bool find_pieces();

  const format::TokenizerView& view_;
  std::string_view text_;
  std::span<TokenId> out_;
  PrefixSearch continuation_;  // the tokens that go on within a word
  size_t count_ = 0;
  // The word lies after the tokens as code points, the first word_characters_max of them. Neither
  // it nor the tokens of what is done have more elements than their text has bytes.
  size_t word_size_ = 0;
  size_t word_begin_ = 0;
};

}  // namespace arenite::text
