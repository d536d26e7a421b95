// SPDX-License-Identifier: Apache-2.0
// From a text to tokens: special tokens, parts, and of these words, or pieces, symbols, merges.
// Then one text or two with the tokens that the model was trained to see around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/status.h"
#include "arenite/tokenizer.h"
#include "core/message.h"
#include "format/tokenizer_reader.h"
#include "text/cutter.h"
#include "text/special_finder.h"

namespace arenite::text {

// Numbers of work space for each symbol of a piece, its own token included.
inline constexpr uint32_t kMergeWords = 5;

// `work` begins with `symbols` tokens, the rest is work space; the merged tokens then stand at its
// front. Returns how many. O(n log n) look-ups and steps for n symbols.
// REQUIRES: work.size() >= kMergeWords * symbols.
uint32_t merge(const format::TokenizerView& view, std::span<uint32_t> work, uint32_t symbols);

// Numbers of work space for each byte of a word of Unigram, and one byte more: score, start, token.
inline constexpr uint32_t kPathWords = 4;

// Writes the best tokens of a piece to the front of `work`, those of unknown characters in a row
// as one, or as those of their bytes. Returns how many; `unknown` where a character has no token,
// none stands for it, and where it is.
// REQUIRES: work.size() >= kPathWords * (bytes of the piece + 1).
struct BestPath {
  uint32_t count = 0;
  bool is_refused = false;
  size_t refused = 0;
};
BestPath best_path(const format::TokenizerView& view, const Part& part, const Piece& piece,
                   std::span<uint32_t> work);

class Encoder {
 public:
  // REQUIRES: out.size() >= 5 * (text.size() + 1), text.size() <= kTextBytesMax.
  Encoder(const format::TokenizerView& view, std::string_view text, std::span<TokenId> out)
      : view_(view), text_(text), out_(out) {}

  // Returns the number of tokens at the front of `out`, at most two for each byte, without those
  // that go around a text. `field` names the text in the diagnostic.
  Result<size_t> run(bool read_specials, Message field, Diagnostic* why);

 private:
  bool add_part(size_t begin, size_t end);
  bool add_words(std::string_view text, size_t begin);
  bool add_spaced(std::string_view text, size_t begin);
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
  bool unknown_before_ = false;      // the symbol before is the token for unknown characters
  size_t refused_offset_ = 0;        // where in the text a character without a token is ...
  uint32_t refused_code_point_ = 0;  // ... and which it is
  size_t part_begin_ = 0;
  bool is_normalized_ = false;  // the part lies at the end of `out`, before which it ends
  bool is_too_small_ = false;   // the span, for what the steps make of the text
};

struct Texts {
  std::string_view first;
  std::string_view second = {};
  bool is_pair = false;
};

// What Tokenizer::encode and encode_pair do. `out_types` may be empty.
Result<size_t> encode_framed(const format::TokenizerView& view, const Texts& texts,
                             const EncodeOptions& options, std::span<TokenId> out_ids,
                             std::span<uint8_t> out_types, Diagnostic* why);

}  // namespace arenite::text
