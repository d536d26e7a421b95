// SPDX-License-Identifier: Apache-2.0
// Counts the cost of a piece of code, independent of machine and load: the basic blocks executed,
// and the memory held.
#pragma once

#include <cstdint>

namespace arenite::testing {

struct Cost {
  // Executed basic blocks of code compiled with -fsanitize-coverage=trace-pc, plus a step for each
  // 16 bytes that the C library's functions process.
  uint64_t steps = 0;
  uint64_t peak_bytes = 0;  // on the heap, more than at the start
};

// Counts from its construction on. One at a time.
class CostCounter {
 public:
  CostCounter();
  Cost cost() const;
};

}  // namespace arenite::testing
