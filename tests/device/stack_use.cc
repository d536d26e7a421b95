// SPDX-License-Identifier: Apache-2.0
#include "device/stack_use.h"

#include <cstdint>

namespace arenite::device {
namespace {

// A value that code rarely keeps in memory.
constexpr uint32_t kPaint = 0xC5A7E33Bu;
// Bytes below a frame's address that are not painted: the address may be the frame's upper end.
constexpr uintptr_t kOwnFrameBytes = 128;

uintptr_t painted_begin(uintptr_t top) {
  return (top - kPaintedBytes) & ~uintptr_t{sizeof(kPaint) - 1};
}

// paint and changed_bytes access memory below all frames, which belongs to no object. REQUIRES: no
// interrupt uses it.
[[gnu::noinline]] void paint(uintptr_t top) {
  const auto end = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kOwnFrameBytes;
  for (uintptr_t word = painted_begin(top); word < end; word += sizeof(kPaint)) {
    *reinterpret_cast<volatile uint32_t*>(word) = kPaint;
  }
}

[[gnu::noinline]] size_t changed_bytes(uintptr_t top) {
  uintptr_t word = painted_begin(top);
  while (word < top && *reinterpret_cast<const volatile uint32_t*>(word) == kPaint) {
    word += sizeof(kPaint);
  }
  return top - word;
}

}  // namespace

[[gnu::noinline]] size_t stack_bytes_of(void (*call)(void*), void* context) {
  const auto top = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  paint(top);
  call(context);
  return changed_bytes(top);
}

}  // namespace arenite::device
