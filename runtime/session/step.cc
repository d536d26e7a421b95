// SPDX-License-Identifier: Apache-2.0
// One step: checks the tokens, places them in the arena and runs the program over them.
#include <cstring>

#include "ops/kv_cache.h"
#include "ops/linear.h"
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

uint32_t tokens_of(const Batch& batch, uint32_t sequence) {
  return batch.lengths.empty() ? batch.tokens : batch.lengths[sequence];
}

// A tile mask may show a query nothing but keys that a short sequence does not have.
bool hides_a_row(const MaskView& mask, uint32_t tokens) {
  if (mask.kind != MaskKind::kTiles) return false;
  for (uint32_t row = 0; row < tokens; ++row) {
    if (mask.row_begin[row] >= tokens) return true;
  }
  return false;
}

ConstMatrix constant(const Matrix& matrix) {
  return {matrix.data, matrix.rows, matrix.columns, matrix.stride};
}

}  // namespace

Matrix SessionState::activation(const format::ColumnView& view, uint32_t rows) {
  if (view.width == 0) return {};
  const format::SlotView slot = reader.slot(view.slot);
  float* activations = reinterpret_cast<float*>(arena() + layout.activation_offset);
  float* data = activations + size_t{layout.tokens_max} * slot.column + view.column;
  return {data, rows, view.width, slot.width};
}

float* SessionState::cache(uint32_t index) {
  float* data = reinterpret_cast<float*>(arena() + layout.kv_cache_offset);
  for (uint32_t i = 0; i < index; ++i) {
    data += layout.sequences_max *
            KvCache::floats(kernels.packing, reader.cache(i), layout.positions_max);
  }
  return data;
}

Status SessionState::check_batch(const Batch& batch, bool from_start, Diagnostic& why) const {
  const auto invalid = [&](const char* reason, const char* field, uint32_t index, uint64_t found,
                           uint64_t expected) {
    return refuse(why, Status::kInvalidArgument, reason, field, index, found, expected);
  };
  if (batch.sequences == 0 || batch.sequences > layout.sequences_max) {
    return invalid("more sequences than the session holds, or none", "batch.sequences", 0,
                   batch.sequences, layout.sequences_max);
  }
  const uint32_t features = reader.slot(reader.input_slot()).width;
  const Checked floats = Checked(batch.sequences) * batch.tokens * features;
  if (batch.features.size() != floats.saturated()) {
    return invalid("the features are not [sequences, tokens, input_features]", "batch.features", 0,
                   batch.features.size(), floats.saturated());
  }
  if (!batch.lengths.empty() && batch.lengths.size() != batch.sequences) {
    return invalid("there must be one length for each sequence", "batch.lengths", 0,
                   batch.lengths.size(), batch.sequences);
  }
  uint64_t rows = 0;
  for (uint32_t i = 0; i < batch.sequences; ++i) {
    const uint32_t tokens = tokens_of(batch, i);
    if (tokens > batch.tokens) {
      return invalid("a length is beyond the tokens given", "batch.lengths", i, tokens,
                     batch.tokens);
    }
    const uint32_t held = from_start ? 0 : sequences()[i].positions;
    if (tokens > layout.positions_max - held) {
      return refuse(why, Status::kContextFull, "the tokens do not fit the positions of the session",
                    "batch.lengths", i, uint64_t{held} + tokens, layout.positions_max);
    }
    if (!causal && held != 0 && tokens != 0) {
      return refuse(why, Status::kUnsupported,
                    "the model is not causal: it sees a sequence in one run, not step by step",
                    "batch", i, held, 0);
    }
    for (uint32_t m = 0; !causal && m < reader.masks(); ++m) {
      if (hides_a_row(reader.mask(m), tokens)) {
        return invalid("at this length the mask hides every key of a token", "batch.lengths", i,
                       tokens, layout.positions_max);
      }
    }
    rows += tokens;
  }
  if (rows == 0 || rows > layout.tokens_max) {
    return invalid("more tokens than one call takes, or none", "batch.tokens", 0, rows,
                   layout.tokens_max);
  }
  return Status::kOk;
}

// Gives each sequence its rows and copies its features there, so that kernels never read beyond
// the caller's memory.
void SessionState::place_rows(const Batch& batch, bool from_start) {
  if (from_start) reset();
  const uint32_t features = reader.slot(reader.input_slot()).width;
  const Matrix input = activation({reader.input_slot(), 0, features}, layout.tokens_max);
  uint32_t row = 0;
  for (uint32_t i = 0; i < layout.sequences_max; ++i) {
    SequenceRows& sequence = sequences()[i];
    sequence.row_begin = row;
    sequence.rows = i < batch.sequences ? tokens_of(batch, i) : 0;
    if (sequence.rows == 0) continue;
    std::memcpy(input.row(row), batch.features.data() + size_t{i} * batch.tokens * features,
                size_t{sequence.rows} * features * sizeof(float));
    row += sequence.rows;
  }
}

void SessionState::run_op(uint32_t index, uint32_t rows) {
  const format::OpView op = reader.op(index);
  if (op.kind == format::OpKind::kLinear) {
    linear(kernels, constant(activation(op.linear.input, rows)),
           reader.weights(packed_index, op.linear.tensor), activation(op.linear.output, rows),
           parallel);
    return;
  }
  const format::AttentionOp& body = op.attention;
  Attention attention_op;
  attention_op.heads = body.heads;
  attention_op.shape = reader.cache(body.cache);
  attention_op.mask = reader.mask(body.mask);
  attention_op.positions_max = layout.positions_max;
  attention_op.query = constant(activation(body.query, rows));
  attention_op.key = constant(activation(body.key, rows));
  attention_op.value = constant(activation(body.value, rows));
  attention_op.output = activation(body.output, rows);
  attention_op.cache = cache(body.cache);
  attention_op.scratch = reinterpret_cast<float*>(arena() + layout.scratch_offset);
  attention_op.scratch_floats = layout.scratch_bytes_per_thread / sizeof(float);
  attention(kernels, attention_op, sequences(), parallel);
}

Result<Output> SessionState::feed(const Batch& batch, bool from_start, Diagnostic& why) {
  const Status status = check_batch(batch, from_start, why);
  if (status != Status::kOk) return status;
  place_rows(batch, from_start);
  uint32_t rows = 0;
  for (const SequenceRows& sequence : sequences()) rows += sequence.rows;

  for (uint32_t i = 0; i < reader.ops(); ++i) {
    if (profile.op_begins != nullptr) profile.op_begins(profile.context, i);
    run_op(i, rows);
    if (profile.op_ends != nullptr) profile.op_ends(profile.context, i);
  }
  for (SequenceRows& sequence : sequences()) sequence.positions += sequence.rows;

  const uint32_t features = reader.slot(reader.output_slot()).width;
  const Matrix output = activation({reader.output_slot(), 0, features}, rows);
  return Output{output.data, rows, features};
}

}  // namespace arenite
