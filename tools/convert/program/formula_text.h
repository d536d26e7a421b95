// SPDX-License-Identifier: Apache-2.0
// The arena formula in words and numbers.
#pragma once

#include <string>
#include <vector>

#include "core/arena_formula.h"

namespace arenite::convert {

// The parts of the sum of SPEC.md with this target's coefficients; P positions, T tokens a call,
// O outputs a call, S sequences, N threads. Every part is rounded up to 64 bytes, scratch for each
// thread. Where layers have sliding windows, R1, R2 ... are the positions that their rings hold.
struct FormulaText {
  std::string session;
  std::vector<std::string> kv_cache;  // to be added up; one for each length of caches
  std::string activations;
  std::string scratch;
  std::vector<std::string> rings;  // "R1 = ..."
};
FormulaText describe_parts(const ArenaFormula& formula);

}  // namespace arenite::convert
