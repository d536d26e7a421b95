// SPDX-License-Identifier: Apache-2.0
// Guarded memory that is mapped once and lent repeatedly, because mapping would take most of the
// time of a small model.
#pragma once

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
    std::memset(used.data(), static_cast<int>(kFill), used.size());
    return lent_;
  }

  void check() const {
    const std::byte* const lent_end = lent_.data() + lent_.size();
    const std::byte* const end = buffer_.data() + buffer_.size();
    require(is_filled({lent_.data() - kMargin, lent_.data()}) && is_filled({lent_end, end}),
            "nothing is written beside a buffer");
  }

  // Whether nothing was written to these bytes. Whole blocks are compared, which sanitizers check
  // at once.
  static bool is_filled(std::span<const std::byte> bytes) {
    return bytes.empty() || (bytes.front() == kFill &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kMargin = 256;
  static constexpr std::byte kFill{0xFF};
  GuardedBuffer buffer_;
  std::span<std::byte> lent_;
};

}  // namespace arenite::test
