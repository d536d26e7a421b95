// SPDX-License-Identifier: Apache-2.0
// The arena formula in words and numbers.
#pragma once

#include <string>

#include "core/arena_formula.h"

namespace arenite::convert {

// The parts of the sum of SPEC.md with this target's coefficients; P positions, T tokens a call,
// S sequences, N threads. Every part is rounded up to 64 bytes, scratch for each thread.
struct FormulaText {
  std::string session;
  std::string kv_cache;
  std::string activations;
  std::string scratch;
};
FormulaText describe_parts(const ArenaFormula& formula);

}  // namespace arenite::convert
