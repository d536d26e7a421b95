// SPDX-License-Identifier: Apache-2.0
// Finds the names of special tokens in a text: the leftmost, and of those the longest. Tokens are
// looked up byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "format/tokenizer_reader.h"

namespace arenite::text {

// Narrows tokens down, byte by byte, to those that begin with the bytes so far.

class PrefixSearch {
 public:
  // `order` lists tokens in strictly increasing order of their bytes: ids, or indexes into `ids`
  // where that is not empty.
  PrefixSearch(const format::TokenizerView& view, std::span<const uint32_t> order,
               std::span<const uint32_t> ids = {})
      : view_(view), order_(order), ids_(ids), end_(static_cast<uint32_t>(order.size())) {}

  // Appends a byte, or bytes. False where no token begins so, and then for good. A byte takes
  // log n steps for the n tokens that are left.
  bool narrow(uint8_t byte);
  bool narrow(std::string_view bytes);

  // The place in `order` of the token that has the bytes so far and no more; order.size(): none.
  size_t whole() const;

 private:
  std::string_view bytes(uint32_t place) const {
    return view_.bytes(ids_.empty() ? order_[place] : ids_[order_[place]]);
  }
  uint32_t first_with(uint32_t least) const;

  const format::TokenizerView& view_;
  std::span<const uint32_t> order_, ids_;
  uint32_t begin_ = 0;  // places [begin_, end_) are left
  uint32_t end_;
  size_t depth_ = 0;  // bytes so far
};

struct SpecialMatch {
  size_t begin = 0;  // in the text, with the spaces that the token eats
  size_t end = 0;
  TokenId token = kNoToken;  // kNoToken: none in the rest of the text
};

class SpecialFinder {
 public:
  // Finds those that are read in every text, and with `all` all of them.
  SpecialFinder(const format::TokenizerView& view, bool all);

  // The first match from `from` on. Looks at each byte once, and further only where a name begins.
  SpecialMatch find(std::string_view text, size_t from) const;

 private:
  // Index into special_order of the longest name at the start of `text`; none: their number.
  uint32_t longest_at(std::string_view text) const;
  bool is_read(uint32_t order_index) const;
  std::string_view name(uint32_t order_index) const;

  const format::TokenizerView& view_;
  bool all_;
  uint32_t first_bytes_[8] = {};  // bit set of the bytes that names begin with
};

// Index into specials of a token, or of the one named so; their number if there is none.
uint32_t special_index(const format::TokenizerView& view, TokenId token);
uint32_t special_index(const format::TokenizerView& view, std::string_view name);

}  // namespace arenite::text
