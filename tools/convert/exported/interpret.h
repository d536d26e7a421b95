// SPDX-License-Identifier: Apache-2.0
// Computes an exported program op by op in double precision, as the author's code did: the check of
// a conversion that shares nothing with it but the file.
#pragma once

#include <span>
#include <vector>

#include "convert/exported/array_ops.h"
#include "convert/exported/exported_program.h"

namespace arenite::convert {

// The outputs of `program`, in its order, those that are no tensors left out, for `inputs`, one for
// each input of the user. Weights are read when an op needs them, and go when no op does any more.
// Throws InputError for inputs of other types or sizes than the program takes, and as apply_op.
std::vector<Array> interpret(const ExportedProgram& program, std::span<const Array> inputs,
                             OpBudget budget = {});

// What `budget` must allow for a program of these weights and an input of so many elements, with
// plenty to spare.
OpBudget interpreting_budget(const ExportedProgram& program, uint64_t input_elements);

}  // namespace arenite::convert
