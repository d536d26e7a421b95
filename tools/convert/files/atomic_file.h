// SPDX-License-Identifier: Apache-2.0
// A file that appears whole under its name, or not at all; several that appear together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "convert/files/temporary_files.h"

namespace arenite::convert {

// Writes to a temporary name in the same folder; commit renames it to the target, replacing what
// was there. A target that is a symbolic link stays one, and what it leads to is replaced. Every
// failure, a full disk included, throws InputError with the target's name, and the temporary file
// is removed. A file that was read under an OutputGuard is not replaced.
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
  friend void commit_together(std::span<AtomicFile* const> files);

  void make_temporary();
  void close_flushed();
  void publish(bool keeps_old);
  void take_back() noexcept;
  void forget_old() noexcept;
  void discard() noexcept;
  [[noreturn]] void fail(int error_number);

  std::filesystem::path target_;  // as given
  std::filesystem::path place_;   // where links of that name lead
  std::filesystem::path temporary_;
  std::filesystem::path old_;  // another name of what was replaced; empty: none
  bool is_new_ = false;        // nothing was replaced
  TemporaryName temporary_name_;
  int descriptor_ = -1;         // -1 when closed
  bool has_temporary_ = false;  // false when committed or discarded
  uint64_t bytes_written_ = 0;
};

// All of the files appear, or none: where the last one cannot, those before are as they were. That
// much is certain but on file systems without hard links, where a file that was replaced stays so.
// Null stands for a file that is not wanted.
void commit_together(std::span<AtomicFile* const> files);

}  // namespace arenite::convert
