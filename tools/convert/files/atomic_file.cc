// SPDX-License-Identifier: Apache-2.0
// Write, flush to disk, close, rename: each step checked.
#include "convert/files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/output_guard.h"

namespace arenite::convert {
namespace {

constexpr int kNamesTried = 100;
constexpr size_t kWriteBytesMax = size_t{1} << 30;  // Linux writes at most 2 GiB at a time
constexpr size_t kNameBytesShown = 100;  // a name of 255 bytes must leave room for what is added

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target)
    : target_(target), place_(end_of_links(target)) {
  require_writable(target);
  require_not_read(target);
  make_temporary();
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::make_temporary() {
  const SignalsWait until_announced;
  for (int attempt = 0; descriptor_ < 0 && attempt < kNamesTried; ++attempt) {
    temporary_ = place_.parent_path() /
                 fmt::format(".{}.{}-{}.tmp", place_.filename().string().substr(0, kNameBytesShown),
                             getpid(), attempt);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail(errno);
  has_temporary_ = true;
  temporary_name_.set(temporary_.c_str());
}

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
  AtomicFile* const only[] = {this};
  commit_together(only);
}

void AtomicFile::close_flushed() {
  assert(descriptor_ >= 0);
  // Some file systems know no fsync and say EINVAL; all others report late write errors here.
  if (fsync(descriptor_) != 0 && errno != EINVAL) fail(errno);
  if (close(std::exchange(descriptor_, -1)) != 0) fail(errno);
}

void AtomicFile::publish(bool keeps_old) {
  require_not_read(place_);
  if (keeps_old) {
    std::filesystem::path old = temporary_;
    old += ".old";
    if (link(place_.c_str(), old.c_str()) == 0) {
      old_ = std::move(old);
    } else {
      is_new_ = errno == ENOENT;
    }
  }
  if (std::rename(temporary_.c_str(), place_.c_str()) != 0) {
    const int error_number = errno;
    forget_old();
    fail(error_number);
  }
  has_temporary_ = false;
  temporary_name_.clear();
}

void AtomicFile::take_back() noexcept {
  if (!old_.empty()) {
    std::rename(old_.c_str(), place_.c_str());
    old_.clear();
  } else if (is_new_) {
    unlink(place_.c_str());
  }
}

void AtomicFile::forget_old() noexcept {
  if (!old_.empty()) unlink(old_.c_str());
  old_.clear();
}

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  if (has_temporary_) unlink(temporary_.c_str());
  has_temporary_ = false;
  temporary_name_.clear();
}

void AtomicFile::fail(int error_number) {
  discard();
  throw InputError("cannot write {}: {}; nothing was left behind", quote(target_.string()),
                   std::strerror(error_number));
}

void commit_together(std::span<AtomicFile* const> files) {
  for (AtomicFile* const file : files) {
    if (file != nullptr) file->close_flushed();
  }
  const SignalsWait until_all_have_their_names;
  std::vector<AtomicFile*> done;
  done.reserve(files.size());
  try {
    for (AtomicFile* const file : files) {
      if (file == nullptr) continue;
      file->publish(files.size() > 1);
      done.push_back(file);
    }
  } catch (...) {
    for (AtomicFile* const file : done) file->take_back();
    throw;
  }
  for (AtomicFile* const file : done) file->forget_old();
}

}  // namespace arenite::convert
