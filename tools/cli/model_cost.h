// SPDX-License-Identifier: Apache-2.0
// Counts the multiply-adds and bytes of a model from its program and the table of ops.
#pragma once

#include <cstdint>

#include "format/reader.h"

namespace arenite::tool {

// Multiply-adds of an op per row and per visible (query, key) pair; 0 for ops without products.
struct OpCost {
  uint64_t per_token = 0;
  uint64_t per_pair = 0;
};
OpCost op_cost(const format::ModelReader& model, uint32_t index);

// Tokens of a sequence in a call. REQUIRES: non-causal functions get all tokens in a single call.
struct Feed {
  InputTokens held;      // per input: before the call
  InputTokens tokens;    // per input: added by the call
  uint32_t outputs = 0;  // how many of these give output rows
};

// Rows of an axis: held before a call, and added by the call.
struct AxisFeed {
  uint32_t held = 0;
  uint32_t rows = 0;
};
AxisFeed on_axis(const format::ModelReader& model, uint32_t axis, const Feed& feed);

// Returns the axis over whose rows an op runs, in blocks or all at once.
uint32_t rows_axis(const format::ModelReader& model, uint32_t index);

// Returns the axis of an attention op's keys if it differs from that of its queries, else kAbsent.
uint32_t axis_of_stored_keys(const format::ModelReader& model, uint32_t index);

// Returns each input's tokens after a call.
InputTokens tokens_after(const Feed& feed);

// Returns the multiply-adds of op `index` in one pass over a sequence with `tokens` tokens of each
// input. Every query sees all keys that lie on another axis.
uint64_t pass_multiply_adds(const format::ModelReader& model, uint32_t index,
                            const InputTokens& tokens);

// Returns the floating-point operations of op `index`, two per multiply-add. Attention counts
// visible pairs only; exponentials and copies are not counted.
double op_flops(const format::ModelReader& model, uint32_t index, const Feed& feed);

// Returns the sum over all ops, or over those with weights of `type`; kF32 includes attention.
double model_flops(const format::ModelReader& model, const Feed& feed);
double model_flops(const format::ModelReader& model, const Feed& feed, TensorType type);

// Returns the least bytes of weights and KV cache that the last function reads for a single token
// on target `packed_index`: whole matrices, a row of each table, and the visible part of the cache.
// Inputs of other functions hold at least one token.
double decode_bytes(const format::ModelReader& model, uint32_t packed_index,
                    const InputTokens& held, TensorType kv_type);

// The memory traffic of an op in bytes. Worst-case timing needs it beside multiply-adds.
struct OpTraffic {
  uint64_t read = 0;
  uint64_t written = 0;
};

// Returns the traffic of op `index` in a call with the first `tokens` tokens of a sequence, on
// target `packed_index`. The call gives out a single row, or all rows if the model has no choice.
// Weights and activations count once, table rows once per token, and keys and values once per block
// of queries that sees them. Hits in a CPU's caches are not subtracted.
OpTraffic op_traffic(const format::ModelReader& model, uint32_t packed_index, uint32_t index,
                     const InputTokens& tokens, TensorType kv_type);

// The sizes of a call on a single sequence; rows are on the function's axis with the most rows.
struct CallSize {
  uint64_t held = 0;     // before the call
  uint64_t rows = 0;     // added by the call
  uint64_t outputs = 0;  // how many of these are given out
  bool finite = true;    // all computed values are
  uint64_t stored = 0;   // most keys on another axis
};

struct CallWork {
  uint64_t multiply_adds = 0;
  uint64_t bytes_read = 0;  // as op_traffic counts
};

// Returns an upper bound of a call's work on target `packed_index`, whatever the tokens are. Only
// values that are not finite change how much is computed.
CallWork call_work_max(const format::ModelReader& model, uint32_t packed_index, uint32_t function,
                       const CallSize& size, TensorType kv_type);

}  // namespace arenite::tool
