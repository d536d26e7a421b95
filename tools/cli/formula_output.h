// SPDX-License-Identifier: Apache-2.0
// The coefficients of an arena formula, as the commands print them; SPEC.md says what they
// multiply.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arenite/arena_formula.h"

namespace arenite::tool {

// One line for each part of the arena that differs from model to model, in its order.
std::vector<std::string> formula_lines(const ArenaFormula& formula);

nlohmann::ordered_json formula_json(const ArenaFormula& formula);

}  // namespace arenite::tool
