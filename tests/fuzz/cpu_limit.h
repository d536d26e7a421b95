// SPDX-License-Identifier: Apache-2.0
// Reports a call as a finding if it takes far more time than its input explains. Counts the CPU
// time of the thread, so that a busy machine causes no findings.
#pragma once

#include <ctime>

#include <cstddef>
#include <cstdint>

#include "fuzz/require.h"

namespace arenite::test {

class CpuLimit {
 public:
  // `base_us` is the limit for any input, with sanitizers on a slow machine; `byte_us` is added for
  // each byte of input.
  CpuLimit(uint64_t base_us, uint64_t byte_us, size_t bytes)
      : limit_us_(base_us + byte_us * bytes), began_us_(now_us()) {}

  void check(const char* what) const { require(now_us() - began_us_ <= limit_us_, what); }

 private:
  static uint64_t now_us() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000 +
           static_cast<uint64_t>(time.tv_nsec) / 1000;
  }

  uint64_t limit_us_;
  uint64_t began_us_;
};

}  // namespace arenite::test
