// SPDX-License-Identifier: Apache-2.0
// Memory of files: read-only mappings of inputs, and aligned blocks for models and arenas.
//
//   const FileMap map(path);
//   const std::span<const std::byte> bytes = map.bytes();
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "arenite/session.h"

namespace arenite::convert {

// A zeroed block of bytes, aligned to 64. Large blocks use huge pages where the system has them,
// which saves the kernels a few percent of address translation.
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

// Read-only numbers: owned, or where a mapped file holds them. Copies share them.
//   const Floats values = std::vector<float>{1.0f, 2.0f};
class Floats {
 public:
  Floats() = default;
  Floats(std::vector<float> values)  // NOLINT: a vector is Floats
      : owner_(std::make_shared<const std::vector<float>>(std::move(values))),
        values_(*static_cast<const std::vector<float>*>(owner_.get())) {}
  // `owner` keeps the values alive.
  Floats(std::span<const float> values, std::shared_ptr<const void> owner)
      : owner_(std::move(owner)), values_(values) {}

  const float* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  float operator[](size_t index) const { return values_[index]; }
  std::vector<float> copy() const { return {begin(), end()}; }
  friend bool operator==(const Floats& a, const Floats& b) { return std::ranges::equal(a, b); }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const float> values_;
};

class FileMap {
 public:
  // Maps `file`, following links. Throws InputError if it cannot be opened, has more than
  // `bytes_max` bytes, or is not a regular file. Pipes, sockets and devices are not even opened, as
  // that could block forever or have side effects.
  explicit FileMap(const std::filesystem::path& file, uint64_t bytes_max = UINT64_MAX);
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;

  // Returns the mapped bytes; empty for an empty file. Moving the FileMap keeps them in place. The
  // file must not be truncated meanwhile: reading past its new end kills the process.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  // Releases the pages of the mapping. Later reads load them from the file again.
  void drop_pages() const;

 private:
  std::span<const std::byte> bytes_;
};

// Whether there is a file or folder at `path`. Also false if the system refuses to look, as for a
// name that is too long (std::filesystem would throw); FileMap then reports the reason.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code why;
  return std::filesystem::exists(path, why);
}

// Removes the first line from `text`, with its "
// " or "\r
// ". Returns false if `text` is empty.
bool take_line(std::string_view& text, std::string_view& line);

}  // namespace arenite::convert
