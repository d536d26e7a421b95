// SPDX-License-Identifier: Apache-2.0
// Writes programs as model files; runtime/format/SPEC.md says which bits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"

namespace arenite::convert {

// Throws InputError if the program has more slots, ops, tensors or masks than a file may hold.
void check_format_limits(const Program& program);

// The bytes of a model file with the weights packed for each target, in the order given, and with
// room for a self-test of so many tokens (self_test.h fills it in); 0: none.
// Throws InputError if sizes overflow; else writes what it is given, right or wrong.
AlignedBytes write_model(const Program& program, const std::vector<Target>& targets,
                         uint32_t self_test_tokens = 0);

}  // namespace arenite::convert
