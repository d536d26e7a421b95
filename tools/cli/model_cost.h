// SPDX-License-Identifier: Apache-2.0
// What a model computes and moves, counted from its program: by what the table of ops says of each.
#pragma once

#include <cstdint>

#include "format/reader.h"

namespace arenite::tool {

// Multiply-adds of an op: for each row, and for each pair of a query and a key that it sees. Ops
// other than products of matrices count nothing.
struct OpCost {
  uint64_t per_token = 0;
  uint64_t per_pair = 0;
};
OpCost op_cost(const format::ModelReader& model, uint32_t index);

// What a sequence is fed in one call. REQUIRES: held is 0 for a model that is not causal.
struct Feed {
  uint32_t held = 0;     // tokens before
  uint32_t tokens = 0;   // tokens now
  uint32_t outputs = 0;  // of these, how many give out rows
};

// Floating-point operations of op `index`, two per multiply-add. Attention counts visible pairs
// only; exponentials and copies do not count.
double op_flops(const format::ModelReader& model, uint32_t index, const Feed& feed);

// The same of all ops.
double model_flops(const format::ModelReader& model, const Feed& feed);

// Bytes of weights, of keys and of values that a call with one token reads at least, for one of the
// file's targets: matrices whole, a row of the tables, and the cache as far as masks show it.
double decode_bytes(const format::ModelReader& model, uint32_t packed_index, uint32_t held,
                    TensorType kv_type);

// Bytes that an op moves: beside multiply-adds, what worst-case timing starts from.
struct OpTraffic {
  uint64_t read = 0;
  uint64_t written = 0;
};

// Of op `index` in one call with the first `positions` of one sequence, of which one row is given
// out, or all where the model has no choice; for one of the file's targets. Weights and activations
// count once, rows of tables once for each token, keys and values once for each block of queries
// that sees them. What a CPU's caches catch is not subtracted.
OpTraffic op_traffic(const format::ModelReader& model, uint32_t packed_index, uint32_t index,
                     uint32_t positions, TensorType kv_type);

}  // namespace arenite::tool
