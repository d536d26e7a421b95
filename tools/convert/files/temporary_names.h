// SPDX-License-Identifier: Apache-2.0
// Unfinished files and folders, under hidden names next to their final places. They are removed
// however the program ends. After SIGKILL, the next program with the same output removes them.
#pragma once

#include <signal.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace arenite::convert {

// at a time; signals do not remove any beyond these
inline constexpr size_t kTemporaryFilesMax = 16;

// Removes the announced files. Safe to call in a signal handler.
void remove_temporary_files() noexcept;

// Blocks signals to this thread while it lives, for example between creating a file and announcing
// it.
class SignalsWait {
 public:
  SignalsWait() noexcept;
  ~SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

// Writes all bytes to the descriptor, at its position or from `offset` on. Returns 0 or errno.
int write_all(int descriptor, std::span<const std::byte> bytes,
              std::optional<uint64_t> offset = {}) noexcept;

// A temporary file or folder named ".NAME.arenite-0.tmp" next to its final place NAME. Its creator
// holds a lock on it. An entry without a lock was left by a killed program, and is removed. If an
// entry is locked, or the file system has no locks, the next number is used.
class TemporaryEntry {
 public:
  TemporaryEntry() = default;
  ~TemporaryEntry() { remove(); }
  TemporaryEntry(const TemporaryEntry&) = delete;
  TemporaryEntry& operator=(const TemporaryEntry&) = delete;

  // Return 0 or errno. The file is announced for removal by signals, and `descriptor` is open for
  // writing; the caller closes it.
  int make_file(const std::filesystem::path& place, int& descriptor);
  int make_folder(const std::filesystem::path& place);

  const std::filesystem::path& path() const { return path_; }
  // A second name that the file may have temporarily. Leftovers under that name are removed, too.
  std::filesystem::path second_path() const;

  // Renames it to its final place; `remove` then does nothing. Returns 0 or errno.
  int rename_to(const std::filesystem::path& place) noexcept;
  // Returns false if it cannot be removed.
  bool remove() noexcept;

 private:
  int make(const std::filesystem::path& place);
  int claim() noexcept;
  void release() noexcept;
  void announce(const char* path) noexcept;  // to signal handlers, until released; null: withdraw

  std::filesystem::path path_;
  std::atomic<const char*>* announced_ = nullptr;
  bool is_folder_ = false;
  bool exists_ = false;
  int lock_ = -1;  // locked descriptor; closing the written descriptor keeps the lock
};

}  // namespace arenite::convert
