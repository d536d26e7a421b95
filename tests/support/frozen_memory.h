// SPDX-License-Identifier: Apache-2.0
// Runs code while all other memory of the process is read-only: the first write elsewhere faults,
// whatever the code and the origin of the pointer.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

namespace arenite::test {

// Whether this build can: sanitizers and coverage counters write to memory of their own.
bool can_freeze_memory();

// Calls, and ends the process: with 0 where the call returned true, with 1 where it did not, and by
// SIGSEGV at a write to anything but `writable` and the stack below the caller's page. What is
// writable is rounded up to whole pages, so its surroundings are for a GuardedBuffer to watch.
// For EXPECT_EXIT, in programs linked with -Wl,-z,now: resolving a function late is a write.
// REQUIRES: the process has one thread.
[[noreturn]] void call_frozen(std::initializer_list<std::span<std::byte>> writable,
                              bool (*call)(const void*), const void* context);

template <typename Call>
[[noreturn]] void call_frozen(std::initializer_list<std::span<std::byte>> writable,
                              const Call& call) {
  call_frozen(
      writable, [](const void* context) { return (*static_cast<const Call*>(context))(); }, &call);
}

}  // namespace arenite::test
