// SPDX-License-Identifier: Apache-2.0
// Limits the cost of a reader: memory or time beyond the limits of SECURITY.md is a finding, like a
// crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace arenite::fuzz {

// Inputs of less than this cost as much as one of this size.
inline constexpr size_t kSmallInputBytes = 100'000;

struct ReaderBound {
  uint64_t bytes = 0;           // of the heap, for any input
  uint64_t bytes_per_byte = 0;  // and for each byte of it
  // CPU time of a sanitized build, which takes about ten times as long as others.
  double seconds = 0.0;
  double seconds_per_megabyte = 0.0;
};

// Calls `read`, which may throw an InputError. Any other exception, and a cost beyond the bound,
// ends the process. Memory is counted where the program has a sanitizer's allocator. Time is
// taken twice before it is too long, as the machine may be busy.
void read_within(const ReaderBound& bound, size_t input_bytes, const std::function<void()>& read);

}  // namespace arenite::fuzz
