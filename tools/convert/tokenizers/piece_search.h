// SPDX-License-Identifier: Apache-2.0
// Finds the pieces of a vocabulary that a text begins or ends with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "arenite/token.h"

namespace arenite::convert {

enum class TextEdge : uint8_t { kBegin, kEnd };

class PieceSearch {
 public:
  // `texts` by id; those without text are never found. They must outlive this.
  PieceSearch(std::vector<std::string_view> texts, TextEdge edge);

  // Element n - 1 becomes the id of the piece that is the first, or last, n bytes of `text`, for n
  // from 1 to all but one; kNoToken where there is none. Looks at each byte once, in log n steps
  // for n pieces: asking for each part of its own would read a long text as often as it has bytes.
  void find(std::string_view text, std::vector<TokenId>& found) const;

 private:
  uint8_t byte(std::string_view text, size_t depth) const {
    const size_t place = edge_ == TextEdge::kBegin ? depth : text.size() - 1 - depth;
    return static_cast<uint8_t>(text[place]);
  }

  std::vector<std::string_view> texts_;
  TextEdge edge_;
  std::vector<TokenId> order_;  // by their bytes, read from the edge
};

}  // namespace arenite::convert
