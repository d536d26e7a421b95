// SPDX-License-Identifier: Apache-2.0
// Runs a self-test, both for the session, which compares results, and for the converter, which
// records them.
#pragma once

#include "session/session_state.h"

namespace arenite {

// Data of one input: features [format::self_test_feature_rows(), width], or ids with optional
// types.
struct SelfTestInput {
  uint32_t tokens = 0;
  const float* features = nullptr;
  const TokenId* ids = nullptr;
  const uint8_t* types = nullptr;
};

// Data of all inputs, by index.
struct SelfTestInputs {
  SelfTestInput of[kFunctionsLinked ? kInputsMax : 1];
};

// Begins a call with tokens [begin, begin + count) of the function's first input and, if there are
// several inputs, with all tokens of the others, for sequence 0. Not inlined, so that its locals
// are off the stack while ops run.
Status begin_self_test_call(SessionState& state, uint32_t function, const SelfTestInputs& inputs,
                            uint32_t begin, uint32_t count, Diagnostic* why);

// Returns the number of tokens of the next call, which starts at `begin`. A causal function with
// one input is run in several calls: each has at most tokens_max tokens, and the first one leaves
// the last token to another call, so that both the kernels for many rows and those for one row are
// tested.
inline uint32_t self_test_call(const SessionState& state, uint32_t function, uint32_t input,
                               uint32_t tokens, uint32_t begin) {
  const uint32_t left = tokens - begin;
  const bool has_one = !kFunctionsLinked || state.reader.function(function).inputs == uint32_t{1}
                                                                                          << input;
  if (!state.causal(function) || !has_one) return left;
  const uint32_t most = begin == 0 && left > 1 ? left - 1 : left;
  const uint32_t tokens_max = state.sizes_of(input).tokens_max;
  return most < tokens_max ? most : tokens_max;
}

inline uint32_t first_input(const SessionState& state, uint32_t function) {
  uint32_t input = 0;
  while (!state.reader.takes(function, input)) ++input;
  return input;
}

// Calls visit(index, row) for each row that op `op` has just computed. `index` counts the rows of
// all calls.
template <typename Visit>
bool show_rows(SessionState& state, uint32_t op, Visit visit) {
  const Matrix rows = state.activation(format::rows_of(state.reader.op(op)));
  uint32_t axis = state.rows_of_block(state.reader.axis_of_op(op));
  // Requested rows are the last ones of their source. After the last op, `positions` includes them.
  if (state.reader.kind_of_axis(axis) == AxisKind::kAsked) axis = state.reader.source_of_axis(axis);
  const SequenceRows& made = state.sequences(axis)[0];
  const uint32_t first = made.positions + (state.ops_left == 0 ? 0 : made.rows) - rows.rows;
  for (uint32_t row = 0; row < rows.rows; ++row) {
    if (!visit(first + row, std::span<const float>(rows.row(row), rows.columns))) return false;
  }
  return true;
}

// Runs one function and calls visit(op, index, row) for each row of each op. If visit returns
// false, stops and sets `go_on` to false.
template <typename Visit>
Status run_self_test(SessionState& state, uint32_t function, const SelfTestInputs& inputs,
                     Diagnostic* why, bool& go_on, Visit visit) {
  const uint32_t first = first_input(state, function);
  const uint32_t tokens = inputs.of[kFunctionsLinked ? first : 0].tokens;
  for (uint32_t begin = 0; begin < tokens && go_on;) {
    const uint32_t count = self_test_call(state, function, first, tokens, begin);
    Status status = begin_self_test_call(state, function, inputs, begin, count, why);
    if (status != Status::kOk) {
      if (function != 0 || begin != 0) state.reset();
      return status;
    }
    const uint32_t end = state.reader.end_of_ops(function);
    while (state.ops_left != 0 && go_on) {
      const uint32_t op = end - state.ops_left;
      status = state.run_ops(1, why);
      if (status != Status::kOk) {
        state.reset();
        return status;
      }
      go_on = show_rows(state, op, [&](uint32_t index, std::span<const float> row) {
        return visit(op, index, row);
      });
    }
    begin += count;
  }
  return Status::kOk;
}

// Resets the session, feeds all functions in order and calls visit(op, index, row) for each row of
// each op, and visit_output(function, output) after each function. Stops early if either returns
// false. Fails as Session::run does: if a call has begun, the session is reset, else unchanged.
template <typename Visit, typename VisitOutput>
Status run_self_test(SessionState& state, const SelfTestInputs& inputs, Diagnostic* why,
                     Visit visit, VisitOutput visit_output) {
  bool go_on = true;
  for (uint32_t of = 0; of < state.reader.functions() && go_on; ++of) {
    const Status status = run_self_test(state, of, inputs, why, go_on, visit);
    if (status != Status::kOk) return status;
    go_on = go_on && visit_output(of, state.results());
  }
  return Status::kOk;
}

}  // namespace arenite
