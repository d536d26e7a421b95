// SPDX-License-Identifier: Apache-2.0
// An oracle for time: a call that takes far more than its input explains is a finding. The time of
// the thread is counted, so that a busy machine makes no findings.
#pragma once

#include <ctime>

#include <cstddef>
#include <cstdint>

#include "fuzz/require.h"

namespace arenite::test {

class CpuLimit {
 public:
  // What sanitizers and a slow machine may cost, whatever the input, and what each byte may.
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
