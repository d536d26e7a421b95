// SPDX-License-Identifier: Apache-2.0
// Counts what a piece of code costs, the same on every machine and at every load: the blocks of
// code that it runs, and the memory that it holds.
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
