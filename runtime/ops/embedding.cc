// SPDX-License-Identifier: Apache-2.0
// A packed table has an entry's numbers nr floats apart. Reading it so costs a cache line for each,
// which is little beside the layers, and saves a second copy of a model's largest tensor.
#include "ops/embedding.h"

#include <cstring>

namespace arenite {
namespace {

void copy_entry(const TableView& table, uint32_t nr, uint32_t entry, float* to) {
  if (!table.packed) {
    std::memcpy(to, table.data + size_t{entry} * table.columns, table.columns * sizeof(float));
    return;
  }
  const size_t panel = size_t{entry / nr} * (size_t{table.columns} + 1) * nr;
  const float* from = table.data + panel + nr + entry % nr;  // behind the panel's bias row
  for (uint32_t i = 0; i < table.columns; ++i) to[i] = from[size_t{i} * nr];
}

// The row of a token's position. Callers' ids stand where positions are counted from: a gap is a
// token like others here.
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
               const StepRows& rows, Matrix output, const ParallelFor& parallel) {
  const size_t bytes = output.columns * sizeof(float);
  auto work = [&](uint32_t row) {
    const RowPlace place = place_of_row(rows, row);
    const uint32_t position = position_row(op, tokens, place);
    float* to = output.row(row);
    if (op.tokens.data == nullptr) {
      copy_entry(op.positions, kernels.packing.nr, position, to);
      return;
    }
    copy_entry(op.tokens, kernels.packing.nr, tokens.ids[place.token], to);
    if (op.scale != 1.0f) kernels.scale(bytes, to, &op.scale, to);
    if (op.positions.data != nullptr) {
      kernels.add(bytes, to, op.positions.data + size_t{position} * op.positions.columns, to);
    }
    if (op.types.data != nullptr) {
      const size_t type = tokens.types != nullptr ? tokens.types[place.token] : 0;
      kernels.add(bytes, to, op.types.data + type * op.types.columns, to);
    }
  };
  for_each_row(parallel, output.rows, work);
}

}  // namespace arenite
