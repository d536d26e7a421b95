// SPDX-License-Identifier: Apache-2.0
// Runs a step: checks the tokens, assigns rows to them and runs the ops, at once or in slices. All
// checks (step_input.cc) precede the first write.
#include <algorithm>
#include <cstring>

#include "core/message.h"
#include "ops/integer_rows.h"
#include "ops/row_ops.h"
#include "session/session_state.h"

namespace arenite {

using format::OpKind;

namespace {

Status refuse_in_progress(Diagnostic* why) {
  return refuse(why, Status::kInvalidArgument, "a step is in progress: advance or cancel it");
}

Status refuse_threads(const CheckedThreads& threads, Diagnostic* why) {
  if (threads.fault == CheckedThreads::kTasksMissing) {
    return refuse(why, Status::kInvalidArgument, "the pool did not run each task once",
                  "options.parallel.run");
  }
  return refuse(why, Status::kInvalidArgument,
                "the pool ran a task on a thread that does not exist", "options.parallel.threads",
                0, threads.fault, threads.threads - 1);
}

// Checks that a sequence exists and that no step is in progress.
Status check_sequence(const SessionState& state, uint32_t sequence, Diagnostic* why) {
  if (state.ops_left != 0) return refuse_in_progress(why);
  if (sequence < state.layout.sequences_max) return Status::kOk;
  return refuse(why, Status::kInvalidArgument, "there is no such sequence", "sequence", 0, sequence,
                state.layout.sequences_max - 1);
}

}  // namespace

std::byte* SessionState::activations(uint32_t axis) {
  std::byte* begin = arena() + layout.activation_offset();
  for (uint32_t i = 0; i < axis; ++i) {
    begin += size_t{layout.rows_max[i]} *
             reader.formula(ModelAccess::packed_index(model)).axes[i].activations;
  }
  return begin;
}

Matrix SessionState::activation(const format::ColumnView& view) {
  if (view.width == 0) return {};
  const format::SlotView& slot = reader.slot(view.slot);
  const uint32_t axis = reader.axis_of(view);
  const uint32_t area = linked(Need::kJoin) ? layout.areas[axis] : axis;
  auto* const data = reinterpret_cast<float*>(activations(area));
  const SequenceRows& last = sequences(rows_of_block(axis)).back();
  Matrix matrix = {data + size_t{layout.rows_max[area]} * slot.offset + view.column,
                   last.row_begin + last.rows, view.width, slot.width};
  if (rows_of_block(axis) != axis) matrix.data = matrix.row(block_row());
  return matrix;
}

uint32_t SessionState::cache_positions(uint32_t index) const {
  const uint32_t axis = reader.axis_of_cache(index);
  return arenite::cache_positions(reader.cache(index).lookback, kernels.f32.packing.nr,
                                  reader.rows_on(axis, positions_max()), layout.rows_max[axis]);
}

std::byte* SessionState::cache(uint32_t index) {
  std::byte* data = arena() + layout.plan.session_bytes;
  size_t bytes = 0;  // of cache i, often equal to the next one
  for (uint32_t i = 0; i < index; ++i) {
    const format::CacheView& own = reader.cache(i);
    if (i == 0 || own != reader.cache(i - 1)) {
      bytes = layout.sequences_max *
              kernels.layout_of_cache(keeps_int8(), own.shape, cache_positions(i)).bytes();
    }
    data += bytes;
  }
  return data;
}

RowHistory SessionState::history(const format::OpView& op) {
  const auto of_op = [&](const format::OpView& other) {
    return reader.function_of_op(static_cast<uint32_t>(&other - &reader.op(0)));
  };
  if (!kWindowsLinked || !causal(of_op(op))) return {};
  const uint32_t rows = reader.windows_of(op).lookback();
  if (rows == 0) return {};
  const Checked bytes =
      history_bytes(reader.formula(ModelAccess::packed_index(model)), layout.sequences_max);
  std::byte* data = arena() + layout.activation_offset() - static_cast<size_t>(bytes.value());
  for (const format::OpView* before = &reader.op(0); before != &op; ++before) {
    if (kFunctionsLinked && !causal(of_op(*before))) continue;
    data += layout.sequences_max * static_cast<size_t>(reader.history_bytes(*before).value());
  }
  return {data, rows, op.views[format::kInput].width};
}

InputTokens SessionState::positions_max() const {
  InputTokens tokens = layout.positions_max;
  for (uint32_t i = 1; i < reader.inputs(); ++i) tokens.of[i] = sizes_of(i).positions_max;
  return tokens;
}

InputTokens SessionState::tokens_of(uint32_t sequence, bool with_call) const {
  InputTokens tokens;
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    const SequenceRows& own = sequences(reader.axis_of_input(i))[sequence];
    tokens.of[i] = own.positions + (with_call ? own.rows : 0);
  }
  return tokens;
}

