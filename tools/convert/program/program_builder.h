// SPDX-License-Identifier: Apache-2.0
// Turns an attention module into a program.
#pragma once

#include "convert/program/program.h"
#include "convert/spec/attention_module.h"

namespace arenite::convert {

// Folds 1/sqrt(head_dim) into the query, fuses the projections that share an input into one, and
// lets heads write side by side. Slots are placed (planner.h).
Program build_program(const AttentionModule& module, const std::string& name);

}  // namespace arenite::convert
