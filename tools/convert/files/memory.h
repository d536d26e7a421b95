// SPDX-License-Identifier: Apache-2.0
// Memory that files lie in: mapped inputs, whose names may be anything, and aligned blocks for
// models and arenas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "arenite/session.h"

namespace arenite::convert {

// A zeroed block of bytes at a multiple of 64; large ones on huge pages where the system has them,
// which spares the kernels a few percent in address translation.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(size_t size);

  // Leaves the bytes after `size` away. REQUIRES: size <= size().
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

class FileMap {
 public:
  // Maps `file`. Throws InputError when it cannot be opened, has more than `bytes_max` bytes, or is
  // no regular file: pipes, sockets and devices are not even opened, as that could wait forever or
  // have an effect. Links are followed.
  explicit FileMap(const std::filesystem::path& file, uint64_t bytes_max = UINT64_MAX);
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;

  // The bytes stay where they are when the FileMap is moved. Empty for an empty file. Nobody may
  // shorten the file meanwhile: reading what is gone ends the process.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // Gives the memory of the bytes back. They can still be read: from the file, once more.
  void drop_pages() const;

 private:
  std::span<const std::byte> bytes_;
};

// Whether there is a file or folder at `path`. False, too, where the system refuses to look, as for
// a name that is too long, which std::filesystem throws an error of its own for: a FileMap of the
// path says why.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code why;
  return std::filesystem::exists(path, why);
}

// Takes the first line off `text`, without its end, "\n" or "\r\n". False when `text` is empty.
bool take_line(std::string_view& text, std::string_view& line);

}  // namespace arenite::convert
