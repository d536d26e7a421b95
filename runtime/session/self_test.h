// SPDX-License-Identifier: Apache-2.0
// How a self-test runs: for the session, which compares, and for the converter, which records.
#pragma once

#include "session/session_state.h"

namespace arenite {

// What an input is fed: features or ids, with types or without.
struct SelfTestInput {
  uint32_t tokens = 0;
  const float* features = nullptr;
  const TokenId* ids = nullptr;
  const uint8_t* types = nullptr;
};

// Of all inputs of a model.
struct SelfTestInputs {
  SelfTestInput of[kFunctionsLinked ? kInputsMax : 1];
};

// Begins to feed tokens [begin, begin + count) of a function's input to sequence 0, or, of several
// inputs, all that they have. Out of line, so its locals are off the stack while ops run.
Status begin_self_test_call(SessionState& state, uint32_t function, const SelfTestInputs& inputs,
                            uint32_t begin, uint32_t count, Diagnostic* why);

// Where the test can be split, it is: what the session takes in a call, and the last token alone,
// so that it passes through the kernels of many rows and of one. 0 begins the first call.
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

// The first input that a function takes.
inline uint32_t first_input(const SessionState& state, uint32_t function) {
  uint32_t input = 0;
  while (!state.reader.takes(function, input)) ++input;
  return input;
}

// Calls visit(index, row) for each row that op `op` has just made; rows are counted over all calls.
template <typename Visit>
bool show_rows(SessionState& state, uint32_t op, Visit visit) {
  const Matrix rows = state.activation(format::rows_of(state.reader.op(op)));
  uint32_t axis = state.rows_of_block(state.reader.axis_of_op(op));
  // Rows that are asked for are the last ones of their source. After the last op rows are held.
  if (state.reader.kind_of_axis(axis) == AxisKind::kAsked) axis = state.reader.source_of_axis(axis);
  const SequenceRows& made = state.sequences(axis)[0];
  const uint32_t first = made.positions + (state.ops_left == 0 ? 0 : made.rows) - rows.rows;
  for (uint32_t row = 0; row < rows.rows; ++row) {
    if (!visit(first + row, std::span<const float>(rows.row(row), rows.columns))) return false;
  }
  return true;
}

// Feeds one function and calls visit(op, index, row) for each row that an op makes; `go_on` becomes
// false, and the rest is left out, where that returns false.
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

// Starts anew, feeds all functions in their order and calls visit(op, index, row) for each row that
// an op makes, and visit_output(function, output) after each function; ends early where either
// returns false. Fails as Session::run does, or with kInvalidArgument if the session is too small.
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
