// SPDX-License-Identifier: Apache-2.0
// One step: checks the tokens, gives them their rows and runs the program over them, at once or in
// slices. All checks (step_input.cc) come before the first write.
#include <algorithm>
#include <cstring>

#include "core/message.h"
#include "ops/row_ops.h"
#include "session/session_state.h"

namespace arenite {

using format::linked;
using format::OpKind;

namespace {

Status refuse_in_progress(Diagnostic* why) {
  return refuse(why, Status::kInvalidArgument, "a step is in progress: advance or cancel it");
}

}  // namespace

Matrix SessionState::activation(const format::ColumnView& view) {
  if (view.width == 0) return {};
  const format::SlotView& slot = reader.slot(view.slot);
  const bool per_output = slot.per_output != 0;
  std::byte* area = arena() + (per_output ? layout.output_offset : layout.activation_offset);
  const size_t capacity = per_output ? layout.outputs_max : layout.rows_max();
  float* data = reinterpret_cast<float*>(area) + capacity * slot.offset + view.column;
  return {data, per_output ? output_rows : rows, view.width, slot.width};
}

uint32_t SessionState::cache_positions(uint32_t index) const {
  return arenite::cache_positions(reader.cache(index).lookback, kernels.f32.packing.nr,
                                  sizes_of(layout, parallel.threads));
}

std::byte* SessionState::cache(uint32_t index) {
  std::byte* data = arena() + layout.kv_cache_offset;
  for (uint32_t i = 0; i < index; ++i) {
    const CacheLayout before(kernels.of_cache(keeps_int8()).packing, reader.cache(i).shape,
                             cache_positions(i));
    data += layout.sequences_max * before.bytes();
  }
  return data;
}

// Gives each sequence its rows. Features are copied there, so that kernels never read beyond the
// caller's memory, which may be the result of the last call.
void SessionState::place_rows(const StepInput& input, bool from_start) {
  if (from_start) reset();
  const bool each_token = outputs == Outputs::kAll && !pooled;
  rows = 0;
  output_rows = 0;
  for (uint32_t i = 0; i < layout.sequences_max; ++i) {
    SequenceRows& sequence = sequences()[i];
    sequence.row_begin = rows;
    sequence.rows = i < input.sequences ? input.tokens_of(i) : 0;
    sequence.rows += step_rows().prefix_of(sequence);
    rows += sequence.rows;
    // Before the ops run: even a cancelled step overwrites a ring's oldest positions.
    sequence.written = std::max(sequence.written, sequence.positions + sequence.rows);
    if (sequence.rows != 0) output_rows += each_token ? sequence.rows : 1;
  }
  tokens = {input.ids, input.types.empty() ? nullptr : input.types.data()};
  stride = input.back_to_back ? 0 : input.tokens;
  visible = input.visible.empty() ? nullptr : input.visible.data();
  if (input.is_tokens) return;
  if constexpr (linked(OpKind::kPatches)) {
    if (reader.reads_images()) {
      const Matrix patches = activation(reader.op(0).views[format::kOutput]);
      cut_patches(reader.image_patches(), input.features, step_rows(), patches);
      return;
    }
  }
  const uint32_t features = reader.slot(reader.input_slot()).width;
  const Matrix to = activation({reader.input_slot(), 0, features});
  for (uint32_t row = 0; row < rows; ++row) {
    const RowPlace place = place_of_row(step_rows(), row);
    if (place.is_prefix()) {
      std::memset(to.row(row), 0, features * sizeof(float));
      continue;
    }
    const size_t from = place.token * features;
    std::memmove(to.row(row), input.features + from, features * sizeof(float));
  }
}

void SessionState::show_hidden_states(uint32_t op_index) {
  for (uint32_t i = 0; i < reader.hidden_states(); ++i) {
    const format::HiddenStateView& state = reader.hidden_state(i);
    if (state.op != op_index) continue;
    const Matrix matrix = activation(state.view);
    hidden_states.state(hidden_states.context, i, matrix.data, matrix.rows, matrix.columns);
  }
}

Status SessionState::begin(const StepInput& input, bool from_start, Diagnostic* why) {
  if (ops_left != 0) return refuse_in_progress(why);
  if constexpr (linked(OpKind::kPatches)) {
    if (reader.reads_images() && !input.is_tokens && input.tokens == 0) {
      StepInput images = input;
      images.tokens = static_cast<uint32_t>(reader.image_patches().patches().value());
      return begin(images, from_start, why);
    }
  }
  const Status status = check_input(*this, input, from_start, why);
  if (status != Status::kOk) return status;
  place_rows(input, from_start);
  ops_left = reader.ops();
  return Status::kOk;
}

void SessionState::run_ops(uint32_t ops_max) {
  for (; ops_max != 0 && ops_left != 0; --ops_max) {
    const uint32_t index = reader.ops() - ops_left;
    if (profile.op_begins != nullptr) profile.op_begins(profile.context, index);
    run_op(*this, index);
    if (profile.op_ends != nullptr) profile.op_ends(profile.context, index);
    if (hidden_states.state != nullptr) show_hidden_states(index);
    if (--ops_left != 0) continue;
    for (SequenceRows& sequence : sequences()) sequence.positions += sequence.rows;
  }
}

Output SessionState::results() const {
  if (ops_left != 0 || output_rows == 0) return {};
  const format::SlotView& slot = reader.slot(reader.output_slot());
  const Matrix output =
      const_cast<SessionState*>(this)->activation({reader.output_slot(), 0, slot.width});
  return {output.data, output.rows, output.columns};
}

Status SessionState::rewind_to(uint32_t sequence, uint32_t positions, Diagnostic* why) {
  if (ops_left != 0) return refuse_in_progress(why);
  if (sequence >= sequences().size()) {
    return refuse(why, Status::kInvalidArgument, "there is no such sequence", "sequence", 0,
                  sequence, layout.sequences_max);
  }
  if (positions > tokens_held(sequence)) {
    return refuse(why, Status::kInvalidArgument, "the sequence holds fewer positions", "positions",
                  sequence, positions, tokens_held(sequence));
  }
  SequenceRows& state = sequences()[sequence];
  if (positions != 0) positions += layout.prefix_rows;
  for (uint32_t i = 0; i < reader.caches() && positions != 0; ++i) {
    const uint32_t lookback = reader.cache(i).lookback;
    const uint32_t first_needed = positions > lookback ? positions - lookback : 0;
    const uint32_t held = cache_positions(i);
    uint32_t first_held = state.written > held ? state.written - held : 0;
    // Of int8, the rows after the last position written took the place of the oldest.
    if (first_held != 0 && keeps_int8()) first_held += CacheLayout::kOneRows;
    if (first_needed < first_held) {
      return refuse(why, Status::kInvalidArgument, "the window's cache no longer holds so old keys",
                    "positions", sequence, positions, first_held);
    }
  }
  state.positions = positions;
  if (positions == 0) state.written = 0;
  return Status::kOk;
}

}  // namespace arenite
