// SPDX-License-Identifier: Apache-2.0
// Keeps the outputs of a command from replacing what it reads, or each other.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
struct Output {
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
  explicit OutputGuard(std::vector<Output> outputs);
  ~OutputGuard();
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  friend void note_read(int descriptor, const std::filesystem::path& file);
  friend void require_not_read(const std::filesystem::path& file);

  void read(FileId id, const std::filesystem::path& file);

  std::vector<Output> outputs_;
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

}  // namespace arenite::convert
