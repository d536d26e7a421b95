// SPDX-License-Identifier: Apache-2.0
// Tells ThreadSanitizer what a microkernel reads and writes; empty in other builds. Kernels are not
// instrumented, since they read a little beyond their rows, where another thread may write. Without
// these calls, threads that share scratch by mistake would go unnoticed.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ARENITE_THREAD_CHECK 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ARENITE_THREAD_CHECK 1
#endif

#if defined(ARENITE_THREAD_CHECK)
extern "C" void __tsan_read_range(void* begin, unsigned long bytes);
extern "C" void __tsan_write_range(void* begin, unsigned long bytes);
#endif

namespace arenite {

inline void kernel_reads([[maybe_unused]] const void* begin, [[maybe_unused]] size_t bytes) {
#if defined(ARENITE_THREAD_CHECK)
  __tsan_read_range(const_cast<void*>(begin), bytes);
#endif
}

inline void kernel_writes([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(ARENITE_THREAD_CHECK)
  __tsan_write_range(begin, bytes);
#endif
}

// These take `count` rows of `bytes` each.
inline void kernel_reads_rows(const void* begin, size_t count, size_t bytes, size_t stride_bytes) {
  for (size_t i = 0; i < count; ++i) {
    kernel_reads(static_cast<const char*>(begin) + i * stride_bytes, bytes);
  }
}

inline void kernel_writes_rows(void* begin, size_t count, size_t bytes, size_t stride_bytes) {
  for (size_t i = 0; i < count; ++i) {
    kernel_writes(static_cast<char*>(begin) + i * stride_bytes, bytes);
  }
}

}  // namespace arenite
