// SPDX-License-Identifier: Apache-2.0
// Replaces functions of the C library: a program's own definitions take precedence. This file is
// compiled without the calls that it counts, and without turning its loops into calls of its own
// functions.
#include "runtime/format/step_counter.h"

#include <cstddef>
#include <utility>

namespace {

uint64_t steps = 0;  // tests have one thread

}  // namespace

extern "C" {

void __sanitizer_cov_trace_pc() { ++steps; }

int memcmp(const void* a, const void* b, size_t bytes) noexcept {
  const auto* const left = static_cast<const unsigned char*>(a);
  const auto* const right = static_cast<const unsigned char*>(b);
  size_t i = 0;
  while (i < bytes && left[i] == right[i]) ++i;
  steps += i;
  return i == bytes ? 0 : left[i] - right[i];
}

int strncmp(const char* a, const char* b, size_t bytes) noexcept {
  size_t i = 0;
  while (i < bytes && a[i] == b[i] && a[i] != '\0') ++i;
  steps += i;
  return i == bytes ? 0 : static_cast<unsigned char>(a[i]) - static_cast<unsigned char>(b[i]);
}

size_t strlen(const char* text) noexcept {
  size_t bytes = 0;
  while (text[bytes] != '\0') ++bytes;
  steps += bytes;
  return bytes;
}

}  // extern "C"

namespace arenite::test {

uint64_t counted_steps() { return std::exchange(steps, 0); }

}  // namespace arenite::test
