// SPDX-License-Identifier: Apache-2.0
// A file that appears whole under its name, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace arenite::convert {

// Writes to a temporary name in the same folder; commit renames it to the target, replacing what
// was there. Every failure, a full disk included, throws InputError with the target's name, and the
// temporary file is removed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();  // without commit, nothing stays behind
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // For files whose parts come in any order: zeros up to `bytes`, and bytes in place of some.
  void resize(uint64_t bytes);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t bytes_written() const { return bytes_written_; }

  // The bytes are on the disk before the name points at them. Nothing can be written afterwards.
  void commit();

 private:
  void discard() noexcept;
  [[noreturn]] void fail(int error_number);

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;  // -1 when closed, committed or discarded
  uint64_t bytes_written_ = 0;
};

}  // namespace arenite::convert
