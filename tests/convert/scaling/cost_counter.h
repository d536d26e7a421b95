// SPDX-License-Identifier: Apache-2.0
// Counts the cost of a piece of code, independent of machine and load: the basic blocks executed,
// and the memory held.
#pragma once

#include <cstdint>

namespace arenite::testing {

struct Cost {
  // Blocks run in what was compiled with -fsanitize-coverage=trace-pc, and the work of the C
  // library's functions that take a length, 16 bytes a step.
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
