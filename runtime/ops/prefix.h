// SPDX-License-Identifier: Apache-2.0
// Rows of constants before the tokens of each sequence: class tokens, registers, learned prompts.
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "core/weights.h"
#include "ops/rows.h"

namespace arenite {

// output: in each sequence that begins in this step the rows of `constants`, plain rows
// [count, columns], as its rows from `first_row` on, and elsewhere the rows of input [rows of the
// step, columns], which may be the same columns as the output.
// REQUIRES: first_row + count <= rows.prefix.
void put_prefix(const WeightView& constants, uint32_t first_row, const ConstMatrix& input,
                const StepRows& rows, const Matrix& output, const ParallelFor& parallel);

}  // namespace arenite
