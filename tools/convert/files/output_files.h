// SPDX-License-Identifier: Apache-2.0
// Output files and folders of a command: each appears completely or not at all, and never replaces
// an input of the command.
//
//   AtomicFile file(path);
//   file.write(bytes);
//   file.commit();  // until here `path` is unchanged
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

// Thrown if two files of one command are the same file; the program ends with exit code 2. It is
// not an InputError, because nothing is wrong with the file and readers must not add context to the
// message.
class SameFileError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit SameFileError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// Identifies a file, whatever its name.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

// An output file of a command, and the option with its path.
struct OutputFile {
  std::string option;
  std::filesystem::path path;  // empty: the option was not given
};

// While a guard lives, opening an output for reading fails, and no AtomicFile replaces a file that
// was read. Files are compared by device and inode, so relative paths, symbolic links and hard
// links make no difference. At most one guard lives at a time.
class OutputGuard {
 public:
  // Throws, before any work is done, SameFileError if two outputs are the same file or one is the
  // standard output or error, and InputError if an output cannot be written.
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

// Every reader of an input calls this before it uses a byte. Throws SameFileError if the file is an
// output, or the standard output or error. Does nothing without a guard.
void note_read(int descriptor, const std::filesystem::path& file);
void note_read(const std::filesystem::path& file);

// Throws SameFileError if `file` was read.
void require_not_read(const std::filesystem::path& file);

// Throws InputError if `file` cannot be written because it is a folder or a device, or because its
// folder is missing or read-only.
void require_writable(const std::filesystem::path& file);

// Follows the symbolic link `file` to its target, which may not exist; returns `file` if it is not
// a link.
std::filesystem::path end_of_links(const std::filesystem::path& file);

// Writes to a temporary name in the same folder; commit renames it to the target and replaces what
// was there. If the target is a symbolic link, the link stays and the file it points to is
// replaced. Every failure, such as a full disk, removes the temporary file and throws InputError
// with the target's name. Never replaces a file that was read under an OutputGuard. If the program
// is killed, the target is unchanged, and the next AtomicFile of it removes the temporary file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();  // without commit, removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // For files written in any order: extends the file with zeros to `bytes`, and overwrites parts of
  // it.
  void resize(uint64_t bytes);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  uint64_t bytes_written() const { return bytes_written_; }

  // Flushes the bytes to disk, then renames. No write may follow.
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
  std::filesystem::path place_;   // the end of its links
  TemporaryEntry temporary_;
  std::filesystem::path old_;  // second name of the replaced file; empty: none
  bool is_new_ = false;        // nothing was replaced
  int descriptor_ = -1;        // -1 when closed
  uint64_t bytes_written_ = 0;
};

// Publishes all of the files or none: if one fails, the previous ones are restored. On file systems
// without hard links a replaced file cannot be restored. If the program is killed in between, each
// file is complete: new or old. Null pointers are skipped.
void commit_together(std::span<AtomicFile* const> files);

// A file of a folder; `path` is relative to the folder.
struct FolderFile {
  std::string path;
  std::string text;
};

// Throws InputError unless `folder` can be created, because it is missing in an existing parent, or
// is an empty folder.
void require_new_folder(const std::filesystem::path& folder);

// Writes the files to a temporary folder next to `folder`, then renames it. Signals are blocked
// meanwhile. Throws InputError like require_new_folder, and for failures such as a full disk, after
// which nothing is left. If the program is killed, the next call removes the remains.
void write_folder(const std::filesystem::path& folder, std::span<const FolderFile> files);

// Creates the folder and its missing parents. Throws InputError.
void make_folders(const std::filesystem::path& folder);

}  // namespace arenite::convert
