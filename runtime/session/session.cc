// SPDX-License-Identifier: Apache-2.0
// Creates sessions and implements their public calls.
#include "arenite/session.h"

#include <cassert>
#include <memory>

#include "core/float_bits.h"
#include "core/message.h"
#include "session/session_state.h"

namespace arenite {

SessionState::SessionState(const Model& model_in, const KernelSet& kernels_in,
                           const SessionOptions& options, const ArenaLayout& layout_in)
    : model(model_in),
      reader(ModelAccess::reader(model_in)),
      kernels(kernels_in),
      threads{options.parallel.threads, 0, options.parallel.run, options.parallel.pool},
      parallel(options.parallel),
      profile(options.profile),
      hidden_states(options.hidden_states),
      layout(layout_in),
      causal_functions(reader.causal(0)) {
  for (uint32_t i = 1; i < reader.functions(); ++i) {
    causal_functions |= static_cast<uint8_t>(reader.causal(i) ? 1 << i : 0);
  }
}

namespace {

// Whether two blocks of memory overlap.
bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.data());
  const auto begin_b = reinterpret_cast<uintptr_t>(b.data());
  return begin_a < begin_b ? begin_b - begin_a < a.size() : begin_a - begin_b < b.size();
}

}  // namespace

Result<Session*> Session::create(const Model& model, const SessionOptions& options,
                                 std::span<std::byte> arena, Diagnostic* why) {
  clear(why);
  SessionLayout layout;
  const Status status = make_layout(model, options, layout, why);
  if (status != Status::kOk) return status;
  const uintptr_t misalignment = reinterpret_cast<uintptr_t>(arena.data()) % kArenaAlignment;
  if (misalignment != 0) {
    return refuse(why, Status::kInvalidArgument, "an arena must start at a multiple of 64 bytes",
                  "arena", 0, misalignment);
  }
  if (arena.data() == nullptr && !arena.empty()) {
    return refuse(why, Status::kInvalidArgument, "the arena is null", "arena");
  }
  if (arena.size() < layout.plan.total_bytes) {
    explain(why, "the arena is too small for these options", "arena", 0, arena.size(),
            layout.plan.total_bytes);
    if (why != nullptr) why->bytes_needed = layout.plan.total_bytes;
    return Status::kArenaTooSmall;
  }
  if (overlap(arena.first(layout.plan.total_bytes), model.file())) {
    return refuse(why, Status::kInvalidArgument, "the arena overlaps the model file", "arena");
  }
  const KernelSet* kernels = kernel_set(model.target());
  assert(kernels != nullptr);  // load chose it

  SessionState* state = std::construct_at(reinterpret_cast<SessionState*>(arena.data()), model,
                                          *kernels, options, layout);
  for (uint32_t i = 1; i < state->reader.inputs(); ++i) {
    std::construct_at(&state->other_input(i), InputState{layout.others[i - 1], {}});
  }
  for (SequenceRows& rows : state->rows_of_all()) std::construct_at(&rows);
  return static_cast<Session*>(state);
}

namespace {

// For models with a single function and input.
[[gnu::always_inline]] inline Status begin(Session* session, const Input& input, bool from_start,
                                           Diagnostic* why) {
  SessionState& state = SessionState::of(session);
  if (kFunctionsLinked && state.reader.inputs() != 1) {
    return refuse(why, Status::kInvalidArgument,
                  "the model has several inputs or functions: name one", "function");
  }
  return state.begin({0, {&input, 1}, from_start}, why);
}

// Checks the index of the function and, in builds with a single function, the number of inputs.
Status check_function(const SessionState& state, const Call& call, Diagnostic* why) {
  const uint32_t functions = state.reader.functions();
  if (call.function >= functions) {
    return refuse(why, Status::kInvalidArgument, "there is no such function", "function", 0,
                  call.function, functions - 1);
  }
  if (!kFunctionsLinked && call.inputs.size() != 1) {
    return refuse(why, Status::kInvalidArgument, "the function takes a different number of inputs",
                  "inputs", 0, call.inputs.size(), 1);
  }
  return Status::kOk;
}

Status begin(Session* session, const Call& call, Diagnostic* why) {
  SessionState& state = SessionState::of(session);
  const Status status = check_function(state, call, why);
  return status == Status::kOk ? state.begin(call, why) : status;
}

template <typename AnyBatch>
Result<Output> feed(Session* session, const AnyBatch& batch, bool from_start, Diagnostic* why) {
  Status status = begin(session, batch, from_start, why);
  if (status == Status::kOk) status = SessionState::of(session).run_ops(UINT32_MAX, why);
  if (status != Status::kOk) return status;
  return session->output();
}

Result<Output> feed(Session* session, const Call& call, Diagnostic* why) {
  Status status = begin(session, call, why);
  if (status == Status::kOk) status = SessionState::of(session).run_ops(UINT32_MAX, why);
  if (status != Status::kOk) return status;
  return session->output();
}

// Returns how many tokens of `width` floats fit in a span of `size`; 0 if they exceed 32 bits.
uint32_t tokens_in(size_t size, uint32_t width) {
  const size_t tokens = size / width;
  return tokens <= UINT32_MAX ? static_cast<uint32_t>(tokens) : 0;
}

}  // namespace

