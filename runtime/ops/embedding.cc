// SPDX-License-Identifier: Apache-2.0
// Looks up the rows of tokens. The token table may be packed for GEMM, so that a model whose output
// projection shares it stores its largest tensor once.
#include "ops/row_ops.h"

namespace arenite {
namespace {

// Returns a row of a table that is not packed.
const float* plain_row(const WeightView& table, uint32_t row) {
  return table.f32() + size_t{row} * table.columns;
}

// Returns the row of the position table for a token. With a padding id, counts the caller's ids
// from the first position of the sequence: a token in a gap counts like any other.
uint32_t position_row(const Embedding& op, const TokenIds& tokens, const RowPlace& place) {
  if (op.padding_id == UINT32_MAX) return op.position_offset + place.position;
  const uint32_t* const id = tokens.ids + place.token;
  if (*id == op.padding_id) return op.position_offset - 1;
  uint32_t row = op.position_offset;
  for (const uint32_t* before = id - place.position; before != id; ++before) {
    row += *before != op.padding_id ? 1 : 0;
  }
  return row;
}

}  // namespace

void embedding(const KernelSet& kernels, const Embedding& op, const TokenIds& tokens,
               const StepRows& rows, const Matrix& output, const ParallelFor& parallel) {
  const size_t bytes = output.columns * sizeof(float);
  auto work = [&](uint32_t row) {
    const RowPlace place = place_of_row(rows, row);
    float* to = output.row(row);
    const uint32_t position = position_row(op, tokens, place);
    if (op.tokens.data == nullptr) {
      read_row(op.positions, position, to);
      return;
    }
    read_row(op.tokens, tokens.ids[place.token], to);
    if (op.scale != 1.0f) kernels.scale(bytes, to, &op.scale, to);
    if (op.positions.data != nullptr) {
      kernels.add(bytes, to, plain_row(op.positions, position), to);
    }
    if (op.types.data != nullptr) {
      const uint32_t type = tokens.types != nullptr ? tokens.types[place.token] : 0;
      kernels.add(bytes, to, plain_row(op.types, type), to);
    }
  };
  for_each_row(parallel, output.rows, output.columns * kRoundWork, work);
}

}  // namespace arenite
