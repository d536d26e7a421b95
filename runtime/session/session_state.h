// SPDX-License-Identifier: Apache-2.0
// The state of a Session, at the start of its arena; also access to the parts of a Model, the
// layout of an arena, and the description of a call.
//
//     SessionState& state = SessionState::of(session);
//     Matrix rows = state.activation(view);  // [rows of this step, columns of the view]
//
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

// Layout of the arena. The inherited sizes are those of the first input.
struct ArenaLayout : InputSizes {
  uint32_t sequences_max = 0;
  bool all_rows = false;  // kAsked axes have all rows; else the last one per sequence
  uint8_t axes = 1;
  TensorType kv_type : 8 = TensorType::kF32;
  bool has_blocks = false;       // some ops run over blocks of rows
  uint8_t areas[kAxesMax] = {};  // ModelReader::area_of each axis
  AxisRows rows_max = {};        // rows of each axis in one call
  ArenaPlan plan = {};           // the parts are in the order of its members
  size_t threads_offset = 0;     // bytes; where the scratch of threads starts
  size_t scratch_bytes_per_thread = 0;

  // Offset of the rows of the first axis; those of the others follow.
  size_t activation_offset() const { return plan.session_bytes + plan.kv_cache_bytes; }
  // Offset of the scratch that all threads share.
  size_t scratch_offset() const { return plan.total_bytes - plan.scratch_bytes; }
};

// The layout and the sizes of the inputs after the first.
struct SessionLayout : ArenaLayout {
  std::array<InputSizes, format::kLinkedInputsMax - 1> others;
};

// Places the parts of an arena for the sizes in `layout`, for a model with `inputs` inputs;
// `positions` are the most rows of a sequence on each axis. Fails with kInvalidArgument if the
// arena exceeds the address space.
Status place_parts(const ArenaFormula& formula, uint32_t inputs, const AxisRows& positions,
                   uint32_t threads, ArenaLayout& layout, Diagnostic* why);

// Resolves the defaults of the options and evaluates the formula of the file. Fails with
// kInvalidArgument if the model does not support the options, and with kUnsupported for a cache
// type that this build lacks.
Status make_layout(const Model& model, const SessionOptions& options, SessionLayout& layout,
                   Diagnostic* why);

struct SessionState;

// The pair mask of a self-test, which stores none: its tokens see all keys that the masks show.
inline constexpr uint8_t kAllPairs[1] = {1};

// A call of a function. `inputs` are in the order of the function's inputs.
struct Call {
  uint32_t function = 0;
  std::span<const Input> inputs;
  bool from_start = false;
  bool is_self_test = false;  // features are format::self_test_feature_rows, again and again
};

// Returns kOk if the session accepts the call, else the errors of Session::run and Session::step.
// Changes nothing.
Status check_call(const SessionState& state, const Call& call, Diagnostic* why);

// Data of an input in the current call. Views the caller's memory.
struct FedInput {
  TokenIds tokens;
  uint32_t stride = 0;  // StepRows
  bool says_outputs = false;
  const uint8_t* flags = nullptr;                // per token: visible, or yields a row
  [[no_unique_address]] LinkedPairs pairs = {};  // null: rows see all that masks show

  const uint8_t* visible() const { return says_outputs ? nullptr : flags; }
  const uint8_t* outputs() const { return says_outputs ? flags : nullptr; }
};

// State in the arena of one input after the first.
struct InputState {
  InputSizes sizes;
  FedInput fed;
};
static_assert(sizeof(InputState) <= kInputBytes);

// The session in its arena. It is followed by one InputState, in kInputBytes, for each input after
// the first, and by [axes, sequences_max] SequenceRows.
struct SessionState : Session {
  SessionState(const Model& model_in, const KernelSet& kernels_in, const SessionOptions& options,
               const ArenaLayout& layout_in);

  static SessionState& of(Session* session) { return *static_cast<SessionState*>(session); }
  static const SessionState& of(const Session* session) {
    return *static_cast<const SessionState*>(session);
  }

  std::byte* arena() { return reinterpret_cast<std::byte*>(this); }
  uint32_t axes() const { return format::kLinkedAxesMax == 1 ? 1 : uint32_t{layout.axes}; }
  // REQUIRES: index != 0.
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
  InputTokens positions_max() const;  // by input

  // Returns the rows of all axes, [axes, sequences_max].
  [[gnu::always_inline]] std::span<SequenceRows> rows_of_all() {
    const size_t inputs = (reader.inputs() - 1) * static_cast<size_t>(kInputBytes);
    return {reinterpret_cast<SequenceRows*>(arena() + kSessionBytes + inputs),
            size_t{axes()} * layout.sequences_max};
  }
  // Returns the rows of one axis, [sequences_max].
  [[gnu::always_inline]] std::span<SequenceRows> sequences(uint32_t axis) {
    return {rows_of_all().data() + size_t{axis} * layout.sequences_max, layout.sequences_max};
  }
  std::span<const SequenceRows> sequences(uint32_t axis) const {
    return const_cast<SessionState*>(this)->sequences(axis);
  }

  // Returns the columns of an activation slot, for all its rows in this step; no data if the view
  // is absent.
  Matrix activation(const format::ColumnView& view);
  // Where the rows of an axis begin.
  std::byte* activations(uint32_t axis);