// Returns the rows of sequence `index` on a derived axis. The rows of its source axes have already
// been placed.
uint32_t SessionState::rows_of_call(const Input& input, uint32_t axis, uint32_t index) {
  const SequenceRows& source = sequences(reader.source_of_axis(axis))[index];
  if (reader.is_of_blocks(axis)) return 0;  // until a block begins
  if (!kAxesLinked || reader.kind_of_axis(axis) == AxisKind::kAsked) {
    if (!input.outputs.empty()) return index < input.sequences ? input.outputs_of(index) : 0;
    return layout.all_rows ? source.rows : uint32_t{source.rows != 0};
  }
  // A sequence has tokens in all inputs of the axis or in none.
  uint32_t first = 0;
  for (uint32_t of = reader.inputs_of_axis(axis); (of & 1) == 0; of >>= 1) ++first;
  if (sequences(reader.axis_of_input(first))[index].rows == 0) return 0;
  return reader.rows_on(axis, tokens_of(index, true)) - sequences(axis)[index].positions;
}

namespace {

// Copies features to their rows, so that kernels never read beyond the caller's memory, which may
// be the result of the last call.
void take_input(SessionState& state, const Input& input, uint32_t index, bool is_self_test) {
  const format::ModelReader& reader = state.reader;
  state.fed_to(index) = {{input.ids, input.types.empty() ? nullptr : input.types.data()},
                         input.back_to_back ? 0 : input.tokens,
                         !input.outputs.empty(),
                         input.visible.empty() ? nullptr : input.visible.data(),
                         {}};
  if (!input.outputs.empty()) state.fed_to(index).flags = input.outputs.data();
  if constexpr (linked(Need::kPairMask)) {
    if (!input.pairs.empty()) state.fed_to(index).pairs = input.pairs.data();
  }
  if (input.is_tokens) return;
  const StepRows rows = state.step_rows(reader.axis_of_input(index));
  const uint32_t features = reader.slot(reader.input_slot(index)).width;
  const Matrix to = state.activation({reader.input_slot(index), 0, features});
  for (uint32_t row = 0; row < to.rows; ++row) {
    size_t from = place_of_row(rows, row).token;
    if (is_self_test) from %= format::self_test_feature_rows(reader, index, input.tokens);
    std::memmove(to.row(row), input.features + from * features, features * sizeof(float));
  }
  build_rows::from_floats(to);
}

}  // namespace

