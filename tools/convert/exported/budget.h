// SPDX-License-Identifier: Apache-2.0
// What reading one program may cost, whatever its file says: the size of an array, the work of all
// of it, and how deep ops are looked into. Whoever makes arrays or goes deeper asks here first. Of
// limits that live within each other the smallest one holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convert/files/input_limits.h"

namespace arenite::convert {

// While it lives, arrays of this thread have at most so many elements: what a graph of a few bytes
// may repeat without end is refused before there is memory for it.
class ElementLimit {
 public:
  explicit ElementLimit(uint64_t elements_max);
  ~ElementLimit();
  ElementLimit(const ElementLimit&) = delete;
  ElementLimit& operator=(const ElementLimit&) = delete;

  // Of this thread: kExportedElementsMax where there is none.
  static uint64_t current();

 private:
  uint64_t before_;
};

// While it lives, this thread takes at most so many steps, of which one is about a nanosecond.
class WorkBudget {
 public:
  explicit WorkBudget(uint64_t steps);
  ~WorkBudget();
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  // Takes off what is about to be done. Throws ShapeError when there is not so much left, and does
  // nothing on a thread without a budget.
  static void take(uint64_t steps);

 private:
  uint64_t before_;
};

// One op looked into from within another. Throws ShapeError beyond kExportedLevelsMax, which the
// stack of any thread has room for: nothing that a file asks for may recurse without it.
class Level {
 public:
  Level();
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
};

}  // namespace arenite::convert
