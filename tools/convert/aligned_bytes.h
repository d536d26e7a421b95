// SPDX-License-Identifier: Apache-2.0
// Memory that starts where model files and arenas must start.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "arenite/session.h"

namespace arenite::convert {

// A zeroed block of bytes at a multiple of 64.
class AlignedBytes {
 public:
  static constexpr std::align_val_t kAlignment{kModelAlignment};
  static_assert(kModelAlignment >= kArenaAlignment);

  AlignedBytes() = default;
  explicit AlignedBytes(size_t size)
      : data_(static_cast<std::byte*>(::operator new(size, kAlignment))), size_(size) {
    std::memset(data_.get(), 0, size);
  }

  std::byte* data() { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> data_;
  size_t size_ = 0;
};

}  // namespace arenite::convert
