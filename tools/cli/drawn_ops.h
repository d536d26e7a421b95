// SPDX-License-Identifier: Apache-2.0
// Which ops of a program a picture of its arena shows: of layers that are alike the first alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/inspect_facts.h"

namespace arenite::tool {

struct DrawnOps {
  // Of what is drawn, [begin, end) stands for `times` as many ops: itself and those that follow it
  // in the program and have the same kinds and widths.
  struct Repeat {
    size_t begin = 0;
    size_t end = 0;
    uint32_t times = 1;
  };

  std::vector<uint32_t> ops;  // indices, ascending
  std::vector<Repeat> repeats{};
};

// All ops where there are at most `ops_max` of them.
DrawnOps ops_to_draw(const ModelFacts& model, size_t ops_max);

// Places of DrawnOps::ops, both ends included.
struct DrawnSpan {
  size_t first = 0;
  size_t last = 0;
};

// While which of the drawn ops a slot is needed; none where it is needed by others alone.
std::optional<DrawnSpan> drawn_span(const DrawnOps& drawn, const format::SlotView& slot);

// "ops 1 to 12 are drawn once: ops 13 to 144 repeat them 11 times"
std::string describe(const DrawnOps& drawn, const DrawnOps::Repeat& repeat);

}  // namespace arenite::tool
