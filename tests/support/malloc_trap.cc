// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's allocator. A program's own definition of malloc takes precedence over
// the library's for every caller in the process; glibc exports the originals as __libc_*.
// Sanitizers have their own allocator and offer hooks instead.
#include "support/malloc_trap.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ARENITE_TEST_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ARENITE_TEST_SANITIZER 1
#endif

#if defined(ARENITE_TEST_SANITIZER)
// Declared in <sanitizer/allocator_interface.h>, which GCC's packages lack, although its library
// defines it.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
    void (*on_malloc)(const volatile void* data, size_t bytes),
    void (*on_free)(const volatile void* data));
#endif

namespace arenite::test {
namespace {

std::atomic<int> scopes{0};

void write_text(const char* text) {
  // Nothing can be done about a message that cannot be written.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

[[maybe_unused]] void heap_call(const char* function) {
  if (scopes.load(std::memory_order_relaxed) == 0) return;
  scopes.store(0);  // abort may use the heap
  write_text("heap call in a NoHeapScope: ");
  write_text(function);
  write_text("\n");
  std::abort();
}

#if defined(ARENITE_TEST_SANITIZER)
void on_malloc(const volatile void*, size_t) { heap_call("malloc"); }
void on_free(const volatile void* data) {
  if (data != nullptr) heap_call("free");
}
#endif

}  // namespace

NoHeapScope::NoHeapScope() {
#if defined(ARENITE_TEST_SANITIZER)
  static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (installed == 0) std::abort();
#endif
  scopes.fetch_add(1);
}

NoHeapScope::~NoHeapScope() { scopes.fetch_sub(1); }

bool NoHeapScope::traps_malloc() {
#if defined(ARENITE_TEST_SANITIZER) || defined(__GLIBC__)
  return true;
#else
  return false;
#endif
}

bool NoHeapScope::traps_mmap() {
#if defined(__GLIBC__) && !defined(ARENITE_TEST_SANITIZER)
  return true;
#else
  return false;
#endif
}

}  // namespace arenite::test

#if defined(__GLIBC__) && !defined(ARENITE_TEST_SANITIZER)

using arenite::test::heap_call;

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* data);

void* malloc(size_t bytes) noexcept {
  heap_call("malloc");
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) noexcept {
  heap_call("calloc");
  return __libc_calloc(count, bytes);
}

void* realloc(void* data, size_t bytes) noexcept {
  heap_call("realloc");
  return __libc_realloc(data, bytes);
}

void* reallocarray(void* data, size_t count, size_t bytes) noexcept {
  heap_call("reallocarray");
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_realloc(data, total);
}

void free(void* data) noexcept {
  if (data != nullptr) heap_call("free");
  __libc_free(data);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  heap_call("memalign");
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  heap_call("aligned_alloc");
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** data, size_t alignment, size_t bytes) noexcept {
  heap_call("posix_memalign");
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
    return EINVAL;
  }
  void* const memory = __libc_memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *data = memory;
  return 0;
}

void* valloc(size_t bytes) noexcept {
  heap_call("valloc");
  return __libc_memalign(static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes);
}

// The C library calls its own mmap and sbrk by internal names, so these see other callers only.
// Where addresses have 32 bits, offsets are counted in pages of 4096 bytes, whatever the system's.
#if defined(SYS_mmap2)
constexpr long kMmapCall = SYS_mmap2;
constexpr int kOffsetShift = 12;
#else
constexpr long kMmapCall = SYS_mmap;
constexpr int kOffsetShift = 0;
#endif

void* mmap(void* address, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  heap_call("mmap");
  return reinterpret_cast<void*>(syscall(kMmapCall, address, bytes, protection, flags, file,
                                         static_cast<long>(offset >> kOffsetShift)));
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
             off64_t offset) noexcept {
  heap_call("mmap64");
  return reinterpret_cast<void*>(syscall(kMmapCall, address, bytes, protection, flags, file,
                                         static_cast<long>(offset >> kOffsetShift)));
}

void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) noexcept {
  heap_call("mremap");
  std::va_list rest;
  va_start(rest, flags);
  void* const new_address = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  return reinterpret_cast<void*>(
      syscall(SYS_mremap, address, bytes, new_bytes, flags, new_address));
}

int munmap(void* address, size_t bytes) noexcept {
  heap_call("munmap");
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

void* __sbrk(std::intptr_t increment);

void* sbrk(std::intptr_t increment) noexcept {
  heap_call("sbrk");
  return __sbrk(increment);
}

}  // extern "C"

#endif
