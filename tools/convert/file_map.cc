// SPDX-License-Identifier: Apache-2.0
// The memory map behind every file that the converter reads.
#include "convert/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "convert/error.h"
#include "convert/output_guard.h"

namespace arenite::convert {
namespace {

// The bytes of the open file `descriptor`, or why there are none in `problem`.
std::span<const std::byte> map_descriptor(int descriptor, std::string& problem) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) {
    problem = std::strerror(errno);
    return {};
  }
  if (!S_ISREG(status.st_mode)) {
    problem = "it is not a regular file";
    return {};
  }
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (file_bytes == 0) return {};  // mmap refuses a length of zero
  if (file_bytes > SIZE_MAX) {
    problem = "it is larger than this machine's address space";
    return {};
  }
  void* start =
      mmap(nullptr, static_cast<size_t>(file_bytes), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (start == MAP_FAILED) {
    problem = std::strerror(errno);
    return {};
  }
  return {static_cast<const std::byte*>(start), static_cast<size_t>(file_bytes)};
}

}  // namespace

FileMap::FileMap(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a pipe must end in the message below, not wait for a writer.
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw InputError("cannot open {}: {}", quote(file.string()), std::strerror(errno));
  }
  std::string problem;
  try {
    note_read(descriptor, file);
    bytes_ = map_descriptor(descriptor, problem);
  } catch (...) {
    close(descriptor);
    throw;
  }
  close(descriptor);
  if (!problem.empty()) throw InputError("cannot read {}: {}", quote(file.string()), problem);
}

FileMap::~FileMap() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void FileMap::drop_pages() const {
  if (bytes_.empty()) return;
  madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

FileMap::FileMap(FileMap&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace arenite::convert
