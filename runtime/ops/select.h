// SPDX-License-Identifier: Apache-2.0
// The rows that a call gives out: those of some tokens, or one that is made of a whole sequence.
#pragma once

#include "core/matrix.h"
#include "core/op_kinds.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// Writes to `output`, from its first row on, what `kind` takes of each sequence that has rows in
// this step; kAsAsked is the last row of each, or with `all` every row. Of each sequence the rows
// before `first_row` are passed over. REQUIRES: no sequence ends before it.
// input [rows of the step, columns], output [rows to give out, columns].
void select(const KernelSet& kernels, SelectKind kind, bool all, const ConstMatrix& input,
            const StepRows& rows, const Matrix& output, PrefixRows first_row = {});

}  // namespace arenite
