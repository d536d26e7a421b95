// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's allocator and its functions that compare, search and hash bytes: a
// program's own definitions take precedence over the library's for every caller in the process.
// This file itself is compiled without the calls that it counts.
#include "convert/scaling/cost_counter.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>

namespace {

constexpr uint64_t kBytesPerStep = 16;

// Tests have one thread.
uint64_t steps = 0;
int64_t live_bytes = 0;
int64_t peak_bytes = 0;
int64_t bytes_at_start = 0;

void count_bytes(size_t bytes) { steps += 1 + bytes / kBytesPerStep; }

void* allocated(void* data) {
  const size_t bytes = malloc_usable_size(data);
  count_bytes(bytes);
  live_bytes += static_cast<int64_t>(bytes);
  peak_bytes = std::max(peak_bytes, live_bytes);
  return data;
}

void released(void* data) { live_bytes -= static_cast<int64_t>(malloc_usable_size(data)); }

}  // namespace

extern "C" {

void __sanitizer_cov_trace_pc() { ++steps; }

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* data);

void* malloc(size_t bytes) noexcept { return allocated(__libc_malloc(bytes)); }

void* calloc(size_t count, size_t bytes) noexcept { return allocated(__libc_calloc(count, bytes)); }

void* realloc(void* data, size_t bytes) noexcept {
  const int64_t before = data == nullptr ? 0 : static_cast<int64_t>(malloc_usable_size(data));
  void* const moved = __libc_realloc(data, bytes);
  if (moved == nullptr && bytes != 0) return nullptr;  // what was there is still there
  live_bytes -= before;
  return allocated(moved);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return allocated(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }

void free(void* data) noexcept {
  if (data != nullptr) released(data);
  __libc_free(data);
}

int memcmp(const void* a, const void* b, size_t bytes) noexcept {
  const auto* const left = static_cast<const unsigned char*>(a);
  const auto* const right = static_cast<const unsigned char*>(b);
  size_t i = 0;
  while (i < bytes && left[i] == right[i]) ++i;
  count_bytes(i);
  return i == bytes ? 0 : left[i] - right[i];
}

int strcmp(const char* a, const char* b) noexcept {
  size_t i = 0;
  while (a[i] != '\0' && a[i] == b[i]) ++i;
  count_bytes(i);
  return static_cast<unsigned char>(a[i]) - static_cast<unsigned char>(b[i]);
}

// <cstring> declares it twice, for constant bytes and for others; C knows one.
void* counted_memchr(const void* data, int wanted, size_t bytes) noexcept __asm__("memchr");
void* counted_memchr(const void* data, int wanted, size_t bytes) noexcept {
  auto* const bytes_at = static_cast<unsigned char*>(const_cast<void*>(data));
  size_t i = 0;
  while (i < bytes && bytes_at[i] != static_cast<unsigned char>(wanted)) ++i;
  count_bytes(i);
  return i == bytes ? nullptr : bytes_at + i;
}

// The function that std::hash calls for strings.
size_t counted_hash(const void* data, size_t bytes, size_t seed) noexcept
    __asm__("_ZSt11_Hash_bytesPKvmm");
size_t counted_hash(const void* data, size_t bytes, size_t seed) noexcept {
  const auto* const from = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) seed = (seed ^ from[i]) * 0x100000001b3;  // FNV-1a
  count_bytes(bytes);
  return seed;
}

}  // extern "C"

namespace arenite::testing {

CostCounter::CostCounter() {
  steps = 0;
  bytes_at_start = peak_bytes = live_bytes;
}

Cost CostCounter::cost() const {
  return {steps, static_cast<uint64_t>(peak_bytes - bytes_at_start)};
}

}  // namespace arenite::testing
