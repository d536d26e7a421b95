// SPDX-License-Identifier: Apache-2.0
// What a Session really is: the first bytes of its arena. How the runtime looks into a Model, where
// the parts of an arena lie, what a call brings, and the state itself.
#pragma once

#include <array>
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
#include "ops/convolution.h"
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

// The sizes are those of the first input.
struct ArenaLayout : InputSizes {
  uint32_t sequences_max = 0;
  bool all_rows = false;  // are given out where the model leaves it open
  uint8_t axes = 1;
  TensorType kv_type : 8 = TensorType::kF32;
  bool has_blocks = false;                  // some ops run over blocks of rows
  uint8_t areas[kAxesMax] = {};             // ModelReader::area_of, of each axis
  AxisRows rows_max = {};                   // of each axis in one call
  ArenaPlan plan = {};                      // the parts follow each other in its order
  size_t activation_offset[kAxesMax] = {};  // of each axis
  size_t threads_offset = 0;                // of each thread's own scratch
  size_t scratch_bytes_per_thread = 0;

  // Of the rows that all threads share.
  size_t scratch_offset() const { return plan.total_bytes - plan.scratch_bytes; }
};

// A layout, and the sizes of the inputs after the first.
struct SessionLayout : ArenaLayout {
  std::array<InputSizes, format::kLinkedInputsMax - 1> others;
};

// Places the parts of an arena for the sizes in `layout`, of a model with so many inputs;
// `positions` are the most rows of a sequence on each axis. Fails with kInvalidArgument if it is
// larger than the address space.
Status place_parts(const ArenaFormula& formula, uint32_t inputs, const AxisRows& positions,
                   uint32_t threads, ArenaLayout& layout, Diagnostic* why);

// Resolves the options' defaults and evaluates the file's formula.
// Fails with kInvalidArgument for options that the model cannot serve, and with kUnsupported for a
// type of cache that this build lacks.
Status make_layout(const Model& model, const SessionOptions& options, SessionLayout& layout,
                   Diagnostic* why);

struct SessionState;

// What a self-test gives as pairs, of which it has none: rows see all that masks show.
inline constexpr uint8_t kAllPairs[1] = {1};

// A call of a function, and what its inputs get, in their order.
struct Call {
  uint32_t function = 0;
  std::span<const Input> inputs;
  bool from_start = false;
};

// kOk if the session can take it: as Session::run and Session::step say. Changes nothing.
Status check_call(const SessionState& state, const Call& call, Diagnostic* why);

// What an input got in the current call; the caller's memory.
struct FedInput {
  TokenIds tokens;
  uint32_t stride = 0;  // StepRows
  bool says_outputs = false;
  const uint8_t* flags = nullptr;                // of tokens: which are visible, or which give rows
  [[no_unique_address]] LinkedPairs pairs = {};  // null: rows see all that masks show

  const uint8_t* visible() const { return says_outputs ? nullptr : flags; }
  const uint8_t* outputs() const { return says_outputs ? flags : nullptr; }
};

// The state of an input after the first, in the arena.
struct InputState {
  InputSizes sizes;
  FedInput fed;
};
static_assert(sizeof(InputState) <= kInputBytes);

// Followed in the arena by one InputState, in kInputBytes, for each input but the first, and by one
// SequenceRows per sequence, of each axis.
struct SessionState : Session {
  SessionState(const Model& model_in, const KernelSet& kernels_in, const SessionOptions& options,
               const ArenaLayout& layout_in);

  static SessionState& of(Session* session) { return *static_cast<SessionState*>(session); }
  static const SessionState& of(const Session* session) {
    return *static_cast<const SessionState*>(session);
  }

  std::byte* arena() { return reinterpret_cast<std::byte*>(this); }
  uint32_t axes() const { return format::kLinkedAxesMax == 1 ? 1 : uint32_t{layout.axes}; }
  // Of an input after the first.
  InputState& other_input(uint32_t index) {
    return *reinterpret_cast<InputState*>(arena() + kSessionBytes + (index - 1) * kInputBytes);
  }
  const InputState& other_input(uint32_t index) const {
    return const_cast<SessionState*>(this)->other_input(index);
  }
  const InputSizes& sizes_of(uint32_t input) const {
    if (kFunctionsLinked && input != 0) return other_input(input).sizes;
    return layout;
  }
  FedInput& fed_to(uint32_t input) {
    return kFunctionsLinked && input != 0 ? other_input(input).fed : fed;
  }
  InputTokens positions_max() const;  // of all inputs

  // The share of each sequence in the rows of all axes, one axis after the other.
  [[gnu::always_inline]] std::span<SequenceRows> rows_of_all() {
    const size_t inputs = (reader.inputs() - 1) * static_cast<size_t>(kInputBytes);
    return {reinterpret_cast<SequenceRows*>(arena() + kSessionBytes + inputs),
            size_t{axes()} * layout.sequences_max};
  }
  // Of one axis.
  [[gnu::always_inline]] std::span<SequenceRows> sequences(uint32_t axis) {
    return {rows_of_all().data() + size_t{axis} * layout.sequences_max, layout.sequences_max};
  }
  std::span<const SequenceRows> sequences(uint32_t axis) const {
    return const_cast<SessionState*>(this)->sequences(axis);
  }

  // Columns of an activation slot, for all its rows in this step. No data where the view is absent.
  Matrix activation(const format::ColumnView& view);

