// SPDX-License-Identifier: Apache-2.0
// Encodes texts. Special tokens divide a text into parts; the pre-tokenizer splits parts into
// pieces; a piece becomes symbols (bytes or characters) that are merged, or the best path of a
// Unigram model; WordPiece splits parts into words instead. encode_framed adds the special tokens
// around one text or two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/status.h"
#include "arenite/tokenizer.h"
#include "core/message.h"
#include "format/tokenizer_reader.h"
#include "text/pre_tokenizer.h"
#include "text/special_finder.h"

namespace arenite::text {

// Elements of work space for each symbol of a piece, including its own token.
inline constexpr uint32_t kMergeWords = 5;

// Merges the `symbols` tokens at the front of `work` and leaves the result at its front; the rest
// is work space. Returns the number of tokens. Takes O(n log n) look-ups and steps for n symbols.
// REQUIRES: work.size() >= kMergeWords * symbols.
uint32_t merge(const format::TokenizerView& view, std::span<uint32_t> work, uint32_t symbols);

// Elements of work space for each byte of a Unigram piece and its end: score (2), start, token.
inline constexpr uint32_t kPathWords = 4;

struct BestPath {
  uint32_t count = 0;  // tokens written
  bool is_refused = false;
  size_t refused = 0;  // position in the part of a character that has no token
};
// Writes the best tokens of a Unigram piece to the front of `work`. Unknown characters become the
// tokens of their bytes, one unknown_token for a run of them, or nothing. Sets `is_refused` if the
// tokenizer refuses unknown characters and the path has one. REQUIRES: work.size() >= kPathWords *
// (bytes of the piece + 1).
BestPath best_path(const format::TokenizerView& view, const Part& part, const Piece& piece,
                   std::span<uint32_t> work);

class Encoder {
 public:
  // REQUIRES: out.size() >= 5 * (text.size() + 1), text.size() <= kTextBytesMax.
  Encoder(const format::TokenizerView& view, std::string_view text, std::span<TokenId> out)
      : view_(view), text_(text), out_(out) {}

  // Writes the tokens of the text, without those around it, to the front of `out`; the rest of
  // `out` is work space. Returns their number, at most two for each byte. `field` names the text in
  // the diagnostic. Fails with kInvalidArgument if the vocabulary lacks a character or word, or if
  // the normalizer makes the text too long for `out`.
  Result<size_t> run(bool read_specials, Message field, Diagnostic* why);

 private:
  bool add_between(size_t begin, size_t end, const SpecialFinder& names);
  bool add_named(std::string_view text, size_t begin, const SpecialFinder& names);
  bool add_text(std::string_view text, size_t begin);
  bool add_words(std::string_view text, size_t begin);
  bool add_word(const Part& part, const Piece& piece);
  bool add_spaced(std::string_view text, size_t begin);
  bool add_parts(std::string_view text, size_t begin);
  bool add_best(const Part& part, const Piece& piece);
  bool fits(size_t words, const Part& part, size_t position);
  bool add_part(const Part& part, size_t begin);
  bool add_piece(const Part& part, const Piece& piece);
  bool add_symbols(const Part& part, const Piece& piece, size_t& end);
  bool add_character(const Part& part, size_t position, size_t& end);
  TokenId whole_token(const Part& part, const Piece& piece) const;
  TokenId character_token(uint32_t code_point) const;
  bool has_prefix(std::string_view text, bool is_first) const;
  bool has_lone_prefix(const SpecialMatch& match) const;
  void push(TokenId token) { out_[count_++] = token; }

  const format::TokenizerView& view_;
  std::string_view text_;
  std::span<TokenId> out_;
  size_t count_ = 0;
  bool unknown_before_ = false;      // the symbol before is an unknown character
  size_t refused_offset_ = 0;        // byte of the text with a character that has no token ...
  uint32_t refused_code_point_ = 0;  // ... and its code point
  size_t part_begin_ = 0;            // byte of the text
  bool is_normalized_ = false;       // the part is normalized and lies at the end of `out_`
  bool is_too_small_ = false;        // `out_` has no room for the normalized text and its tokens
};

struct Texts {
  std::string_view first;
  std::string_view second = {};
  bool is_pair = false;
};

// Implements Tokenizer::encode and encode_pair, with their contract. `out_types` may be empty.
Result<size_t> encode_framed(const format::TokenizerView& view, const Texts& texts,
                             const EncodeOptions& options, std::span<TokenId> out_ids,
                             std::span<uint8_t> out_types, Diagnostic* why);

}  // namespace arenite::text
