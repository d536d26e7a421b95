// SPDX-License-Identifier: Apache-2.0
// Removes write permission from each mapping in /proc/self/maps.
#include "support/frozen_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "support/guarded_buffer.h"
#include "support/malloc_trap.h"

#if defined(__has_builtin) && defined(__has_include)
#if __has_builtin(__builtin_thread_pointer) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#if defined(RSEQ_SIG)  // which RISC-V lacks
#define ARENITE_TEST_CAN_FREEZE 1
#endif
#endif
#endif

// Compilers link these functions if they measure coverage.
extern "C" void __gcov_dump() __attribute__((weak));
extern "C" int __llvm_profile_write_file() __attribute__((weak));

namespace arenite::test {
namespace {

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

constexpr size_t kListBytesMax = size_t{1} << 19;
constexpr size_t kHolesMax = 8;

// Not on the heap, which could grow while the list is read.
char list[kListBytesMax];

// Reads the list of this process's mappings, one line each.
void read_list() {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  require(file >= 0);
  size_t bytes = 0;
  while (true) {
    const ssize_t got = read(file, list + bytes, kListBytesMax - 1 - bytes);
    require(got >= 0);
    if (got == 0) break;
    bytes += static_cast<size_t>(got);
    require(bytes < kListBytesMax - 1);
  }
  list[bytes] = '\0';
  close(file);
}

// Makes `range` read-only, but for the holes.
void freeze(const Range& range, std::span<const Range> holes) {
  if (range.begin >= range.end) return;
  for (const Range& hole : holes) {
    if (hole.begin >= hole.end || hole.end <= range.begin || hole.begin >= range.end) continue;
    freeze({range.begin, hole.begin}, holes);
    freeze({hole.end, range.end}, holes);
    return;
  }
  require(mprotect(reinterpret_cast<void*>(range.begin), range.end - range.begin, PROT_READ) == 0);
}

// With rseq, which the C library registers, the kernel writes to thread memory at each preemption,
// and kills the process if the write fails.
void stop_writes_of_the_kernel() {
#if defined(ARENITE_TEST_CAN_FREEZE)
  if (__rseq_size == 0) return;  // the library has not asked
  auto* const area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  const unsigned bytes = std::max(__rseq_size, 32u);
  require(syscall(SYS_rseq, area, bytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0);
#endif
}

// Lines begin as "7ffc1000-7ffc3000 rw-p ".
void freeze_list(uintptr_t top, std::span<Range> holes) {
  for (const char* line = list; *line != '\0';) {
    char* at = nullptr;
    Range range;
    range.begin = static_cast<uintptr_t>(std::strtoull(line, &at, 16));
    require(*at == '-');
    range.end = static_cast<uintptr_t>(std::strtoull(at + 1, &at, 16));
    require(*at == ' ');
    if (at[2] == 'w') {
      // The stack in use: from what may still be taken to the caller's page.
      if (range.begin < top && top <= range.end) holes[0] = {range.begin, top};
      freeze(range, holes);
    }
    while (*at != '\n' && *at != '\0') ++at;
    line = *at == '\n' ? at + 1 : at;
  }
}

// Not inlined: its frame is below all of the caller's, which may end on a frozen page.
[[noreturn, gnu::noinline]] void freeze_and_call(uintptr_t top, std::span<Range> holes,
                                                 bool (*call)(const void*), const void* context) {
  read_list();
  freeze_list(top, holes);
  require(holes[0].end != 0);
  _exit(call(context) ? 0 : 1);
}

}  // namespace

bool can_freeze_memory() {
#if defined(ARENITE_TEST_CAN_FREEZE)
  // Where the trap sees calls of mmap there are no sanitizers.
  return NoHeapScope::traps_mmap() && __gcov_dump == nullptr &&
         __llvm_profile_write_file == nullptr;
#else
  return false;
#endif
}

[[gnu::noinline]] void call_frozen(std::initializer_list<std::span<std::byte>> writable,
                                   bool (*call)(const void*), const void* context) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto rounded_up = [page](uintptr_t address) { return (address + page - 1) / page * page; };
  Range holes[kHolesMax] = {};
  size_t count = 1;  // the first is the stack's
  for (const std::span<std::byte> memory : writable) {
    require(count < kHolesMax);
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    holes[count++] = {begin / page * page, rounded_up(begin + memory.size())};
  }
  stop_writes_of_the_kernel();
  const auto top = rounded_up(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  freeze_and_call(top, holes, call, context);
}

}  // namespace arenite::test