  // A tensor, where it lies in the file. No data where there is none.
  WeightView tensor(uint32_t index) const {
    return index == format::kAbsent ? WeightView{}
                                    : reader.weights(ModelAccess::packed_index(model), index);
  }
  // The same of the numbers of one of float32. Null where there is none.
  const float* floats(uint32_t index) const {
    if (index == format::kAbsent) return nullptr;
    return reinterpret_cast<const float*>(reader.data(ModelAccess::packed_index(model), index));
  }

  // Positions that cache `index` holds, and the keys and values of all sequences in it, one
  // sequence after the other.
  uint32_t cache_positions(uint32_t index) const;
  std::byte* cache(uint32_t index);
  // What a convolution keeps of sequences that go on; no data where it keeps nothing. `op` is one
  // of the model's, where it lies.
  RowHistory history(const format::OpView& op);
  // The compiler knows the answer in builds without caches in int8.
  bool keeps_int8() const {
    return linked(Need::kInt8Cache) && layout.kv_type == TensorType::kInt8;
  }

  // The axis whose rows an op goes along: the block's while it runs over one.
  uint32_t rows_of_block(uint32_t axis) const {
    return linked(Need::kBlocks) && block_axis != 0 ? block_axis : axis;
  }
  // The first row of the block: what rings need of other axes.
  uint32_t& block_row() { return sequences(block_axis)[0].written; }

  // Memory of an op while it runs.
  ScratchArea scratch() {
    return {arena() + layout.scratch_offset(), arena() + layout.threads_offset,
            layout.scratch_bytes_per_thread};
  }

  // The rows of an axis in the current step, and where tokens stand.
  StepRows step_rows(uint32_t axis) {
    if constexpr (!kAxesLinked) return {sequences(0), fed.stride, fed.visible()};
    if constexpr (!kFunctionsLinked) {
      return {sequences(axis), fed.stride, fed.visible(), reader.axes(), axis};
    }
    // Rows that are joined of several inputs have no tokens, and their positions are counted on.
    const uint32_t inputs = reader.inputs_of_axis(axis);
    uint32_t input = 0;
    while ((inputs >> input & 1) == 0) ++input;
    const FedInput& own = fed_to(input);
    return {sequences(axis), own.stride, own.visible(), reader.axes(), axis};
  }
  // The flags of tokens that give rows, on an axis of an input; null: the session says it.
  const uint8_t* outputs_on(uint32_t axis) {
    if constexpr (format::kLinkedAxesMax == 1) return nullptr;
    if (reader.kind_of_axis(axis) != AxisKind::kInput) return nullptr;
    return fed_to(reader.source_of_axis(axis)).outputs();
  }
  uint32_t tokens_held(uint32_t sequence, uint32_t input = 0) const {
    return sequences(reader.axis_of_input(input))[sequence].positions;
  }

  Status begin(const Call& call, Diagnostic* why);
  // Of the current step; where a Slice stands for the threads, until it has no more room. Fails
  // with kInvalidArgument where threads did not run the tasks; the step is then cancelled.
  Status run_ops(uint32_t ops_max, Diagnostic* why);
  uint32_t rows_out(const Call& call) const;
  Output results(uint32_t of) const;
  Output results() const { return results(kFunctionsLinked ? function : 0); }
  Status rewind_to(uint32_t input, uint32_t sequence, uint32_t positions, Diagnostic* why);
  Status copy(uint32_t from, uint32_t to, Diagnostic* why);
  // Whether a function can be fed step by step.
  bool causal(uint32_t of) const { return (causal_functions >> of & 1) != 0; }

  Model model;
  format::ModelReader reader;
  const KernelSet& kernels;
  CheckedThreads threads;
  ParallelFor parallel;  // those threads, or a slice of them, during a step
  ProfileHook profile;
  HiddenStateHook hidden_states;
  ArenaLayout layout;

  FedInput fed;                  // of the first input
  bool has_output = false;       // of the last call, or of this one once it ends
  uint8_t function = 0;          // of the last call
  uint8_t causal_functions = 0;  // bit set
  uint8_t block_axis = 0;        // of the block that ops run over; 0: over all rows
  uint32_t ops_left = 0;         // 0: no step is in progress
  uint32_t tasks_done = 0;       // of the next op by slices, plus 1; 0: it has not begun

 private:
  void place_rows(const Call& call);
  // Begins or goes on with the blocks that an op runs over. Leaves them after their last op: false
  // where there is another block, which ops_left then says.
  void enter_block(uint32_t op);
  bool leave_block(uint32_t op);
  uint32_t rows_of_call(const Input& input, uint32_t axis, uint32_t index);
  void show_hidden_states(uint32_t op_index);
  // The tokens that a sequence has of each input, with those of the current call or without.
  InputTokens tokens_of(uint32_t sequence, bool with_call) const;
  // Whether the convolutions of the function that takes an input can go on from so many tokens.
  bool holds_history(uint32_t input, uint32_t sequence, const InputTokens& tokens);
  // Rows of a sequence that come with an input become those of so many tokens.
  void keep(uint32_t input, uint32_t sequence, const InputTokens& tokens);
};
static_assert(sizeof(SessionState) <= kSessionBytes && sizeof(SequenceRows) <= kSequenceBytes);

// Runs op `index` over the rows of the current step.
void run_op(SessionState& state, uint32_t index);
// What comes before and after it where rows are of integers and the op takes floats.
void begin_op(SessionState& state, uint32_t index);
void end_op(SessionState& state, uint32_t index);

}  // namespace arenite
