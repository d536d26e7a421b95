// SPDX-License-Identifier: Apache-2.0
// Bounds a model's length by what is known only up to the traced length: dense masks, attention
// biases stored as tables, and tabulated rotation angles.
//
//   traced at 64 tokens, bias by pairs [heads, 64, 64]  ->  at most 64 positions
#pragma once

#include <string>

#include "convert/exported/compare_traces.h"
#include "convert/exported/trace/trace_program.h"

namespace arenite::convert {

// Compiles the masks of `traced` that follow a rule, lowers the positions of `claim` to what the
// other masks, biases and angles cover, and truncates biases accordingly. Returns whether rows that
// were concatenated from several inputs depend on any of these. Throws InputError, beginning with
// `where`, if not even one token is covered.
bool bound_by_trace(TracedProgram& traced, LengthClaim& claim, const std::string& where);

}  // namespace arenite::convert
