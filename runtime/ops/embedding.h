// SPDX-License-Identifier: Apache-2.0
// Looks up the vectors of tokens, and of positions and token types where the model learned them.
#pragma once

#include <span>

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "core/weights.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

struct Embedding {
  WeightView tokens;  // of any type; packed, where it is also the output projection
  float scale = 1.0f;
  WeightView positions;  // plain rows; no data: none
  uint32_t position_offset = 0;
  WeightView types;                  // plain rows; no data: none
  uint32_t padding_id = UINT32_MAX;  // none
};

// What tokens are: ids, and the types that go with them where the caller gave any (else 0).
struct TokenIds {
  const uint32_t* ids = nullptr;
  const uint8_t* types = nullptr;
};

// output [rows, columns]: scale * tokens[id] (+ positions[position_offset + position])
// (+ types[type]); without a table of tokens the positions alone. With a padding id, a position is
// the number of the sequence's tokens before that have another id, those in gaps too, and tokens of
// that id have the row before position_offset. Rows of a prefix are zeros, or positions alone.
// REQUIRES: ids are below the entries of the table, positions and types below those of theirs; with
// a padding id, the sequences begin with this step.
void embedding(const KernelSet& kernels, const Embedding& op, const TokenIds& tokens,
               const StepRows& rows, const Matrix& output, const ParallelFor& parallel);

}  // namespace arenite
