// SPDX-License-Identifier: Apache-2.0
// Small blocks from the heap, large ones straight from the system: these are zero already, and take
// memory only where they are written.
#include "convert/files/aligned_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

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

// A mapping of `size` bytes from a huge page's boundary on; what lies around it is given back.
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
  // The rest of the last huge page would be memory for nothing. Advice: failing is fine.
  madvise(start + before, size / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
#endif
  return start + before;
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

}  // namespace arenite::convert
