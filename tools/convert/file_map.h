// SPDX-License-Identifier: Apache-2.0
// A whole file mapped read-only, so that a large checkpoint is paged in only where it is read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace arenite::convert {

class FileMap {
 public:
  // Maps `file`, which must be a regular file. Throws InputError when it cannot be opened.
  explicit FileMap(const std::filesystem::path& file);
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;

  // The bytes stay where they are when the FileMap is moved. Empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

  // Gives the memory of the bytes back. They can still be read: from the file, once more.
  void drop_pages() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace arenite::convert
