// SPDX-License-Identifier: Apache-2.0
// One step: checks the tokens, gives them their rows and runs the program over them. All checks
// come before the first write.
#include <cstring>

#include "ops/kv_cache.h"
#include "session/session_state.h"

namespace arenite {
namespace {

Status refuse(Diagnostic& why, Status status, const char* reason, const char* field, uint32_t index,
              uint64_t found, uint64_t expected) {
  why = {};
  why.reason = reason;
  why.field = field;
  why.op_index = index;
  why.found = found;
  why.expected = expected;
  return status;
}

// A tile mask may show a query nothing but keys that a short sequence does not have.
bool hides_a_row(const MaskView& mask, uint32_t tokens) {
  if (mask.kind != MaskKind::kTiles) return false;
  for (uint32_t row = 0; row < tokens; ++row) {
    if (mask.row_begin[row] >= tokens) return true;
  }
  return false;
}

}  // namespace

Matrix SessionState::activation(const format::ColumnView& view) {
  if (view.width == 0) return {};
  const format::SlotView slot = reader.slot(view.slot);
  std::byte* area = arena() + (slot.per_output ? layout.output_offset : layout.activation_offset);
  const size_t capacity = slot.per_output ? layout.outputs_max : layout.tokens_max;
  float* data = reinterpret_cast<float*>(area) + capacity * slot.column + view.column;
  return {data, slot.per_output ? output_rows : rows, view.width, slot.width};
}

uint32_t SessionState::cache_positions(uint32_t index) const {
  return arenite::cache_positions(reader.cache_behind(index), kernels.packing.nr,
                                  sizes_of(layout, parallel.threads));
}

float* SessionState::cache(uint32_t index) {
  float* data = reinterpret_cast<float*>(arena() + layout.kv_cache_offset);
  for (uint32_t i = 0; i < index; ++i) {
    data += layout.sequences_max *
            KvCache::floats(kernels.packing, reader.cache(i), cache_positions(i));
  }
  return data;
}

Status SessionState::check_input(const Input& input, Diagnostic& why) const {
  const auto invalid = [&](const char* reason, const char* field, uint64_t found,
                           uint64_t expected) {
    return refuse(why, Status::kInvalidArgument, reason, field, 0, found, expected);
  };
  const bool wants_ids = reader.vocab_size() != 0;
  if (wants_ids != input.is_tokens) {
    return invalid(
        wants_ids ? "the model reads tokens, not features" : "the model reads features, not tokens",
        "batch", 0, 0);
  }
  if (input.sequences == 0 || input.sequences > layout.sequences_max) {
    return invalid("more sequences than the session holds, or none", "batch.sequences",
                   input.sequences, layout.sequences_max);
  }
  const uint32_t features = wants_ids ? 1 : reader.slot(reader.input_slot()).width;
  const Checked size = Checked(input.sequences) * input.tokens * features;
  if (input.size != size.saturated()) {
    return invalid(wants_ids ? "the ids are not [sequences, tokens]"
                             : "the features are not [sequences, tokens, input_features]",
                   wants_ids ? "batch.ids" : "batch.features", input.size, size.saturated());
  }
  if (!input.lengths.empty() && input.lengths.size() != input.sequences) {
    return invalid("there must be one length for each sequence", "batch.lengths",
                   input.lengths.size(), input.sequences);
  }
  return Status::kOk;
}

Status SessionState::check_sequence(const Input& input, uint32_t index, bool from_start,
                                    Diagnostic& why) const {
  const uint32_t tokens = input.tokens_of(index);
  if (tokens > input.tokens) {
    return refuse(why, Status::kInvalidArgument, "a length is beyond the tokens given",
                  "batch.lengths", index, tokens, input.tokens);
  }
  const uint32_t held = from_start ? 0 : sequences()[index].positions;
  if (tokens > layout.positions_max - held) {
    return refuse(why, Status::kContextFull, "the tokens do not fit the positions of the session",
                  "batch.lengths", index, uint64_t{held} + tokens, layout.positions_max);
  }
  if (!causal && held != 0 && tokens != 0) {
    return refuse(why, Status::kUnsupported,
                  "the model is not causal: it sees a sequence in one run, not step by step",
                  "batch", index, held, 0);
  }
  for (uint32_t m = 0; !causal && m < reader.masks(); ++m) {
    if (hides_a_row(reader.mask(m), tokens)) {
      return refuse(why, Status::kInvalidArgument,
                    "at this length the mask hides every key of a token", "batch.lengths", index,
                    tokens, layout.positions_max);
    }
  }
  for (uint32_t t = 0; input.is_tokens && t < tokens; ++t) {
    const TokenId id = input.ids[size_t{index} * input.tokens + t];
    if (id >= reader.vocab_size()) {
      return refuse(why, Status::kInvalidArgument, "a token is not in the vocabulary", "batch.ids",
                    t, id, uint64_t{reader.vocab_size()} - 1);
    }
  }
  return Status::kOk;
}

Status SessionState::check(const Input& input, bool from_start, Diagnostic& why) const {
  Status status = check_input(input, why);
  uint64_t total = 0;
  for (uint32_t i = 0; status == Status::kOk && i < input.sequences; ++i) {
    status = check_sequence(input, i, from_start, why);
    total += input.tokens_of(i);
  }
  if (status == Status::kOk && (total == 0 || total > layout.tokens_max)) {
    return refuse(why, Status::kInvalidArgument, "more tokens than one call takes, or none",
                  "batch.tokens", 0, total, layout.tokens_max);
  }
  return status;
}

// Gives each sequence its rows. Features are copied there, so that kernels never read beyond the
// caller's memory.
void SessionState::place_rows(const Input& input, bool from_start) {
  if (from_start) reset();
  rows = 0;
  output_rows = 0;
  for (uint32_t i = 0; i < layout.sequences_max; ++i) {
    SequenceRows& sequence = sequences()[i];
    sequence.row_begin = rows;
    sequence.rows = i < input.sequences ? input.tokens_of(i) : 0;
    rows += sequence.rows;
    if (sequence.rows != 0) output_rows += outputs == Outputs::kAll ? sequence.rows : 1;
  }
  ids = input.ids;
  ids_stride = input.tokens;
  if (input.is_tokens) return;
  const uint32_t features = reader.slot(reader.input_slot()).width;
  const Matrix to = activation({reader.input_slot(), 0, features});
  for (uint32_t i = 0; i < input.sequences; ++i) {
    const SequenceRows& sequence = sequences()[i];
    if (sequence.rows == 0) continue;
    std::memcpy(to.row(sequence.row_begin), input.features + size_t{i} * input.tokens * features,
                size_t{sequence.rows} * features * sizeof(float));
  }
}

// `next` is the first state that was not shown yet.
void SessionState::show_hidden_states(uint32_t op_index, uint32_t& next) {
  for (; next < reader.hidden_states(); ++next) {
    const format::HiddenStateView state = reader.hidden_state(next);
    if (state.op != op_index) return;
    const Matrix matrix = activation(state.view);
    hidden_states.state(hidden_states.context, next, matrix.data, matrix.rows, matrix.columns);
  }
}

Result<Output> SessionState::feed(const Input& input, bool from_start, Diagnostic& why) {
  const Status status = check(input, from_start, why);
  if (status != Status::kOk) return status;
  place_rows(input, from_start);
  uint32_t next_state = 0;
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    if (profile.op_begins != nullptr) profile.op_begins(profile.context, i);
    run_op(*this, i);
    if (profile.op_ends != nullptr) profile.op_ends(profile.context, i);
    if (hidden_states.state != nullptr) show_hidden_states(i, next_state);
  }
  for (SequenceRows& sequence : sequences()) {
    sequence.positions += sequence.rows;
    if (sequence.positions > sequence.written) sequence.written = sequence.positions;
  }
  const format::SlotView slot = reader.slot(reader.output_slot());
  const Matrix output = activation({reader.output_slot(), 0, slot.width});
  return Output{output.data, output.rows, output.columns};
}

Status SessionState::rewind_to(uint32_t sequence, uint32_t positions) {
  if (sequence >= sequences().size() || positions > sequences()[sequence].positions) {
    return Status::kInvalidArgument;
  }
  SequenceRows& state = sequences()[sequence];
  for (uint32_t i = 0; i < reader.caches() && positions != 0; ++i) {
    const uint32_t behind = reader.cache_behind(i);
    const uint32_t first_needed = positions > behind ? positions - behind : 0;
    const uint32_t held = cache_positions(i);
    const uint32_t first_held = state.written > held ? state.written - held : 0;
    if (first_needed < first_held) return Status::kInvalidArgument;
  }
  state.positions = positions;
  if (positions == 0) state.written = 0;
  return Status::kOk;
}

}  // namespace arenite