// Axes whose inputs the function does not take get no rows.
void SessionState::place_rows(const Call& call) {
  if (call.from_start) reset();
  if constexpr (linked(Need::kBlocks)) block_axis = 0;
  if constexpr (kFunctionsLinked) function = static_cast<uint8_t>(call.function);
  uint32_t place[kInputsMax] = {};  // by input: index in the call
  for (uint32_t i = 1; i < reader.inputs(); ++i) {
    place[i] = place[i - 1] + (reader.takes(function, i - 1) ? 1 : 0);
  }
  for (uint32_t axis = 0; axis < axes(); ++axis) {
    const bool is_input = kAxesLinked ? reader.kind_of_axis(axis) == AxisKind::kInput : axis == 0;
    // If requested rows come from an input's axis, that input's batch selects them.
    uint32_t from = axis;
    if (reader.kind_of_axis(axis) == AxisKind::kAsked) from = reader.source_of_axis(axis);
    const bool is_of_input = !kAxesLinked || reader.kind_of_axis(from) == AxisKind::kInput;
    const bool is_own =
        !kFunctionsLinked || (reader.inputs_of_axis(axis) & ~reader.function(function).inputs) == 0;
    const Input& input =
        call.inputs[is_of_input && is_own ? place[reader.source_of_axis(from)] : 0];
    uint32_t begin = 0;
    for (uint32_t i = 0; i < layout.sequences_max; ++i) {
      SequenceRows& own = sequences(axis)[i];
      own.row_begin = begin;
      own.rows = !is_own               ? 0
                 : !is_input           ? rows_of_call(input, axis, i)
                 : i < input.sequences ? input.tokens_of(i)
                                       : 0;
      begin += own.rows;
      // Updated before the ops run, since even a cancelled step overwrites the oldest positions of
      // a ring.
      own.written = std::max(own.written, own.positions + own.rows);
    }
  }
  has_output = true;
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    if (reader.takes(function, i)) take_input(*this, call.inputs[place[i]], i, call.is_self_test);
  }
}

void SessionState::show_hidden_states(uint32_t op_index) {
  for (uint32_t i = 0; i < reader.hidden_states(); ++i) {
    const format::HiddenStateView& state = reader.hidden_state(i);
    if (state.op != op_index) continue;
    const Matrix matrix = activation(state.view);
    build_rows::to_floats(matrix);
    hidden_states.state(hidden_states.context, i, matrix.data, matrix.rows, matrix.columns);
    build_rows::from_floats(matrix);
  }
}

Status SessionState::begin(const Call& call, Diagnostic* why) {
  if (ops_left != 0) return refuse_in_progress(why);
  const Status status = check_call(*this, call, why);
  if (status != Status::kOk) return status;
  place_rows(call);
  threads.fault = 0;
  parallel = threads.checked();
  ops_left = reader.end_of_ops(function) - reader.first_op(function);
  return Status::kOk;
}

// Each sequence gets the part of its rows that lies within the block.
void SessionState::enter_block(uint32_t op) {
  if (block_axis == 0) {
    if (!layout.has_blocks) return;
    block_axis = static_cast<uint8_t>(reader.blocks_of(reader.op(op)));
    if (block_axis == 0) return;
    block_row() = 0;
  } else if (op == reader.run_of_blocks(op).first) {
    block_row() += layout.rows_max[block_axis];
  } else {
    return;
  }
  const std::span<const SequenceRows> whole = sequences(reader.source_of_axis(block_axis));
  const std::span<SequenceRows> own = sequences(block_axis);
  const uint32_t begin = block_row();
  const uint32_t left = whole.back().row_begin + whole.back().rows - begin;
  const uint32_t end = begin + std::min(left, layout.rows_max[block_axis]);
  for (size_t i = 0; i < own.size(); ++i) {
    const uint32_t from = std::clamp(whole[i].row_begin, begin, end);
    const uint32_t to = std::clamp(whole[i].row_begin + whole[i].rows, begin, end);
    own[i].row_begin = from - begin;
    own[i].rows = to - from;
    own[i].positions = whole[i].positions + (to != from ? from - whole[i].row_begin : 0);
  }
}

bool SessionState::leave_block(uint32_t op) {
  if (block_axis == 0) return true;
  const format::OpRange run = reader.run_of_blocks(op);
  if (op != run.last) return true;
  const SequenceRows& last = sequences(reader.source_of_axis(block_axis)).back();
  const bool is_last = last.row_begin + last.rows - block_row() <= layout.rows_max[block_axis];
  if (is_last) {
    block_axis = 0;
  } else {
    ops_left += op - run.first;
  }
  return is_last;
}

