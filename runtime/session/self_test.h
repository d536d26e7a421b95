// SPDX-License-Identifier: Apache-2.0
// How a self-test runs: for the session, which compares, and for the converter, which records.
#pragma once

#include "session/session_state.h"

namespace arenite {

// What is fed: features or ids, with types or without.
struct SelfTestInput {
  uint32_t tokens = 0;
  const float* features = nullptr;
  const TokenId* ids = nullptr;
  const uint8_t* types = nullptr;
};

// Begins to feed tokens [begin, begin + count) to sequence 0. Out of line, so its locals are off
// the stack while ops run.
Status begin_self_test_call(SessionState& state, const SelfTestInput& input, uint32_t begin,
                            uint32_t count, Diagnostic* why);

// Where the test can be split, it is: what the session takes in a call, and the last token alone,
// so that it passes through the kernels of many rows and of one. 0 begins the first call.
inline uint32_t self_test_call(const SessionState& state, uint32_t tokens, uint32_t begin) {
  const uint32_t left = tokens - begin;
  if (!state.causal) return left;
  const uint32_t most = begin == 0 && left > 1 ? left - 1 : left;
  return most < state.layout.tokens_max ? most : state.layout.tokens_max;
}

// Calls visit(index, row) for each row that op `op` has just made of tokens [begin, begin + count);
// rows of the prefix come before those of the first token. The row that a model gives out for a
// whole sequence goes by 0.
template <typename Visit>
bool show_rows(SessionState& state, uint32_t op, uint32_t begin, uint32_t count, Visit visit) {
  const Matrix rows = state.activation(state.reader.op(op).views[format::kOutput]);
  const uint32_t prefix = state.layout.prefix_rows;
  const uint32_t added = begin == 0 ? prefix : 0;
  const bool is_each = rows.rows == count + added;
  const uint32_t from = begin == 0 ? 0 : begin + prefix;
  const uint32_t first = is_each ? from : state.pooled ? 0 : begin + count + prefix - 1;
  for (uint32_t row = 0; row < rows.rows; ++row) {
    if (!visit(first + row, std::span<const float>(rows.row(row), rows.columns))) return false;
  }
  return true;
}

// Starts anew, feeds the tokens and calls visit(op, index, row) for each row that an op makes; ends
// early where that returns false. The last call's rows are still the session's output afterwards.
// Fails as Session::run does, or with kInvalidArgument if the session is too small.
template <typename Visit>
Status run_self_test(SessionState& state, const SelfTestInput& input, Diagnostic* why,
                     Visit visit) {
  for (uint32_t begin = 0; begin < input.tokens;) {
    const uint32_t count = self_test_call(state, input.tokens, begin);
    const Status status = begin_self_test_call(state, input, begin, count, why);
    if (status != Status::kOk) {
      if (begin != 0) state.reset();
      return status;
    }
    for (uint32_t op = 0; op < state.reader.ops(); ++op) {
      state.run_ops(1);
      const bool go_on = show_rows(
          state, op, begin, count,
          [&](uint32_t token, std::span<const float> row) { return visit(op, token, row); });
      if (!go_on) return Status::kOk;
    }
    begin += count;
  }
  return Status::kOk;
}

}  // namespace arenite
