// SPDX-License-Identifier: Apache-2.0
// Pictures of an arena in characters: slots over time, and the shares of its parts.
#pragma once

#include <string>
#include <vector>

#include "format/reader.h"

namespace arenite::tool {

struct MapSlot {
  std::vector<std::string> labels;  // the first that has room is shown; the last is cut to fit
  format::SlotView place;
};

struct MapOp {
  uint32_t number = 0;
  std::string name;
};

// More do not fit beside each other.
inline constexpr size_t kMapOpsMax = 17;

// Time goes from left to right, one stripe for each op, with its name where all names have room and
// else with its number; the columns of the activation area go from top to bottom; each slot is a
// box from the op that fills it to the last op that reads it. Ops of a slot's place are indices of
// `ops`. At most 100 characters wide. REQUIRES: 0 < ops.size() <= kMapOpsMax.
std::vector<std::string> draw_slots(const std::vector<MapOp>& ops,
                                    const std::vector<MapSlot>& slots);

struct Share {
  char letter = ' ';
  std::string name;
  uint64_t bytes = 0;
};

// A bar of about `width` letters and, below it, what they stand for. Parts without bytes are left
// out; all others have at least one letter.
std::vector<std::string> draw_shares(const std::vector<Share>& shares, size_t width);

}  // namespace arenite::tool
