// SPDX-License-Identifier: Apache-2.0
// Narrows tokens down, byte by byte, to those that begin with the bytes so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "format/tokenizer_reader.h"

namespace arenite::text {

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

}  // namespace arenite::text
