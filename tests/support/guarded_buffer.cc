// SPDX-License-Identifier: Apache-2.0
// One mapping per buffer: guard page, accessible pages, guard page.
#include "support/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace arenite::test {
namespace {

constexpr std::byte kFill{0xFF};

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

bool all_fill(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte byte) { return byte == kFill; });
}

// QEMU reads the lanes of a vector that a masked load leaves out. Where it runs the tests, guard
// pages may be read, and still not written.
bool guards_are_readable() { return std::getenv("ARENITE_READABLE_GUARDS") != nullptr; }

// Mappings whose buffers are gone, in lists by their pages, the next one's address in the first
// page that can be written: making them takes longer than most of what is tested in them.
constexpr size_t kSparePagesMax = 512;
constinit std::mutex spare_mutex;
constinit std::byte* spare[kSparePagesMax + 1] = {};

std::byte* new_mapping(size_t pages, size_t page) {
  if (pages <= kSparePagesMax) {
    const std::lock_guard lock(spare_mutex);
    if (std::byte* const mapping = spare[pages]; mapping != nullptr) {
      std::memcpy(&spare[pages], mapping + page, sizeof(mapping));
      return mapping;
    }
  }
  void* const made = mmap(nullptr, pages * page, guards_are_readable() ? PROT_READ : PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(made != MAP_FAILED);
  std::byte* const mapping = static_cast<std::byte*>(made);
  require(mprotect(mapping + page, (pages - 2) * page, PROT_READ | PROT_WRITE) == 0);
  return mapping;
}

void give_back(std::byte* mapping, size_t pages, size_t page) {
  if (pages > kSparePagesMax) {
    munmap(mapping, pages * page);
    return;
  }
  const std::lock_guard lock(spare_mutex);
  std::memcpy(mapping + page, &spare[pages], sizeof(mapping));
  spare[pages] = mapping;
}

}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes, size_t alignment, size_t slack_bytes, Guard guard)
    : bytes_(bytes) {
  const size_t page = page_bytes();
  require(alignment != 0 && alignment <= page && page % alignment == 0);
  const size_t wanted = bytes + slack_bytes;
  const size_t accessible_bytes = std::max((wanted + page - 1) / page, size_t{1}) * page;
  mapping_bytes_ = accessible_bytes + 2 * page;
  mapping_ = new_mapping(mapping_bytes_ / page, page);
  accessible_ = {mapping_ + page, accessible_bytes};
  const size_t offset = (accessible_bytes - wanted) / alignment * alignment;
  data_ = accessible_.data() + (guard == Guard::kBehind ? offset : 0);
  refill();
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      accessible_(other.accessible_),
      data_(other.data_),
      bytes_(other.bytes_) {}

GuardedBuffer::~GuardedBuffer() {
  const size_t page = page_bytes();
  if (mapping_ != nullptr) give_back(mapping_, mapping_bytes_ / page, page);
}

void GuardedBuffer::refill() {
  std::memset(accessible_.data(), static_cast<int>(kFill), accessible_.size());
}

bool GuardedBuffer::surroundings_intact() const {
  return all_fill(accessible_.data(), data_) &&
         all_fill(data_ + bytes_, accessible_.data() + accessible_.size());
}

}  // namespace arenite::test