Result<Output> Session::run(const Batch& batch, Diagnostic* why) {
  return feed(this, batch, true, why);
}

Result<Output> Session::step(const Batch& batch, Diagnostic* why) {
  return feed(this, batch, false, why);
}

Result<Output> Session::step(std::span<const float> features, Diagnostic* why) {
  const uint32_t input_width = SessionState::of(this).model.input_features();
  const uint32_t width = input_width != 0 ? input_width : 1;
  return step(Batch{features, 1, tokens_in(features.size(), width), {}}, why);
}

Result<Output> Session::run(const TokenBatch& batch, Diagnostic* why) {
  return feed(this, batch, true, why);
}

Result<Output> Session::step(const TokenBatch& batch, Diagnostic* why) {
  return feed(this, batch, false, why);
}

Result<Output> Session::step(std::span<const TokenId> ids, Diagnostic* why) {
  return step(TokenBatch{ids, 1, tokens_in(ids.size(), 1), {}}, why);
}

Status Session::begin_run(const Batch& batch, Diagnostic* why) {
  return begin(this, batch, true, why);
}

Status Session::begin_run(const TokenBatch& batch, Diagnostic* why) {
  return begin(this, batch, true, why);
}

Status Session::begin_step(const Batch& batch, Diagnostic* why) {
  return begin(this, batch, false, why);
}

Status Session::begin_step(const TokenBatch& batch, Diagnostic* why) {
  return begin(this, batch, false, why);
}

Result<Output> Session::run(uint32_t function, std::span<const Input> inputs, Diagnostic* why) {
  return feed(this, Call{function, inputs, true}, why);
}

Result<Output> Session::step(uint32_t function, std::span<const Input> inputs, Diagnostic* why) {
  return feed(this, Call{function, inputs, false}, why);
}

Status Session::begin_run(uint32_t function, std::span<const Input> inputs, Diagnostic* why) {
  return begin(this, Call{function, inputs, true}, why);
}

Status Session::begin_step(uint32_t function, std::span<const Input> inputs, Diagnostic* why) {
  return begin(this, Call{function, inputs, false}, why);
}

Result<uint32_t> Session::rows_out(uint32_t function, std::span<const Input> inputs, bool is_run,
                                   Diagnostic* why) const {
  const SessionState& state = SessionState::of(this);
  const Call call = {function, inputs, is_run};
  Status status = check_function(state, call, why);
  if (status == Status::kOk) status = check_call(state, call, why);
  if (status != Status::kOk) return status;
  return state.rows_out(call);
}

// An op that was begun in slices is finished in slices, with the same tasks.
Result<uint32_t> Session::advance(uint64_t budget, Diagnostic* why) {
  SessionState& state = SessionState::of(this);
  if (state.ops_left == 0) {
    return refuse(why, Status::kInvalidArgument, "no step is in progress: begin one");
  }
  const bool is_all = budget == UINT64_MAX;
  Slice slice = {state.parallel, budget};
  state.parallel = slice.pool();
  Status status = Status::kOk;
  if (!is_all || state.tasks_done != 0) status = state.run_ops(is_all ? 1 : UINT32_MAX, why);
  state.parallel = slice.threads;
  if (is_all && status == Status::kOk) status = state.run_ops(UINT32_MAX, why);
  if (status != Status::kOk) return status;
  if (slice.needs == 0 || slice.room != budget) return state.ops_left;
  return refuse(why, Status::kInvalidArgument, "the op's smallest slice exceeds the budget", "op",
                state.reader.end_of_ops(state.function) - state.ops_left, budget, slice.needs);
}

bool Output::finite() const { return all_finite(data, size_t{rows} * features); }

Output Session::output() const { return SessionState::of(this).results(); }

Output Session::output(uint32_t function) const { return SessionState::of(this).results(function); }

void Session::cancel() {
  SessionState& state = SessionState::of(this);
  if (state.ops_left == 0) return;
  state.ops_left = 0;
  state.tasks_done = 0;
  state.has_output = false;
}

Status Session::rewind(uint32_t sequence, uint32_t positions, Diagnostic* why) {
  return SessionState::of(this).rewind_to(0, sequence, positions, why);
}

Status Session::rewind_input(uint32_t input, uint32_t sequence, uint32_t positions,
                             Diagnostic* why) {
  return SessionState::of(this).rewind_to(input, sequence, positions, why);
}

Status Session::copy_sequence(uint32_t from, uint32_t to, Diagnostic* why) {
  return SessionState::of(this).copy(from, to, why);
}

void Session::reset() {
  cancel();
  for (SequenceRows& rows : SessionState::of(this).rows_of_all()) {
    rows.positions = 0;
    rows.written = 0;
  }
}

uint32_t Session::positions(uint32_t sequence, uint32_t input) const {
  const SessionState& state = SessionState::of(this);
  assert(sequence < state.layout.sequences_max);
  assert(input < state.reader.inputs());
  return state.tokens_held(sequence, input);
}

}  // namespace arenite