  // Returns a view of a tensor in the file; no data if it is absent.
  WeightView tensor(uint32_t index) const {
    return index == format::kAbsent ? WeightView{}
                                    : reader.weights(ModelAccess::packed_index(model), index);
  }
  // Returns the elements of a float32 tensor; null if it is absent.
  const float* floats(uint32_t index) const {
    if (index == format::kAbsent) return nullptr;
    return reinterpret_cast<const float*>(reader.data(ModelAccess::packed_index(model), index));
  }

  // Returns the positions of cache `index`, and its keys and values, one sequence after the other.
  uint32_t cache_positions(uint32_t index) const;
  std::byte* cache(uint32_t index);
  // Returns the past rows that a convolution keeps of its sequences; no data if it keeps none. `op`
  // is a reference into the model's list of ops.
  RowHistory history(const format::OpView& op);
  // The result is a compile-time constant in builds without int8 caches.
  bool keeps_int8() const {
    return linked(Need::kInt8Cache) && layout.kv_type == TensorType::kInt8;
  }

  // Returns the axis of the block while ops run over a block, else `axis`.
  uint32_t rows_of_block(uint32_t axis) const {
    return linked(Need::kBlocks) && block_axis != 0 ? block_axis : axis;
  }
  // Returns the first row of the current block, counted on the source axis. A kBlocks axis has no
  // ring buffer, so its `written` field is free for this.
  uint32_t& block_row() { return sequences(block_axis)[0].written; }

  // Returns the work space of the running op.
  ScratchArea scratch() {
    return {arena() + layout.scratch_offset(), arena() + layout.threads_offset,
            layout.scratch_bytes_per_thread};
  }

  // Returns the rows of an axis in the current step, and the location of the tokens.
  StepRows step_rows(uint32_t axis) {
    if constexpr (!kAxesLinked) return {sequences(0), fed.stride, fed.visible()};
    if constexpr (!kFunctionsLinked) {
      return {sequences(axis), fed.stride, fed.visible(), reader.axes(), axis};
    }
    // Rows concatenated from several inputs have no tokens; their positions are consecutive.
    const uint32_t inputs = reader.inputs_of_axis(axis);
    uint32_t input = 0;
    while ((inputs >> input & 1) == 0) ++input;
    const FedInput& own = fed_to(input);
    return {sequences(axis), own.stride, own.visible(), reader.axes(), axis};
  }
  // Returns flags of the tokens on an input's axis that yield output rows; null for the session's
  // choice.
  const uint8_t* outputs_on(uint32_t axis) {
    if constexpr (format::kLinkedAxesMax == 1) return nullptr;
    if (reader.kind_of_axis(axis) != AxisKind::kInput) return nullptr;
    return fed_to(reader.source_of_axis(axis)).outputs();
  }
  uint32_t tokens_held(uint32_t sequence, uint32_t input = 0) const {
    return sequences(reader.axis_of_input(input))[sequence].positions;
  }

  Status begin(const Call& call, Diagnostic* why);
  // Runs up to `ops_max` ops of the current step; with a Slice as the pool, until its budget is
  // used up. Fails with kInvalidArgument if threads did not run the tasks, and then cancels the
  // step.
  Status run_ops(uint32_t ops_max, Diagnostic* why);
  uint32_t rows_out(const Call& call) const;
  Output results(uint32_t of) const;
  Output results() const { return results(kFunctionsLinked ? function : 0); }
  Status rewind_to(uint32_t input, uint32_t sequence, uint32_t positions, Diagnostic* why);
  Status copy(uint32_t from, uint32_t to, Diagnostic* why);
  // Whether a function can run in several steps.
  bool causal(uint32_t of) const { return (causal_functions >> of & 1) != 0; }

  Model model;
  format::ModelReader reader;
  const KernelSet& kernels;
  CheckedThreads threads;
  ParallelFor parallel;  // `threads`, or a slice of them, during a step
  ProfileHook profile;
  HiddenStateHook hidden_states;
  ArenaLayout layout;

  FedInput fed;                  // the first input
  bool has_output = false;       // the last call, or the current one once complete, has results
  uint8_t function = 0;          // of the last call
  uint8_t causal_functions = 0;  // bit set
  uint8_t block_axis = 0;        // axis of the block that ops run over; 0: they run over all rows
  uint32_t ops_left = 0;         // 0: no step is in progress
  uint32_t tasks_done = 0;       // 1 + tasks of the next op that slices have done; 0: not begun

 private:
  void place_rows(const Call& call);
  // enter_block enters the first or next block that an op runs over. leave_block leaves a block
  // after its last op, and returns false and resets ops_left if another block follows.
  void enter_block(uint32_t op);
  bool leave_block(uint32_t op);
  uint32_t rows_of_call(const Input& input, uint32_t axis, uint32_t index);
  void show_hidden_states(uint32_t op_index);
  // Returns the tokens of a sequence by input, with or without those of the current call.
  InputTokens tokens_of(uint32_t sequence, bool with_call) const;
  // Whether the convolutions of the input's function can continue after `tokens`.
  bool holds_history(uint32_t input, uint32_t sequence, const InputTokens& tokens);
  // Truncates the rows of a sequence on all axes of an input to those of `tokens`.
  void keep(uint32_t input, uint32_t sequence, const InputTokens& tokens);
};
static_assert(sizeof(SessionState) <= kSessionBytes && sizeof(SequenceRows) <= kSequenceBytes);

// Runs op `index` over the rows of the current step.
void run_op(SessionState& state, uint32_t index);
// Convert rows before and after an op in builds with integer rows, if the op takes floats.
void begin_op(SessionState& state, uint32_t index);
void end_op(SessionState& state, uint32_t index);

}  // namespace arenite
