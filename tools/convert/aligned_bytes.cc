// SPDX-License-Identifier: Apache-2.0
// Aligned allocation, and advice to the kernel about it.
#include "convert/aligned_bytes.h"

#include <cstdlib>
#include <cstring>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace arenite::convert {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kHugeFromBytes = 2 * kHugePageBytes;

}  // namespace

AlignedBytes::AlignedBytes(size_t size) : size_(size) {
  const bool huge = size >= kHugeFromBytes;
  static_assert(kModelAlignment >= kArenaAlignment);
  const size_t alignment = huge ? kHugePageBytes : kModelAlignment;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (data_ == nullptr && rounded != 0) throw std::bad_alloc();
#ifdef __linux__
  if (huge) madvise(data_.get(), rounded, MADV_HUGEPAGE);  // advice: failing is fine
#endif
  if (size != 0) std::memset(data_.get(), 0, size);
}

void AlignedBytes::Free::operator()(std::byte* data) const { std::free(data); }

}  // namespace arenite::convert
