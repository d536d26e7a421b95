// SPDX-License-Identifier: Apache-2.0
// What a command writes: files and folders that appear whole or not at all, and none that it reads.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/temporary_names.h"

namespace arenite::convert {

// Two files of one command must not be the same one; the program ends with exit code 2. It is no
// InputError: nothing is wrong with the file, so that no reader has anything to add.
class SameFileError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit SameFileError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// What is the same for all names of a file.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// A file that a command is to write, and the option that names it.
struct OutputFile {
  std::string option;
  std::filesystem::path path;  // empty: the option was not given
};

// While one lives, a file that is opened to be read must be none of the outputs, and no AtomicFile
// replaces a file that was read. Files are told apart by device and inode, so that relative paths,
// symbolic links and hard links make no difference. At most one lives at a time.
class OutputGuard {
 public:
  // Throws SameFileError where two outputs are one file, or one is where the standard output goes;
  // InputError where an output cannot be written at all: before there was any work.
  explicit OutputGuard(std::vector<OutputFile> outputs);
  ~OutputGuard();
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  friend void note_read(int descriptor, const std::filesystem::path& file);
  friend void require_not_read(const std::filesystem::path& file);

  void read(FileId id, const std::filesystem::path& file);

  std::vector<OutputFile> outputs_;
  std::vector<FileId> read_;
};

// Called by whoever opens an input, before a byte of it is used. Without a guard they do nothing.
// Throw SameFileError if it is an output, or the file that the standard output or error goes to.
void note_read(int descriptor, const std::filesystem::path& file);
void note_read(const std::filesystem::path& file);

// Throws SameFileError if `file` was read.
void require_not_read(const std::filesystem::path& file);

// Throws InputError if `file` cannot be written because of what it is or where it lies: a folder or
// a device, or in a folder that is missing or read-only.
void require_writable(const std::filesystem::path& file);

// Where the symbolic link `file` leads, or might lead one day; `file` itself if it is none.
std::filesystem::path end_of_links(const std::filesystem::path& file);

// Writes to a temporary name in the same folder; commit renames it to the target, replacing what
// was there. A target that is a symbolic link stays one, and what it leads to is replaced. Every
// failure, a full disk included, throws InputError with the target's name, and the temporary file
// is removed. A file that was read under an OutputGuard is not replaced. Where the program is
// killed the target is as it was, and the next AtomicFile of it removes the temporary file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();  // without commit, nothing else remains
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

  void close_flushed();
  void publish(bool keeps_old);
  void take_back() noexcept;
  void forget_old() noexcept;
  bool discard() noexcept;
  [[noreturn]] void fail(int error_number);

  std::filesystem::path target_;  // as given
  std::filesystem::path place_;   // where links of that name lead
  TemporaryEntry temporary_;
  std::filesystem::path old_;  // another name of what was replaced; empty: none
  bool is_new_ = false;        // nothing was replaced
  int descriptor_ = -1;        // -1 when closed
  uint64_t bytes_written_ = 0;
};

// All of the files appear, or none: where the last one cannot, those before are as they were. That
// much is certain but on file systems without hard links, where a file that was replaced stays so.
// Where the program is killed in between, each of them is whole: the new one or what was there.
// Null stands for a file that is not wanted.
void commit_together(std::span<AtomicFile* const> files);

// A file of a folder, by its path in it.
struct FolderFile {
  std::string path;
  std::string text;
};

// Throws InputError unless `folder` can be made: it is missing and its parent is there, or it is an
// empty folder.
void require_new_folder(const std::filesystem::path& folder);

// Writes the files under a temporary name beside `folder`, which then becomes `folder`. Signals
// wait until it is done. Throws InputError like require_new_folder, and for a full disk, say, after
// which nothing is left. What remains where the program is killed is removed by the next call.
void write_folder(const std::filesystem::path& folder, std::span<const FolderFile> files);

// The folder and all above it that are missing. Throws InputError.
void make_folders(const std::filesystem::path& folder);

}  // namespace arenite::convert
