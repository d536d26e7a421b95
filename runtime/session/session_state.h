// SPDX-License-Identifier: Apache-2.0
// What a Session really is: the first bytes of its arena.
#pragma once

#include "arenite/arena_formula.h"
#include "arenite/session.h"
#include "core/matrix.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"
#include "ops/embedding.h"
#include "ops/rows.h"
#include "session/plan.h"
#include "session/step_input.h"

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

  // Columns of an activation slot, for all its rows in this step. No data where the view is absent.
  Matrix activation(const format::ColumnView& view);

  // A tensor, where it lies in the file. No data where there is none.
  WeightView tensor(uint32_t index) const {
    return index == format::kAbsent ? WeightView{} : reader.weights(packed_index, index);
  }

  // Positions that cache `index` holds, and the keys and values of all sequences in it, one
  // sequence after the other.
  uint32_t cache_positions(uint32_t index) const;
  std::byte* cache(uint32_t index);
  // The compiler knows the answer in builds without caches in int8.
  bool keeps_int8() const {
    return linked(Need::kInt8Cache) && layout.kv_type == TensorType::kInt8;
  }

  // Memory of an op while it runs.
  ScratchArea scratch() {
    return {arena() + layout.scratch_offset, arena() + layout.threads_offset,
            layout.scratch_bytes_per_thread};
  }

  // The rows of the current step, and where their tokens stand.
  StepRows step_rows() const { return {sequences(), stride, visible, layout.prefix_rows}; }
  // What a sequence holds, without its prefix.
  uint32_t tokens_held(uint32_t sequence) const {
    const uint32_t rows = sequences()[sequence].positions;
    return rows == 0 ? 0 : rows - layout.prefix_rows;
  }

  Status begin(const StepInput& input, bool from_start, Diagnostic* why);
  void run_ops(uint32_t ops_max);  // of the current step
  Output results() const;
  Status rewind_to(uint32_t sequence, uint32_t positions, Diagnostic* why);

  Model model;
  format::ModelReader reader;
  const KernelSet& kernels;
  ParallelFor parallel;
  ProfileHook profile;
  HiddenStateHook hidden_states;
  Outputs outputs;
  ArenaLayout layout;
  uint32_t packed_index;
  bool causal;
  bool pooled;

  // Of the current step; the caller's memory.
  TokenIds tokens;
  size_t stride = 0;  // StepRows
  const uint8_t* visible = nullptr;
  uint32_t rows = 0;  // tokens
  uint32_t output_rows = 0;
  uint32_t ops_left = 0;  // 0: no step is in progress

 private:
  void place_rows(const StepInput& input, bool from_start);
  void show_hidden_states(uint32_t op_index);
};
static_assert(sizeof(SessionState) <= kSessionBytes && sizeof(SequenceRows) <= kSequenceBytes);

// Runs op `index` over the rows of the current step.
void run_op(SessionState& state, uint32_t index);

}  // namespace arenite
