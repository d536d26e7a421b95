// SPDX-License-Identifier: Apache-2.0
// What a model computes and moves, counted from its program: by what the table of ops says of each.
#pragma once

#include <cstdint>
#include <vector>

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

// Attention ops of which no query sees more than `keys_max` keys. Pairs are those of a query and a
// key that a call multiplies, hidden ones in the same block included.
struct AttentionBound {
  uint64_t keys_max = 0;                  // UINT64_MAX: all that are held
  uint64_t multiply_adds = 0;             // a pair
  uint64_t bytes = 0;                     // a key and a block of queries
  uint64_t multiply_adds_not_finite = 0;  // a pair, more, where results are not finite:
  uint64_t bytes_not_finite = 0;          // these rows are computed again, each by itself
};

// What a call does at most, whatever the tokens are: sums of sizes times these. Only numbers that
// are not finite change how much is computed at all.
struct CallBounds {
  uint32_t block_rows = 1;  // queries of a block
  uint64_t multiply_adds_per_row = 0;
  uint64_t multiply_adds_per_output = 0;
  uint64_t bytes_once = 0;  // as op_traffic counts
  uint64_t bytes_per_row = 0;
  uint64_t bytes_per_output = 0;
  std::vector<AttentionBound> attention;
};

// For one of the file's targets.
CallBounds call_bounds(const format::ModelReader& model, uint32_t packed_index, TensorType kv_type);

// The sizes of a call on one sequence. A prefix counts as rows, with the first tokens.
struct CallSize {
  uint64_t held = 0;     // rows before
  uint64_t rows = 0;     // rows now
  uint64_t outputs = 0;  // of these, how many are given out
  bool finite = true;    // all numbers that are computed
};

uint64_t multiply_adds_max(const CallBounds& bounds, const CallSize& size);
uint64_t bytes_read_max(const CallBounds& bounds, const CallSize& size);

}  // namespace arenite::tool
