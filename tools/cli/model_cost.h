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

// What a sequence is fed in one call. REQUIRES: inputs of functions that are not causal get tokens
// once.
struct Feed {
  InputTokens held;      // tokens before
  InputTokens tokens;    // tokens now
  uint32_t outputs = 0;  // of these, how many give out rows
};

// Rows of an axis: those that a call finds there, and those that it adds.
struct AxisFeed {
  uint32_t held = 0;
  uint32_t rows = 0;
};
AxisFeed on_axis(const format::ModelReader& model, uint32_t axis, const Feed& feed);

// The axis whose rows an op goes along, block by block or at once.
uint32_t rows_axis(const format::ModelReader& model, uint32_t index);

// The axis of the keys of an attention op where it is not the one of its queries; else absent.
uint32_t axis_of_stored_keys(const format::ModelReader& model, uint32_t index);

// Tokens that sequences have of each input after a call.
InputTokens tokens_after(const Feed& feed);

// Multiply-adds of op `index` for one sequence, of which each input has so many tokens, from its
// start. Keys of another axis are all seen by each query.
uint64_t pass_multiply_adds(const format::ModelReader& model, uint32_t index,
                            const InputTokens& tokens);

// Floating-point operations of op `index`, two per multiply-add. Attention counts visible pairs
// only; exponentials and copies do not count.
double op_flops(const format::ModelReader& model, uint32_t index, const Feed& feed);

// The same of all ops, and those of products with weights of one type; of attention with kF32.
double model_flops(const format::ModelReader& model, const Feed& feed);
double model_flops(const format::ModelReader& model, const Feed& feed, TensorType type);

// Bytes of weights, of keys and of values that a call of the last function with one token reads at
// least, for one of the file's targets: matrices whole, a row of the tables, and the cache as far
// as masks show it. Inputs of other functions have a token at least.
double decode_bytes(const format::ModelReader& model, uint32_t packed_index,
                    const InputTokens& held, TensorType kv_type);

// Bytes that an op moves: beside multiply-adds, what worst-case timing starts from.
struct OpTraffic {
  uint64_t read = 0;
  uint64_t written = 0;
};

// Of op `index` in one call with the first tokens of one sequence, of which one row is given out,
// or all where the model has no choice; for one of the file's targets. Weights and activations
// count once, rows of tables once for each token, keys and values once for each block of queries
// that sees them. What a CPU's caches catch is not subtracted.
OpTraffic op_traffic(const format::ModelReader& model, uint32_t packed_index, uint32_t index,
                     const InputTokens& tokens, TensorType kv_type);

// Attention ops of which no query sees more than `keys_max` keys. Pairs are those of a query and a
// key that a call multiplies, hidden ones in the same block included.
struct AttentionBound {
  uint64_t keys_max = 0;                  // UINT64_MAX: all that are held, or those of `stored`
  uint64_t multiply_adds = 0;             // a pair
  uint64_t bytes = 0;                     // a key and a block of queries
  uint64_t multiply_adds_not_finite = 0;  // a pair, more, where results are not finite:
  uint64_t bytes_not_finite = 0;          // these rows are computed again, each by itself
  bool stored = false;                    // keys are those of another axis, and all are seen
};

// What a call of a function does at most, whatever the tokens are: sums of sizes times these. Only
// numbers that are not finite change how much is computed at all.
struct CallBounds {
  Target target = Target::kPortable;
  uint32_t block_rows = 1;  // queries of a block
  uint64_t multiply_adds_per_row = 0;
  uint64_t multiply_adds_per_output = 0;
  uint64_t bytes_once = 0;  // as op_traffic counts
  uint64_t bytes_per_row = 0;
  uint64_t bytes_per_output = 0;
  std::vector<AttentionBound> attention;
};

// For one of the file's targets, of one function.
CallBounds call_bounds(const format::ModelReader& model, uint32_t packed_index, TensorType kv_type,
                       uint32_t function = 0);

// The sizes of a call on one sequence; rows are those of the function's axis that has most.
struct CallSize {
  uint64_t held = 0;     // rows before
  uint64_t rows = 0;     // rows now
  uint64_t outputs = 0;  // of these, how many are given out
  bool finite = true;    // all numbers that are computed
  uint64_t stored = 0;   // keys of another axis, where it has most
};

uint64_t multiply_adds_max(const CallBounds& bounds, const CallSize& size);
uint64_t bytes_read_max(const CallBounds& bounds, const CallSize& size);

}  // namespace arenite::tool
