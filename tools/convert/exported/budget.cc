// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/budget.h"

#include <algorithm>
#include <utility>

#include "convert/exported/array.h"

namespace arenite::convert {
namespace {

thread_local uint64_t elements_max = UINT64_MAX;
thread_local uint64_t steps_left = UINT64_MAX;
thread_local size_t levels = 0;

}  // namespace

ElementLimit::ElementLimit(uint64_t limit)
    : before_(std::exchange(elements_max, std::min(elements_max, limit))) {}

ElementLimit::~ElementLimit() { elements_max = before_; }

uint64_t ElementLimit::current() {
  return elements_max == UINT64_MAX ? kExportedElementsMax : elements_max;
}

WorkBudget::WorkBudget(uint64_t steps)
    : before_(std::exchange(steps_left, std::min(steps_left, steps))) {}

WorkBudget::~WorkBudget() { steps_left = before_; }

void WorkBudget::take(uint64_t steps) {
  if (steps_left == UINT64_MAX) return;
  if (steps > steps_left) {
    steps_left = 0;
    throw ShapeError(
        "with it, the program takes longer than a model of this size: export the model for a "
        "shorter input");
  }
  steps_left -= steps;
}

Level::Level() {
  if (levels == kExportedLevelsMax) {
    throw ShapeError("a formula of more than {} ops, one within the other, is not supported",
                     kExportedLevelsMax);
  }
  ++levels;
}

Level::~Level() { --levels; }

}  // namespace arenite::convert
