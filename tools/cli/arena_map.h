// SPDX-License-Identifier: Apache-2.0
// Pictures of an arena in characters: slots over time, and the shares of its parts.
#pragma once

#include <string>
#include <vector>

#include "format/reader.h"

namespace arenite::tool {

struct MapSlot {
  std::string label;
  format::SlotView place;
};

// Time goes from left to right, one stripe for each op; the columns of the activation area go from
// top to bottom; each slot is a box from the op that fills it to the last op that reads it. At most
// 100 characters wide. Empty if there are too many ops or slots for a picture.
std::vector<std::string> draw_slots(const std::vector<std::string>& op_names,
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
