// SPDX-License-Identifier: Apache-2.0
// From an op of the file to a call of the op's function: finds its columns, weights and caches.
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/row_ops.h"
#include "session/session_state.h"

namespace arenite {
namespace {

ConstMatrix constant(const Matrix& matrix) {
  return {matrix.data, matrix.rows, matrix.columns, matrix.stride};
}

// What an op's record names, where it lies.
struct OpCall {
  OpCall(SessionState& state_in, const format::OpView& op_in)
      : state(state_in), op(op_in), output(state.activation(op.views[format::kOutput])) {
    for (uint32_t i = 0; i < format::kOutput; ++i) {
      inputs[i] = constant(state.activation(op.views[i]));
    }
  }

  SessionState& state;
  const format::OpView& op;
  ConstMatrix inputs[format::kOutput];  // no data where an operand is absent
  Matrix output;

  // No data where it is absent.
  WeightView tensor(uint32_t number) const { return state.tensor(op.numbers[number]); }
};

void run_linear(const OpCall& call) {
  linear(call.state.kernels, call.inputs[format::kInput], call.tensor(format::LinearOp::kTensor),
         call.output, call.state.scratch(), call.state.parallel);
}

// A table of terms, where it lies.
LinkedScoreTable score_table(const OpCall& call) {
  using enum format::AttentionOp::Number;
  const WeightView table = call.tensor(kTerms);
  if (call.op.choice<ScoreTerms>(kTermsBy) == ScoreTerms::kDistances) {
    return LinkedScoreTable::by_distance(table.f32(), table.columns / 2 + 1);
  }
  return LinkedScoreTable::by_pair(table.f32(), table.columns, table.rows != table.columns);
}

void run_attention(const OpCall& call) {
  SessionState& state = call.state;
  const uint32_t cache = call.op.numbers[format::AttentionOp::kCache];
  Attention attention;
  attention.heads = call.op.numbers[format::AttentionOp::kHeads];
  attention.shape = state.reader.cache(cache).shape;
  attention.mask = state.reader.mask(call.op.numbers[format::AttentionOp::kMask]);
  const bool has_table =
      linked(Need::kScoreTables) &&
      call.op.choice<ScoreTerms>(format::AttentionOp::kTermsBy) != ScoreTerms::kSlopes;
  if (has_table) {
    attention.table = score_table(call);
  } else {
    attention.slopes = call.tensor(format::AttentionOp::kTerms).f32();
  }
  if constexpr (linked(Need::kScoreCap)) {
    attention.score_cap = call.op.reals[format::AttentionOp::kScoreCap];
  }
  attention.cache_positions = state.cache_positions(cache);
  attention.query = call.inputs[format::kQuery];
  attention.key = call.inputs[format::kKey];
  attention.value = call.inputs[format::kValue];
  attention.output = call.output;
  attention.kv_type = state.layout.kv_type;
  attention.cache = state.cache(cache);
  attention.scratch = state.scratch();
  arenite::attention(state.kernels, attention, state.sequences(), state.parallel);
}

// Inline are those that a build may lack: then they have no code, optimized or not, and a bundle
// needs no file for what they call.
inline void run_embedding(const OpCall& call) {
  using enum format::EmbeddingOp::Number;
  const uint32_t* const numbers = call.op.numbers;
  const Embedding embedding = {call.tensor(kTokens),    call.op.reals[format::EmbeddingOp::kScale],
                               call.tensor(kPositions), numbers[kPositionOffset],
                               call.tensor(kTypes),     numbers[kPaddingId]};
  arenite::embedding(call.state.kernels, embedding, call.state.tokens, call.state.step_rows(),
                     call.output, call.state.parallel);
}

inline void run_norm(const OpCall& call) {
  using enum format::NormOp::Number;
  const NormWeights weights = {call.op.choice<NormKind>(kKind),
                               call.op.reals[format::NormOp::kEpsilon], call.tensor(kGain).f32(),
                               call.tensor(kBias).f32()};
  norm(call.state.kernels, weights, call.op.numbers[kGroups], call.inputs[format::kInput],
       call.output, call.state.parallel);
}

inline void run_rope(const OpCall& call) {
  const WeightView angles = call.tensor(format::RopeOp::kAngles);
  rope(call.state.kernels, call.inputs[format::kInput], call.op.numbers[format::RopeOp::kHeads],
       angles.f32(), angles.columns, call.state.step_rows(), call.output, call.state.parallel);
}

inline void run_activation(const OpCall& call) {
  activation(call.state.kernels, call.op.choice<Activation>(format::ActivationOp::kKind),
             call.op.reals[format::ActivationOp::kParameter], call.inputs[format::kInput],
             call.inputs[format::kFactor], call.output, call.state.parallel);
}

void run_add(const OpCall& call) {
  add(call.state.kernels, call.inputs[format::kInput], call.inputs[format::kOther], call.output,
      call.state.parallel);
}

inline void run_select(const OpCall& call) {
  select(call.state.kernels, call.op.choice<SelectKind>(format::SelectOp::kKind),
         call.state.outputs == Outputs::kAll, call.inputs[format::kInput], call.state.step_rows(),
         call.output, call.op.numbers[format::SelectOp::kFirstRow]);
}

void run_prefix(const OpCall& call) {
  const uint32_t first_row = call.op.numbers[format::PrefixOp::kFirstRow];
  put_prefix(call.tensor(format::PrefixOp::kRows), first_row, call.inputs[format::kInput],
             call.state.step_rows(), call.output, call.state.parallel);
}

}  // namespace

// What is not linked is never called: load refuses files that need it.
void run_op(SessionState& state, uint32_t index) {
  using format::linked;
  using format::OpKind;
  const OpCall call(state, state.reader.op(index));
  switch (call.op.kind) {
    case OpKind::kLinear:
      if constexpr (linked(OpKind::kLinear)) run_linear(call);
      return;
    case OpKind::kAttention:
      if constexpr (linked(OpKind::kAttention)) run_attention(call);
      return;
    case OpKind::kEmbedding:
      if constexpr (linked(OpKind::kEmbedding)) run_embedding(call);
      return;
    case OpKind::kNorm:
      if constexpr (linked(OpKind::kNorm)) run_norm(call);
      return;
    case OpKind::kRope:
      if constexpr (linked(OpKind::kRope)) run_rope(call);
      return;
    case OpKind::kActivation:
      if constexpr (linked(OpKind::kActivation)) run_activation(call);
      return;
    case OpKind::kAdd:
      if constexpr (linked(OpKind::kAdd)) run_add(call);
      return;
    case OpKind::kSelect:
      if constexpr (linked(OpKind::kSelect)) run_select(call);
      return;
    case OpKind::kPrefix:
      if constexpr (linked(OpKind::kPrefix)) run_prefix(call);
      return;
    case OpKind::kPatches:
      return;
  }
}

}  // namespace arenite
