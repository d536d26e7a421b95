// SPDX-License-Identifier: Apache-2.0
// Guarded memory that is mapped once and lent again and again: mapping would take most of the time
// of a small model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "fuzz/require.h"
#include "support/guarded_buffer.h"

namespace arenite::test {

class GuardedRegion {
 public:
  explicit GuardedRegion(size_t bytes_max) : buffer_(bytes_max + kMargin, kAlignment) {}

  // Memory that ends at an inaccessible page, less than `alignment` bytes before it, and is filled
  // with 0xFF, as is the margin before it. What was lent before is gone.
  // REQUIRES: at most bytes_max bytes; alignment is a power of two, at most 64.
  std::span<std::byte> lend(size_t bytes, size_t alignment) {
    const size_t begin = (buffer_.size() - bytes) / alignment * alignment;
    lent_ = buffer_.span().subspan(begin, bytes);
    const std::span<std::byte> used = buffer_.span().subspan(begin - kMargin);
    std::ranges::fill(used, kFill);
    return lent_;
  }

  void check() const {
    const std::span<const std::byte> before(lent_.data() - kMargin, kMargin);
    const size_t rest = static_cast<size_t>(buffer_.data() + buffer_.size() - lent_.data());
    const auto is_fill = [](std::byte byte) { return byte == kFill; };
    require(std::ranges::all_of(before, is_fill) &&
                std::ranges::all_of(std::span(lent_.data() + lent_.size(), rest - lent_.size()),
                                    is_fill),
            "nothing is written beside a buffer");
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kMargin = 1024;
  static constexpr std::byte kFill{0xFF};
  GuardedBuffer buffer_;
  std::span<std::byte> lent_;
};

}  // namespace arenite::test
