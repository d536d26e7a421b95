// SPDX-License-Identifier: Apache-2.0
// A scope in which no thread may use the heap: the first call is reported and ends the process.
#pragma once

namespace arenite::test {

// While one lives, any call, on any thread, of the malloc family (operator new and delete arrive
// there too), of the mmap family or of sbrk aborts with "heap call in a NoHeapScope: <function>".
// It ends at the call, so a debugger shows who made it, and no test can forget to ask. Scopes nest.
class NoHeapScope {
 public:
  NoHeapScope();
  ~NoHeapScope();
  NoHeapScope(const NoHeapScope&) = delete;
  NoHeapScope& operator=(const NoHeapScope&) = delete;

  // Whether this build can see calls of malloc and free: with glibc, and with sanitizers.
  static bool traps_malloc();
  // Whether this build can see calls of mmap and sbrk: with glibc, without sanitizers.
  static bool traps_mmap();
};

}  // namespace arenite::test
