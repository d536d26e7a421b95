// SPDX-License-Identifier: Apache-2.0
// The arena formula in words and numbers.
#pragma once

#include <string>

#include "core/arena_formula.h"

namespace arenite::convert {

// The sum of SPEC.md with this target's coefficients; P positions, T tokens a call, S sequences,
// N threads. Every term is rounded up to 64 bytes.
std::string describe_formula(const ArenaFormula& formula);

}  // namespace arenite::convert
