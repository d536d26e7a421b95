// SPDX-License-Identifier: Apache-2.0
// What a Session really is: the first bytes of its arena.
#pragma once

#include "arenite/session.h"
#include "core/arena_formula.h"
#include "core/matrix.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"
#include "ops/attention.h"
#include "session/plan.h"

namespace arenite {

// Followed in the arena by one SequenceRows per sequence.
struct SessionState : Session {
  SessionState(const Model& model_in, const KernelSet& kernels_in, const SessionOptions& options,
               const ArenaLayout& layout_in);

  static SessionState& of(Session* session) { return *static_cast<SessionState*>(session); }
  static const SessionState& of(const Session* session) {
    return *static_cast<const SessionState*>(session);
  }

  std::byte* arena() { return reinterpret_cast<std::byte*>(this); }
  std::span<SequenceRows> sequences() {
    return {reinterpret_cast<SequenceRows*>(arena() + kSessionBytes), layout.sequences_max};
  }
  std::span<const SequenceRows> sequences() const {
    return const_cast<SessionState*>(this)->sequences();
  }

  // Columns of an activation slot, for the first `rows` tokens. No data where the view is absent.
  Matrix activation(const format::ColumnView& view, uint32_t rows);

  // The keys and values of cache `index`: those of all sequences, one after the other.
  float* cache(uint32_t index);

  Result<Output> feed(const Batch& batch, bool from_start, Diagnostic& why);

  Model model;
  format::ModelReader reader;
  const KernelSet& kernels;
  ParallelFor parallel;
  ProfileHook profile;
  ArenaLayout layout;
  uint32_t packed_index;
  bool causal;

 private:
  Status check_batch(const Batch& batch, bool from_start, Diagnostic& why) const;
  void place_rows(const Batch& batch, bool from_start);
  void run_op(uint32_t index, uint32_t rows);
};
static_assert(sizeof(SessionState) <= kSessionBytes && sizeof(SequenceRows) <= kSequenceBytes);

}  // namespace arenite
