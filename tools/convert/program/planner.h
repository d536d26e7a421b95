// SPDX-License-Identifier: Apache-2.0
// Places activation slots in the arena.
#pragma once

#include "convert/program/program.h"

namespace arenite::convert {

// Computes each slot's lifetime from the ops, then its place: widest first, each at the lowest
// column where no slot that is alive at the same time lies. Greedy, so not always the smallest
// arena; for chains of ops, as here, it is. Checks its own result for overlaps.
void place_slots(Program& program);

}  // namespace arenite::convert
