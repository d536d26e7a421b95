// SPDX-License-Identifier: Apache-2.0
// The rules that say which element goes where, op by op.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "convert/exported/call_arguments.h"
#include "convert/exported/movement.h"

namespace arenite::convert {

using Movements = std::vector<Movement>;

struct MovementRule {
  std::string_view moved;       // the argument that is moved: a tensor, or a list of them
  std::string_view moved_also;  // a second one, whose elements follow, or empty
  Movements (*make)(const CallArguments&);
};

using MovementRules = std::map<std::string_view, MovementRule>;  // by the op

MovementRules reshaping_rules();  // order kept, and dimensions in another order
MovementRules cutting_rules();    // parts, windows, diagonals
MovementRules repeating_rules();  // expand, repeat, and the blocks of images
MovementRules gathering_rules();  // element by element

constexpr int64_t kShuffleMax = 1 << 12;       // side of the squares of pixel_shuffle
constexpr int64_t kPadMax = 1 << 20;           // rows that pad adds
constexpr size_t kPartsMax = size_t{1} << 16;  // of one split

// All elements of `shape` in order.
Movement whole(const Shape& shape);
// The same of "self".
Movement whole(const CallArguments& call);
// `movement` as a result of this shape. Throws InputError unless it has as many elements.
Movements in_shape(const CallArguments& call, Movement movement, Shape shape);

}  // namespace arenite::convert
