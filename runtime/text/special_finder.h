// SPDX-License-Identifier: Apache-2.0
// Finds the names of special tokens in a text, and tokens by their bytes.
//   "a<|end|>b" with a special token <|end|>:  find(text, 0) is the match [1, 8)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/utf8.h"
#include "format/tokenizer_reader.h"

namespace arenite::text {

// Narrows a sorted list of tokens, byte by byte, to those that begin with the bytes so far.
class PrefixSearch {
 public:
  // `order` lists tokens in strictly increasing order of their bytes: as ids, or as indexes into
  // `ids` if that is not empty. The spans must outlive the search.
  PrefixSearch(const format::TokenizerView& view, std::span<const uint32_t> order,
               std::span<const uint32_t> ids = {})
      : view_(view), order_(order), ids_(ids), end_(static_cast<uint32_t>(order.size())) {}

  // Appends one or more bytes. Returns false if no token begins with the bytes so far; the search
  // then stays empty. A byte takes log n steps for the n tokens that are left.
  bool narrow(uint8_t byte);
  bool narrow(std::string_view bytes);

  // Returns the place in `order` of the token that equals the bytes so far; order.size() if none.
  size_t whole() const;

 private:
  std::string_view bytes(uint32_t place) const {
    return view_.bytes(ids_.empty() ? order_[place] : ids_[order_[place]]);
  }
  uint32_t first_with(uint32_t least) const;

  const format::TokenizerView& view_;
  std::span<const uint32_t> order_, ids_;
  uint32_t begin_ = 0;  // places [begin_, end_) of order_ are left
  uint32_t end_;
  size_t depth_ = 0;  // number of bytes so far
};

struct SpecialMatch {
  size_t begin = 0;  // bytes [begin, end) of the text, with the white space that the token takes in
  size_t end = 0;
  TokenId token = kNoToken;  // kNoToken: none in the rest of the text
};

class SpecialFinder {
 public:
  // Finds the special tokens that are read in every text (kReadAlways), or all special tokens if
  // `all`: those that are found in texts as they are, or in normalized ones.
  SpecialFinder(const format::TokenizerView& view, bool all, bool in_normalized = false);

  bool finds_none() const { return finds_none_; }

  // Returns the leftmost match from `from` on, and the longest of those at the same place. Reads
  // each byte once, and looks ahead only where a name may begin.
  SpecialMatch find(std::string_view text, size_t from) const;

 private:
  struct Name {
    uint32_t special = 0;  // index into specials
    size_t bytes = 0;      // 0: none
  };
  // Returns the longest name at the start of `text`.
  Name longest_at(std::string_view text) const;
  bool is_read(uint32_t special) const;
  bool is_word_character(CodePoint code_point) const;
  bool is_single_word(std::string_view text, size_t begin, size_t end) const;

  const format::TokenizerView& view_;
  bool all_;
  bool in_normalized_;
  bool finds_none_ = true;
  uint32_t first_bytes_[8] = {};  // bit set of the first bytes of names
};

// Returns the index into specials of a token, by its id or its name; the size of specials if there
// is none.
uint32_t special_index(const format::TokenizerView& view, TokenId token);
uint32_t special_index(const format::TokenizerView& view, std::string_view name);

}  // namespace arenite::text
