// SPDX-License-Identifier: Apache-2.0
// Write, flush to disk, close, rename: each step checked.
#include "convert/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "convert/error.h"

namespace arenite::convert {
namespace {

constexpr int kNamesTried = 100;
constexpr size_t kWriteBytesMax = size_t{1} << 30;  // Linux writes at most 2 GiB at a time
constexpr size_t kNameBytesShown = 100;  // a name of 255 bytes must leave room for what is added

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(target) {
  std::error_code ignored;  // of a target that does not exist yet
  const std::filesystem::file_status status = std::filesystem::status(target, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    // Renaming would replace a device such as /dev/null by a file.
    throw InputError("cannot write {}: it exists and is not a regular file",
                     quote(target.string()));
  }
  for (int attempt = 0; descriptor_ < 0 && attempt < kNamesTried; ++attempt) {
    temporary_ = target.parent_path() /
                 fmt::format(".{}.{}-{}.tmp", target.filename().string().substr(0, kNameBytesShown),
                             getpid(), attempt);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail(errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  assert(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), kWriteBytesMax));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    bytes_written_ += static_cast<uint64_t>(written);
  }
}

void AtomicFile::resize(uint64_t bytes) {
  assert(descriptor_ >= 0);
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail(errno);
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  assert(descriptor_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kWriteBytesMax),
               static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
    bytes_written_ += static_cast<uint64_t>(written);
  }
}

void AtomicFile::commit() {
  assert(descriptor_ >= 0);
  // Some file systems know no fsync and say EINVAL; all others report late write errors here.
  if (fsync(descriptor_) != 0 && errno != EINVAL) fail(errno);
  if (close(std::exchange(descriptor_, -1)) != 0 ||
      std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error_number = errno;
    unlink(temporary_.c_str());
    fail(error_number);
  }
}

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  close(std::exchange(descriptor_, -1));
  unlink(temporary_.c_str());
}

void AtomicFile::fail(int error_number) {
  discard();
  throw InputError("cannot write {}: {}; nothing was left behind", quote(target_.string()),
                   std::strerror(error_number));
}

}  // namespace arenite::convert