Status SessionState::run_ops(uint32_t ops_max, Diagnostic* why) {
  const uint32_t end = reader.end_of_ops(function);
  for (; ops_max != 0 && ops_left != 0; --ops_max) {
    const uint32_t index = end - ops_left;
    Slice* const slice = Slice::of(parallel);
    if (tasks_done == 0) {
      if constexpr (linked(Need::kBlocks)) enter_block(index);
      if (profile.op_begins != nullptr) profile.op_begins(profile.context, index);
      tasks_done = 1;
      if constexpr (kRowsAreIntegers) begin_op(*this, index);
    }
    if (slice != nullptr) slice->begin_op(tasks_done - 1);
    run_op(*this, index);
    if (threads.fault != 0) {
      cancel();
      return refuse_threads(threads, why);
    }
    if (slice != nullptr && slice->needs != 0) {
      tasks_done = slice->done + 1;
      return Status::kOk;
    }
    tasks_done = 0;
    if constexpr (kRowsAreIntegers) end_op(*this, index);
    if (profile.op_ends != nullptr) profile.op_ends(profile.context, index);
    if (linked(Need::kBlocks) && !leave_block(index)) continue;
    if (hidden_states.state != nullptr) show_hidden_states(index);
    if (--ops_left != 0) continue;
    if constexpr (kRowsAreIntegers) {
      const uint32_t slot = reader.output_slot(kFunctionsLinked ? function : 0);
      integers::to_floats(activation({slot, 0, reader.slot(slot).width}));
    }
    for (SequenceRows& rows : rows_of_all()) rows.positions += rows.rows;
  }
  return Status::kOk;
}

uint32_t SessionState::rows_out(const Call& call) const {
  const uint32_t axis = reader.axis_of({reader.output_slot(call.function), 0, 0});
  const bool is_asked = format::kLinkedAxesMax > 1 && reader.kind_of_axis(axis) == AxisKind::kAsked;
  const uint32_t from = is_asked ? reader.source_of_axis(axis) : axis;
  uint32_t total = 0;
  for (uint32_t i = 0; i < call.inputs[0].sequences; ++i) {
    InputTokens tokens;
    if (!call.from_start) tokens = tokens_of(i, false);
    const Input* says_outputs = nullptr;
    const Input* input = call.inputs.data();
    for (uint32_t of = 0; of < reader.inputs(); ++of) {
      if (!reader.takes(call.function, of)) continue;
      tokens.of[of] += input->tokens_of(i);
      if (!input->outputs.empty()) says_outputs = input;
      ++input;
    }
    if (call.inputs[0].tokens_of(i) == 0) continue;
    const uint32_t held = call.from_start ? 0 : sequences(from)[i].positions;
    const uint32_t rows = reader.rows_on(from, tokens) - held;
    total += !is_asked                 ? rows
             : says_outputs != nullptr ? says_outputs->outputs_of(i)
             : layout.all_rows         ? rows
                                       : uint32_t{rows != 0};
  }
  return total;
}

Output SessionState::results(uint32_t of) const {
  if (ops_left != 0 || !has_output || (kFunctionsLinked && of != function)) return {};
  const uint32_t index = reader.output_slot(kFunctionsLinked ? of : 0);
  const Matrix output =
      const_cast<SessionState*>(this)->activation({index, 0, reader.slot(index).width});
  return {output.data, output.rows, output.columns};
}

bool SessionState::holds_history(uint32_t input, uint32_t sequence, const InputTokens& tokens) {
  if constexpr (kWindowsLinked) {
    const uint32_t of = reader.function_of_input(input);
    for (uint32_t i = reader.first_op(of); i < reader.end_of_ops(of); ++i) {
      if (!reader.has_windows(i)) continue;
      const RowHistory kept = history(reader.op(i));
      const uint32_t end = reader.rows_on(reader.axis_of_op(i), tokens);
      if (kept.data != nullptr && kept.half_at(sequence, end) == RowHistory::kNone) return false;
    }
  }
  return true;
}

