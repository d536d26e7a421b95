// SPDX-License-Identifier: Apache-2.0
// Measures the stack of a call: paints the stack before the call and finds the overwritten part.
#ifndef ARENITE_TESTS_DEVICE_STACK_USE_H_
#define ARENITE_TESTS_DEVICE_STACK_USE_H_

#include <cstddef>

namespace arenite::device {

// Bytes that are painted; a call that takes more is said to take these.
inline constexpr size_t kPaintedBytes = 8192;

size_t stack_bytes_of(void (*call)(void*), void* context);

// Bytes from the caller down to the deepest one that `call` wrote, its own frame included.
template <typename Call>
size_t stack_bytes_of(Call call) {
  return stack_bytes_of([](void* context) { (*static_cast<Call*>(context))(); }, &call);
}

}  // namespace arenite::device

#endif  // ARENITE_TESTS_DEVICE_STACK_USE_H_
