// SPDX-License-Identifier: Apache-2.0
// Creates a session in its arena and answers its public calls.
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
      parallel(options.parallel),
      profile(options.profile),
      hidden_states(options.hidden_states),
      outputs(options.outputs),
      layout(layout_in),
      packed_index(ModelAccess::packed_index(model_in)),
      causal(model_in.causal()),
      pooled(model_in.pooled()) {}

namespace {

// Whether two blocks of memory have a byte in common.
bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.data());
  const auto begin_b = reinterpret_cast<uintptr_t>(b.data());
  return begin_a < begin_b ? begin_b - begin_a < a.size() : begin_a - begin_b < b.size();
}

}  // namespace

Result<Session*> Session::create(const Model& model, const SessionOptions& options,
                                 std::span<std::byte> arena, Diagnostic* why) {
  clear(why);
  ArenaLayout layout;
  const Status status = make_layout(model, options, layout, why);
  if (status != Status::kOk) return status;
  const uintptr_t misalignment = reinterpret_cast<uintptr_t>(arena.data()) % kArenaAlignment;
  if (misalignment != 0) {
    return refuse(why, Status::kInvalidArgument, "an arena must start at a multiple of 64 bytes",
                  "arena", 0, misalignment);
  }
  if (arena.data() == nullptr || arena.size() < layout.plan.total_bytes) {
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
  for (SequenceRows& sequence : state->sequences()) std::construct_at(&sequence);
  return static_cast<Session*>(state);
}

namespace {

template <typename AnyBatch>
Status begin(Session* session, const AnyBatch& batch, bool from_start, Diagnostic* why) {
  return SessionState::of(session).begin(StepInput(batch), from_start, why);
}

template <typename AnyBatch>
Result<Output> feed(Session* session, const AnyBatch& batch, bool from_start, Diagnostic* why) {
  const Status status = begin(session, batch, from_start, why);
  if (status != Status::kOk) return status;
  SessionState::of(session).run_ops(UINT32_MAX);
  return session->output();
}

// As many tokens as a span holds of `width` numbers each.
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
  uint32_t tokens = tokens_in(features.size(), width);
  if constexpr (format::linked(format::OpKind::kPatches)) {
    if (SessionState::of(this).reader.reads_images()) tokens = 0;  // of an image
  }
  return step(Batch{features, 1, tokens, {}}, why);
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

Result<uint32_t> Session::advance(uint32_t ops_max, Diagnostic* why) {
  SessionState& state = SessionState::of(this);
  if (state.ops_left == 0) {
    return refuse(why, Status::kInvalidArgument, "no step is in progress: begin one");
  }
  state.run_ops(ops_max);
  return state.ops_left;
}

bool Output::finite() const { return all_finite(data, size_t{rows} * features); }

Output Session::output() const { return SessionState::of(this).results(); }

void Session::cancel() {
  SessionState& state = SessionState::of(this);
  if (state.ops_left == 0) return;
  state.ops_left = 0;
  state.output_rows = 0;
}

Status Session::rewind(uint32_t sequence, uint32_t positions, Diagnostic* why) {
  return SessionState::of(this).rewind_to(sequence, positions, why);
}

void Session::reset() {
  cancel();
  for (SequenceRows& sequence : SessionState::of(this).sequences()) {
    sequence.positions = 0;
    sequence.written = 0;
  }
}

uint32_t Session::positions(uint32_t sequence) const {
  const SessionState& state = SessionState::of(this);
  assert(sequence < state.sequences().size());
  return state.tokens_held(sequence);
}

}  // namespace arenite
