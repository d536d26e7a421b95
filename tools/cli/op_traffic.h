// SPDX-License-Identifier: Apache-2.0
// Bytes that ops move: beside multiply-adds, what worst-case timing starts from.
#pragma once

#include <cstdint>

#include "format/reader.h"

namespace arenite::tool {

struct OpTraffic {
  uint64_t read = 0;
  uint64_t written = 0;
};

// Of op `index` in one call with the first `positions` of one sequence, of which one row is given
// out, or all where the model has no choice; for one of the file's targets. Weights, tables and
// activations count once, keys and values once for each block of queries that sees them. What a
// CPU's caches catch is not subtracted.
OpTraffic op_traffic(const format::ModelReader& model, uint32_t packed_index, uint32_t index,
                     uint32_t positions);

}  // namespace arenite::tool
