// SPDX-License-Identifier: Apache-2.0
// A part of a text, between special tokens, with the space that a tokenizer may put before it.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/utf8.h"

namespace arenite::text {

// Reads as if the space were there; the text itself is never copied.
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

  // Where `position` lies in the text without the prefix.
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

}  // namespace arenite::text
