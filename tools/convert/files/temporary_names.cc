// SPDX-License-Identifier: Apache-2.0
// The lock is flock's: it belongs to an open file, and ends with the file's last descriptor, even
// if a program is killed.
#include "convert/files/temporary_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

std::atomic<const char*> names[kTemporaryFilesMax] = {};
static_assert(std::atomic<const char*>::is_always_lock_free);

constexpr int kNamesTried = 100;
constexpr size_t kNameBytesShown = 100;  // a name of 255 bytes leaves room for prefix and suffix
constexpr size_t kWriteBytesMax = size_t{1} << 30;  // Linux writes at most 2 GiB at a time

// Whether `path` still names the open file; `status` gets the descriptor's fstat.
bool names_open_file(const fs::path& path, int descriptor, struct stat& status) {
  struct stat named = {};
  return fstat(descriptor, &status) == 0 && lstat(path.c_str(), &named) == 0 &&
         status.st_dev == named.st_dev && status.st_ino == named.st_ino;
}

bool lock(int descriptor) {
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

bool remove_path(const fs::path& path, bool is_folder) {
  if (!is_folder) return unlink(path.c_str()) == 0;
  std::error_code error;
  fs::remove_all(path, error);
  return !error;
}

// Removes `path` if a killed program of this user left it. Returns false if not, or if removal
// fails.
bool remove_leftover(const fs::path& path) {
  const int descriptor =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return errno == ENOENT;  // another program has removed it
  struct stat status = {};
  const bool removed = lock(descriptor) && names_open_file(path, descriptor, status) &&
                       status.st_uid == geteuid() &&
                       (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) &&
                       remove_path(path, S_ISDIR(status.st_mode));
  close(descriptor);
  return removed;
}

// Creates and opens a new writable file or a new folder. Returns -1 and sets errno on failure.
int open_new(const fs::path& path, bool is_folder) {
  if (!is_folder) return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (mkdir(path.c_str(), 0777) != 0) return -1;
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  const int error_number = errno;
  rmdir(path.c_str());
  errno = error_number;
  return -1;
}

}  // namespace

void TemporaryEntry::announce(const char* path) noexcept {
  if (announced_ != nullptr) announced_->store(nullptr);
  announced_ = nullptr;
  for (std::atomic<const char*>& name : names) {
    const char* none = nullptr;
    if (path == nullptr || announced_ != nullptr) return;
    if (name.compare_exchange_strong(none, path)) announced_ = &name;
  }
}

void remove_temporary_files() noexcept {
  const int error_number = errno;
  for (const std::atomic<const char*>& name : names) {
    if (const char* const path = name.load()) unlink(path);
  }
  errno = error_number;
}

SignalsWait::SignalsWait() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsWait::~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int write_all(int descriptor, std::span<const std::byte> bytes,
              std::optional<uint64_t> offset) noexcept {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kWriteBytesMax);
    const ssize_t written =
        offset ? pwrite(descriptor, bytes.data(), count, static_cast<off_t>(*offset))
               : write(descriptor, bytes.data(), count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<size_t>(written));
    if (offset) *offset += static_cast<uint64_t>(written);
  }
  return 0;
}

int TemporaryEntry::make_file(const fs::path& place, int& descriptor) {
  const SignalsWait until_announced;
  is_folder_ = false;
  if (const int error_number = make(place)) return error_number;
  descriptor = fcntl(lock_, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) {
    const int error_number = errno;
    remove();
    return error_number;
  }
  announce(path_.c_str());
  return 0;
}

int TemporaryEntry::make_folder(const fs::path& place) {
  is_folder_ = true;
  return make(place);
}

int TemporaryEntry::make(const fs::path& place) {
  remove();
  for (int attempt = 0; attempt < kNamesTried; ++attempt) {
    path_ = place.parent_path() / fmt::format(".{}.arenite-{}.tmp",
                                              place.filename().string().substr(0, kNameBytesShown),
                                              attempt);
    int error_number = claim();
    if (error_number == EEXIST && remove_leftover(path_)) error_number = claim();
    if (error_number == EEXIST) continue;
    if (error_number == 0 && !is_folder_) unlink(second_path().c_str());
    return error_number;
  }
  return EEXIST;
}

// Until the lock is held, another program may remove the new entry as a leftover.
int TemporaryEntry::claim() noexcept {
  lock_ = open_new(path_, is_folder_);
  if (lock_ < 0) return errno;
  struct stat status = {};
  const bool is_held = !lock(lock_) && errno == EWOULDBLOCK;
  if (is_held || !names_open_file(path_, lock_, status)) {
    release();
    return EEXIST;
  }
  exists_ = true;
  return 0;
}

fs::path TemporaryEntry::second_path() const {
  fs::path second = path_;
  return second += ".old";
}

int TemporaryEntry::rename_to(const fs::path& place) noexcept {
  if (std::rename(path_.c_str(), place.c_str()) != 0) return errno;
  exists_ = false;
  release();
  return 0;
}

bool TemporaryEntry::remove() noexcept {
  const bool removed = !exists_ || remove_path(path_, is_folder_);
  exists_ = false;
  release();
  return removed;
}

void TemporaryEntry::release() noexcept {
  announce(nullptr);
  if (lock_ >= 0) close(std::exchange(lock_, -1));
}

}  // namespace arenite::convert
