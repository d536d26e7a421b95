// SPDX-License-Identifier: Apache-2.0
// Creates a session in its arena and answers its public calls.
#include "arenite/session.h"

#include <cassert>
#include <memory>

#include "ops/kv_cache.h"
#include "session/model_access.h"
#include "session/session_state.h"

namespace arenite {

SessionState::SessionState(const Model& model_in, const KernelSet& kernels_in,
                           const SessionOptions& options, const ArenaLayout& layout_in)
    : model(model_in),
      reader(ModelAccess::reader(model_in)),
      kernels(kernels_in),
      parallel(options.parallel),
      profile(options.profile),
      layout(layout_in),
      packed_index(ModelAccess::packed_index(model_in)),
      causal(model_in.causal()) {}

Result<Session*> Session::create(const Model& model, const SessionOptions& options,
                                 std::span<std::byte> arena, Diagnostic* why) {
  Diagnostic unused;
  Diagnostic& diagnostic = why != nullptr ? *why : unused;
  diagnostic = {};
  ArenaLayout layout;
  const Status status = make_layout(model, options, layout, diagnostic);
  if (status != Status::kOk) return status;
  const uintptr_t misalignment = reinterpret_cast<uintptr_t>(arena.data()) % kArenaAlignment;
  if (misalignment != 0) {
    diagnostic.reason = "an arena must start at a multiple of 64 bytes";
    diagnostic.field = "arena";
    diagnostic.found = misalignment;
    return Status::kInvalidArgument;
  }
  if (arena.data() == nullptr || arena.size() < layout.plan.total_bytes) {
    diagnostic.reason = "the arena is too small for these options";
    diagnostic.field = "arena";
    diagnostic.found = arena.size();
    diagnostic.expected = layout.plan.total_bytes;
    diagnostic.bytes_needed = layout.plan.total_bytes;
    return Status::kArenaTooSmall;
  }
  const KernelSet* kernels = kernel_set(model.target());
  assert(kernels != nullptr);  // load chose it

  SessionState* state = std::construct_at(reinterpret_cast<SessionState*>(arena.data()), model,
                                          *kernels, options, layout);
  for (SequenceRows& sequence : state->sequences()) std::construct_at(&sequence);
  for (uint32_t i = 0; i < state->reader.caches(); ++i) {
    const CacheShape shape = state->reader.cache(i);
    const size_t floats = KvCache::floats(kernels->packing, shape, layout.positions_max);
    for (uint32_t s = 0; s < layout.sequences_max; ++s) {
      KvCache(state->cache(i) + s * floats, kernels->packing, shape, layout.positions_max).clear();
    }
  }
  return static_cast<Session*>(state);
}

Result<Output> Session::run(const Batch& batch, Diagnostic* why) {
  Diagnostic unused;
  return SessionState::of(this).feed(batch, true, why != nullptr ? *why : unused);
}

Result<Output> Session::step(const Batch& batch, Diagnostic* why) {
  Diagnostic unused;
  return SessionState::of(this).feed(batch, false, why != nullptr ? *why : unused);
}

Result<Output> Session::step(std::span<const float> features, Diagnostic* why) {
  const format::ModelReader& reader = SessionState::of(this).reader;
  const size_t tokens = features.size() / reader.slot(reader.input_slot()).width;
  return step(Batch{features, 1, tokens <= UINT32_MAX ? static_cast<uint32_t>(tokens) : 0, {}},
              why);
}

Status Session::rewind(uint32_t sequence, uint32_t positions) {
  const std::span<SequenceRows> sequences = SessionState::of(this).sequences();
  if (sequence >= sequences.size() || positions > sequences[sequence].positions) {
    return Status::kInvalidArgument;
  }
  sequences[sequence].positions = positions;
  return Status::kOk;
}

void Session::reset() {
  for (SequenceRows& sequence : SessionState::of(this).sequences()) sequence.positions = 0;
}

uint32_t Session::positions(uint32_t sequence) const {
  const std::span<const SequenceRows> sequences = SessionState::of(this).sequences();
  assert(sequence < sequences.size());
  return sequences[sequence].positions;
}

}  // namespace arenite
