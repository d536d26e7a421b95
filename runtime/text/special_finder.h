// SPDX-License-Identifier: Apache-2.0
// Finds the names of special tokens in a text: the leftmost, and of those the longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/tokenizer_reader.h"

namespace arenite::text {

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
