// SPDX-License-Identifier: Apache-2.0
// Memory that starts where model files and arenas must start.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "arenite/session.h"

namespace arenite::convert {

// A zeroed block of bytes at a multiple of 64; large ones on huge pages where the system has them,
// which spares the kernels a few percent in address translation.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(size_t size);

  // Drops the bytes after `size`. REQUIRES: size <= size().
  void shorten(size_t size) { size_ = size; }

  std::byte* data() { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    size_t mapped_bytes;  // 0: from the heap
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace arenite::convert
