// SPDX-License-Identifier: Apache-2.0
// Counts heap bytes through the hooks of a sanitizer's allocator.
#include "fuzz/reader_cost.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "convert/files/error.h"

extern "C" {
// Functions of the sanitizers' runtime; null in other programs.
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(
    void (*malloc_hook)(const volatile void*, size_t), void (*free_hook)(const volatile void*));
__attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void* block);
}

namespace arenite::fuzz {
namespace {

thread_local bool is_counting = false;
thread_local int64_t live_bytes = 0;  // what was there before may go meanwhile
thread_local int64_t peak_bytes = 0;

void count_allocated(const volatile void*, size_t bytes) {
  if (!is_counting) return;
  live_bytes += static_cast<int64_t>(bytes);
  peak_bytes = std::max(peak_bytes, live_bytes);
}

void count_freed(const volatile void* block) {
  if (!is_counting || block == nullptr) return;
  live_bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(block));
}

void install_hooks() {
  static const bool is_installed = [] {
    if (__sanitizer_install_malloc_and_free_hooks == nullptr) return false;
    return __sanitizer_install_malloc_and_free_hooks(count_allocated, count_freed) != 0;
  }();
  (void)is_installed;
}

double seconds_of_process() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Cost {
  double seconds = 0.0;
  uint64_t bytes = 0;
};

Cost cost_of(const std::function<void()>& read) {
  live_bytes = peak_bytes = 0;
  is_counting = true;
  const double start = seconds_of_process();
  try {
    read();
  } catch (const convert::InputError&) {
  }
  const double seconds = seconds_of_process() - start;
  is_counting = false;
  return {seconds, static_cast<uint64_t>(peak_bytes)};
}

}  // namespace

void read_within(const ReaderBound& bound, size_t input_bytes, const std::function<void()>& read) {
  install_hooks();
  const uint64_t counted = std::max(input_bytes, kSmallInputBytes);
  const uint64_t bytes_max = bound.bytes + bound.bytes_per_byte * counted;
  const double seconds_max =
      bound.seconds + bound.seconds_per_megabyte * 1e-6 * static_cast<double>(counted);
  Cost cost = cost_of(read);
  if (cost.bytes > bytes_max) {
    std::fprintf(stderr, "==ERROR: %zu bytes of input took %llu bytes of memory: at most %llu\n",
                 input_bytes, static_cast<unsigned long long>(cost.bytes),
                 static_cast<unsigned long long>(bytes_max));
    std::abort();
  }
  if (cost.seconds > seconds_max) cost.seconds = std::min(cost.seconds, cost_of(read).seconds);
  if (cost.seconds > seconds_max) {
    std::fprintf(stderr, "==ERROR: %zu bytes of input took %.2f s: at most %.2f s\n", input_bytes,
                 cost.seconds, seconds_max);
    std::abort();
  }
}

}  // namespace arenite::fuzz
