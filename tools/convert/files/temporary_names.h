// SPDX-License-Identifier: Apache-2.0
// What a command has not finished: files and folders with hidden names beside those that they will
// have. Nothing of it remains, whatever ends the program; where nothing can be done at that moment,
// the next one that writes there removes it.
#pragma once

#include <signal.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace arenite::convert {

inline constexpr size_t kTemporaryFilesMax = 16;  // at a time; more are not known to signals

// Removes the files whose names are announced. May be called in a signal handler.
void remove_temporary_files() noexcept;

// While one lives, signals to this thread wait: between making a file and announcing it, say.
class SignalsWait {
 public:
  SignalsWait() noexcept;
  ~SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

// Writes all of it to the descriptor, at its position or from `offset` on. Returns 0 or what errno
// was.
int write_all(int descriptor, std::span<const std::byte> bytes,
              std::optional<uint64_t> offset = {}) noexcept;

// A file or a folder with the name ".NAME.arenite-0.tmp" beside the place NAME that it is made for.
// Whoever made it holds a lock on it. One that nobody holds is what a program left that was killed:
// it is removed. Beside one that is held, the next number is taken; so it is on file systems
// without locks.
class TemporaryEntry {
 public:
  TemporaryEntry() = default;
  ~TemporaryEntry() { remove(); }
  TemporaryEntry(const TemporaryEntry&) = delete;
  TemporaryEntry& operator=(const TemporaryEntry&) = delete;

  // Return 0 or what errno was. The file is announced to signals, and is open for writing as
  // `descriptor`, which is the caller's to close.
  int make_file(const std::filesystem::path& place, int& descriptor);
  int make_folder(const std::filesystem::path& place);

  const std::filesystem::path& path() const { return path_; }
  // A second name that a file may be given in the meantime. It is removed as leftovers are.
  std::filesystem::path second_path() const;

  // Gives it its place; `remove` has nothing left to do. Returns 0 or what errno was.
  int rename_to(const std::filesystem::path& place) noexcept;
  // False if it cannot be removed.
  bool remove() noexcept;

 private:
  int make(const std::filesystem::path& place);
  int claim() noexcept;
  void release() noexcept;
  void announce(const char* path) noexcept;  // to signals, until it is released; null: no more

  std::filesystem::path path_;
  std::atomic<const char*>* announced_ = nullptr;
  bool is_folder_ = false;
  bool exists_ = false;
  int lock_ = -1;  // a descriptor of it; closing the file that is written does not unlock it
};

}  // namespace arenite::convert
