// SPDX-License-Identifier: Apache-2.0
// Maps files, and asks the system for huge pages.
#include "convert/files/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::convert {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kMappedFromBytes = 2 * kHugePageBytes;
static_assert(kModelAlignment >= kArenaAlignment);

std::byte* allocate(size_t size) {
  const size_t rounded = (size + kModelAlignment - 1) / kModelAlignment * kModelAlignment;
  void* const data = std::aligned_alloc(kModelAlignment, rounded);
  if (data == nullptr && rounded != 0) throw std::bad_alloc();
  if (rounded != 0) std::memset(data, 0, rounded);
  return static_cast<std::byte*>(data);
}

// Maps `size` bytes from a huge page boundary on, and unmaps the rest.
std::byte* map(size_t size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t kept = (size + page - 1) / page * page;
  const size_t bytes = kept + kHugePageBytes;
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  std::byte* const start = static_cast<std::byte*>(mapped);
  const size_t offset = reinterpret_cast<uintptr_t>(start) % kHugePageBytes;
  const size_t before = offset == 0 ? 0 : kHugePageBytes - offset;
  if (before != 0) munmap(start, before);
  munmap(start + before + kept, kHugePageBytes - before);
#ifdef MADV_HUGEPAGE
  // Huge pages up to the end would waste the rest of the last one. This is only advice, so failure
  // is fine.
  madvise(start + before, size / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
#endif
  return start + before;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Returns why a file of this kind and size cannot be read; empty if it can.
std::string problem_of(const struct stat& status, uint64_t bytes_max) {
  if (!S_ISREG(status.st_mode)) {
    return fmt::format("it is {}, not a regular file", kind_of(status.st_mode));
  }
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (file_bytes > bytes_max) {
    return fmt::format("it has {} bytes: at most {} are accepted", file_bytes, bytes_max);
  }
  if (file_bytes > SIZE_MAX) return "it is larger than this machine's address space";
  return {};
}

// Returns the bytes of the open file `descriptor`, or no bytes and the reason in `problem`.
std::span<const std::byte> map_descriptor(int descriptor, uint64_t bytes_max,
                                          std::string& problem) {
  struct stat status = {};
  problem = fstat(descriptor, &status) != 0 ? std::strerror(errno) : problem_of(status, bytes_max);
  if (!problem.empty() || status.st_size == 0) return {};  // mmap refuses a length of zero
  const auto file_bytes = static_cast<size_t>(status.st_size);
  void* start = mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (start == MAP_FAILED) {
    problem = std::strerror(errno);
    return {};
  }
  return {static_cast<const std::byte*>(start), file_bytes};
}

}  // namespace

AlignedBytes::AlignedBytes(size_t size) : size_(size) {
  const bool mapped = size >= kMappedFromBytes;
  data_ = {mapped ? map(size) : allocate(size), Free{mapped ? size : 0}};
}

void AlignedBytes::Free::operator()(std::byte* data) const {
  if (mapped_bytes == 0) {
    std::free(data);
  } else {
    munmap(data, mapped_bytes);
  }
}

FileMap::FileMap(const std::filesystem::path& file, uint64_t bytes_max) {
  struct stat status = {};
  std::string problem;
  int descriptor = -1;
  if (stat(file.c_str(), &status) == 0) {
    problem = problem_of(status, bytes_max);
    // Another file may have taken its place by now. O_NONBLOCK ensures that opening a pipe does not
    // wait.
    if (problem.empty()) {
      descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
  }
  if (problem.empty()) {
    refuse_if(descriptor < 0, "cannot open {}: {}", quote(file.string()), std::strerror(errno));
    try {
      note_read(descriptor, file);
      bytes_ = map_descriptor(descriptor, bytes_max, problem);
    } catch (...) {
      close(descriptor);
      throw;
    }
    close(descriptor);
  }
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

bool take_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  const size_t end = text.find('\n');
  line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace arenite::convert
