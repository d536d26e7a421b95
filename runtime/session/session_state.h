// SPDX-License-Identifier: Apache-2.0
// What a Session really is: the first bytes of its arena. How the runtime looks into a Model, where
// the parts of an arena lie, what a call brings, and the state itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/arena_formula.h"
#include "arenite/model.h"
#include "arenite/session.h"
#include "arenite/status.h"
#include "core/views.h"
#include "format/reader.h"
#include "kernels/kernel_set.h"
#include "ops/row_ops.h"
#include "ops/rows.h"

namespace arenite {

struct ModelAccess {
  static format::ModelReader reader(const Model& model) { return format::ModelReader(model.file_); }
  static uint32_t packed_index(const Model& model) { return model.packed_index_; }
  static Model make(std::span<const std::byte> file, uint32_t packed_index, Target target) {
    Model model;
    model.file_ = file;
    model.packed_index_ = packed_index;
    model.target_ = target;
    return model;
  }
};

struct ArenaLayout {
  uint32_t positions_max = 0;
  uint32_t tokens_max = 0;
  uint32_t sequences_max = 0;
  uint32_t outputs_max = 0;
  [[no_unique_address]] PrefixRows prefix_rows = {};  // that each sequence has beside its tokens
  // The parts follow each other: session, caches, activations, scratch.
  size_t kv_cache_offset = 0;
  size_t activation_offset = 0;  // of the slots with a row for each token
  size_t output_offset = 0;      // of those with a row for each output
  size_t scratch_offset = 0;     // of the rows that all threads share
  size_t threads_offset = 0;     // of each thread's own scratch
  size_t scratch_bytes_per_thread = 0;
  TensorType kv_type = TensorType::kF32;
  ArenaPlan plan = {};

  // In one call.
  uint32_t rows_max() const { return arenite::rows_max(prefix_rows, tokens_max, sequences_max); }
};

// The sizes that the arena formula is evaluated for (evaluate_rows): prefixes are counted in.
SessionSizes sizes_of(const ArenaLayout& layout, uint32_t threads);

// Places the parts of an arena for the sizes in `layout`.
// Fails with kInvalidArgument if it is larger than the address space.
Status place_parts(const ArenaFormula& formula, uint32_t threads, ArenaLayout& layout,
                   Diagnostic* why);

// Resolves the options' defaults and evaluates the file's formula.
// Fails with kInvalidArgument for options that the model cannot serve, and with kUnsupported for a
// type of cache that this build lacks.
Status make_layout(const Model& model, const SessionOptions& options, ArenaLayout& layout,
                   Diagnostic* why);

struct SessionState;

// Features or tokens, one of the two, in the forms of Batch and TokenBatch.
struct StepInput {
  explicit StepInput(const Batch& batch);
  explicit StepInput(const TokenBatch& batch);

  bool is_tokens = false;
  const float* features = nullptr;
  const TokenId* ids = nullptr;
  std::span<const uint8_t> types;
  size_t size = 0;  // floats or ids
  uint32_t sequences = 0;
  uint32_t tokens = 0;
  std::span<const uint32_t> lengths;
  std::span<const uint8_t> visible;
  bool back_to_back = false;

  // Rows that a sequence gets: its length, or the ones in its mask.
  uint32_t tokens_of(uint32_t sequence) const;
  // Positions that a sequence spans: its rows, and the gaps between them.
  uint32_t positions_of(uint32_t sequence) const;
};

// kOk if the session can take it: as Session::run and Session::step say. Changes nothing.
Status check_input(const SessionState& state, const StepInput& input, bool from_start,
                   Diagnostic* why);

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
