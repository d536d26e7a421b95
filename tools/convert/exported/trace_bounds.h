// SPDX-License-Identifier: Apache-2.0
// Bounds a model's length by what a trace knows up to its own length only: dense masks, attention
// biases by table, and tabulated rotation angles.
//
//    traced at 64 tokens, bias by pairs [heads, 64, 64]  ->  at most 64 positions
#pragma once

#include <string>

#include "convert/exported/compare_traces.h"
#include "convert/exported/trace/trace_program.h"

namespace arenite::convert {

// Compiles the masks of `traced` that follow a rule, lowers the positions of `claim` to what the
// other ones, biases and angles cover, and cuts biases to that. Returns whether rows that were
// concatenated from several inputs have any of these. Throws InputError, which begins with `where`,
// if not even one token is covered.
bool bound_by_trace(TracedProgram& traced, LengthClaim& claim, const std::string& where);

}  // namespace arenite::convert
