// SPDX-License-Identifier: Apache-2.0
// One mapping per buffer: guard page, accessible pages, guard page.
#include "support/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace arenite::test {
namespace {

constexpr std::byte kFill{0xFF};

bool all_fill(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte byte) { return byte == kFill; });
}

// QEMU reads the lanes of a vector that a masked load leaves out. Where it runs the tests, guard
// pages may be read, and still not written.
bool guards_are_readable() { return std::getenv("ARENITE_READABLE_GUARDS") != nullptr; }

}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes, size_t alignment, size_t slack_bytes, Guard guard)
    : bytes_(bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  require(alignment != 0 && alignment <= page && page % alignment == 0);
  const size_t wanted = bytes + slack_bytes;
  const size_t accessible_bytes = std::max((wanted + page - 1) / page, size_t{1}) * page;
  mapping_bytes_ = accessible_bytes + 2 * page;
  void* const mapping = mmap(nullptr, mapping_bytes_, guards_are_readable() ? PROT_READ : PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(mapping != MAP_FAILED);
  mapping_ = static_cast<std::byte*>(mapping);
  accessible_ = {mapping_ + page, accessible_bytes};
  require(mprotect(accessible_.data(), accessible_bytes, PROT_READ | PROT_WRITE) == 0);
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
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

void GuardedBuffer::refill() {
  std::memset(accessible_.data(), static_cast<int>(kFill), accessible_.size());
}

bool GuardedBuffer::surroundings_intact() const {
  return all_fill(accessible_.data(), data_) &&
         all_fill(data_ + bytes_, accessible_.data() + accessible_.size());
}

}  // namespace arenite::test
