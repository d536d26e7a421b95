// SPDX-License-Identifier: Apache-2.0
// Every input file of the tools is opened here: a whole regular file, mapped read-only, so that a
// large checkpoint is paged in only where it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace arenite::convert {

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

// Takes the first line off `text`, without its end, "\n" or "\r\n". False when `text` is empty.
bool take_line(std::string_view& text, std::string_view& line);

}  // namespace arenite::convert