Status SessionState::rewind_to(uint32_t input, uint32_t sequence, uint32_t positions,
                               Diagnostic* why) {
  const Status status = check_sequence(*this, sequence, why);
  if (status != Status::kOk) return status;
  if (kFunctionsLinked && input >= reader.inputs()) {
    return refuse(why, Status::kInvalidArgument, "there is no such input", "input", 0, input,
                  reader.inputs() - 1);
  }
  const uint32_t held_now = tokens_held(sequence, input);
  if (positions > held_now) {
    return refuse(why, Status::kInvalidArgument, "the sequence holds fewer positions", "positions",
                  sequence, positions, held_now);
  }
  InputTokens kept = positions;
  if constexpr (kFunctionsLinked) {
    kept = tokens_of(sequence, false);
    kept.of[input] = positions;
  }
  for (uint32_t i = 0; i < reader.caches() && positions != 0; ++i) {
    const uint32_t axis = reader.axis_of_cache(i);
    if (kFunctionsLinked && (reader.inputs_of_axis(axis) >> input & 1) == 0) continue;
    const uint32_t lookback = reader.cache(i).lookback;
    const uint32_t end = reader.rows_on(axis, kept);
    const uint32_t first_needed = end > lookback ? end - lookback : 0;
    const uint32_t held = cache_positions(i);
    const uint32_t written = sequences(axis)[sequence].written;
    uint32_t first_held = written > held ? written - held : 0;
    // With int8, the rows of ones after the last written position also overwrite the oldest ones.
    if (first_held != 0 && keeps_int8()) first_held += CacheLayout::kOneRows;
    if (first_needed < first_held) {
      return refuse(why, Status::kInvalidArgument, "the ring buffer no longer holds keys that old",
                    "positions", sequence, positions, first_held);
    }
  }
  if (kWindowsLinked && positions != 0 && !holds_history(input, sequence, kept)) {
    return refuse(why, Status::kInvalidArgument,
                  "a convolution's history ends there: only the last call can be undone",
                  "positions", sequence, positions, held_now);
  }
  keep(input, sequence, kept);
  uint32_t lost = positions != held_now ? uint32_t{1} << input : 0;
  for (uint32_t of = 0; kFunctionsLinked && of < reader.functions(); ++of) {
    if ((reader.inputs_read(of) & lost) == 0) continue;
    for (uint32_t i = 0; i < reader.inputs(); ++i) {
      if (reader.takes(of, i)) keep(i, sequence, {});
    }
    lost |= reader.function(of).inputs;
  }
  return Status::kOk;
}

void SessionState::keep(uint32_t input, uint32_t sequence, const InputTokens& tokens) {
  const bool is_empty = tokens[kFunctionsLinked ? input : 0] == 0;
  for (uint32_t axis = 0; axis < axes(); ++axis) {
    if (kFunctionsLinked && (reader.inputs_of_axis(axis) >> input & 1) == 0) continue;
    SequenceRows& own = sequences(axis)[sequence];
    own.positions = is_empty ? 0 : reader.rows_on(axis, tokens);
    if (is_empty) own.written = 0;
  }
}

Status SessionState::copy(uint32_t from, uint32_t to, Diagnostic* why) {
  const Status status = check_sequence(*this, std::max(from, to), why);
  if (status != Status::kOk || from == to) return status;
  const auto copy_part = [&](std::byte* all, size_t bytes) {
    std::memcpy(all + to * bytes, all + from * bytes, bytes);
  };
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    const auto of_all = static_cast<size_t>(cache(i + 1) - cache(i));
    copy_part(cache(i), of_all / layout.sequences_max);
  }
  for (uint32_t i = 0; kWindowsLinked && i < reader.ops(); ++i) {
    if (!reader.has_windows(i)) continue;
    const RowHistory kept = history(reader.op(i));
    const Checked bytes = reader.history_bytes(reader.op(i));
    if (kept.data != nullptr) copy_part(kept.data, static_cast<size_t>(bytes.value()));
  }
  for (uint32_t axis = 0; axis < axes(); ++axis) {
    SequenceRows& own = sequences(axis)[to];
    own.positions = sequences(axis)[from].positions;
    own.written = sequences(axis)[from].written;
  }
  return Status::kOk;
}

}  // namespace arenite
