// SPDX-License-Identifier: Apache-2.0
// Arguments of an op that do not depend on the model's input.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "convert/exported/reducer.h"

namespace arenite::convert {

// The argument as an array, where it is a constant or a number.
std::optional<Array> constant_argument(const Operation& operation, std::string_view name);

// How many positions the constants have that an op works with; 0: any number.
int64_t positions_max_of(const Operation& operation);

Array inverse(const Array& array);  // 1 / x of each element

}  // namespace arenite::convert
