// SPDX-License-Identifier: Apache-2.0
// Tokens are sorted: of those left, the one that ends here comes first.
#include "text/prefix_search.h"

namespace arenite::text {

bool PrefixSearch::narrow(uint8_t byte) {
  if (whole() != order_.size()) ++begin_;
  const uint32_t narrowed = first_with(byte);
  end_ = first_with(byte + 1u);
  begin_ = narrowed;
  ++depth_;
  return begin_ < end_;
}

bool PrefixSearch::narrow(std::string_view bytes) {
  for (const char byte : bytes) {
    if (!narrow(static_cast<uint8_t>(byte))) return false;
  }
  return true;
}

size_t PrefixSearch::whole() const {
  return begin_ < end_ && bytes(begin_).size() == depth_ ? begin_ : order_.size();
}

// The first place whose next byte is at least this. REQUIRES: all that are left have a next byte.
uint32_t PrefixSearch::first_with(uint32_t least) const {
  uint32_t low = begin_;
  uint32_t high = end_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (static_cast<uint8_t>(bytes(middle)[depth_]) < least) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace arenite::text
