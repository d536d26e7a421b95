// SPDX-License-Identifier: Apache-2.0
// From an op of the file to a call of the op's function: finds its columns, weights and caches.
#include "core/features.h"
#include "ops/activation.h"
#include "ops/add.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/rope.h"
#include "ops/select.h"
#include "session/session_state.h"

namespace arenite {
namespace {

ConstMatrix constant(const Matrix& matrix) {
  return {matrix.data, matrix.rows, matrix.columns, matrix.stride};
}

void run_linear(SessionState& state, const format::LinearOp& op) {
  linear(state.kernels, constant(state.activation(op.input)), state.tensor(op.tensor),
         state.activation(op.output), state.parallel);
}

void run_attention(SessionState& state, const format::AttentionOp& op) {
  Attention call;
  call.heads = op.heads;
  call.shape = state.reader.cache(op.cache);
  call.mask = state.reader.mask(op.mask);
  call.cache_positions = state.cache_positions(op.cache);
  call.query = constant(state.activation(op.query));
  call.key = constant(state.activation(op.key));
  call.value = constant(state.activation(op.value));
  call.output = state.activation(op.output);
  call.kv_type = state.layout.kv_type;
  call.cache = state.cache(op.cache);
  call.scratch = state.scratch();
  attention(state.kernels, call, state.sequences(), state.parallel);
}

void run_embedding(SessionState& state, const format::EmbeddingOp& op) {
  const Embedding call = {state.tensor(op.tokens),    op.scale,
                          state.tensor(op.positions), op.position_offset,
                          state.tensor(op.types),     op.padding_id};
  embedding(state.kernels, call, state.tokens, state.step_rows(), state.activation(op.output),
            state.parallel);
}

void run_norm(SessionState& state, const format::NormOp& op) {
  const NormWeights weights = {op.kind, op.epsilon, state.tensor(op.gain).f32(),
                               state.tensor(op.bias).f32()};
  norm(state.kernels, weights, op.groups, constant(state.activation(op.input)),
       state.activation(op.output), state.parallel);
}

void run_activation(SessionState& state, const format::ActivationOp& op) {
  const Matrix target = state.activation(op.target);
  activation(state.kernels, op.kind, op.cap, constant(target),
             constant(state.activation(op.factor)), target, state.parallel);
}

// Of each sequence one of its rows, or what pooling makes of them; or all rows.
void run_select(SessionState& state, const format::SelectOp& op) {
  select(state.kernels, op.kind, state.outputs == Outputs::kAll,
         constant(state.activation(op.input)), state.step_rows(), state.activation(op.output));
}

void run_rope(SessionState& state, const format::RopeOp& op) {
  const Matrix target = state.activation(op.target);
  const WeightView angles = state.tensor(op.angles);
  rope(state.kernels, constant(target), op.heads, angles.f32(), angles.columns, state.step_rows(),
       target, state.parallel);
}

void run_add(SessionState& state, const format::AddOp& op) {
  const Matrix target = state.activation(op.target);
  add(state.kernels, constant(target), constant(state.activation(op.other)), target,
      state.parallel);
}

}  // namespace

// What is not linked is never called: load refuses files that need it.
void run_op(SessionState& state, uint32_t index) {
  using enum Feature;
  const format::OpView op = state.reader.op(index);
  switch (op.kind) {
    case format::OpKind::kLinear:
      if constexpr (linked(kLinear)) run_linear(state, op.linear);
      return;
    case format::OpKind::kAttention:
      if constexpr (linked(kAttention)) run_attention(state, op.attention);
      return;
    case format::OpKind::kEmbedding:
      if constexpr (linked(kEmbedding)) run_embedding(state, op.embedding);
      return;
    case format::OpKind::kNorm:
      if constexpr (kNormsLinked) run_norm(state, op.norm);
      return;
    case format::OpKind::kRope:
      if constexpr (linked(kRope)) run_rope(state, op.rope);
      return;
    case format::OpKind::kActivation:
      if constexpr (kActivationsLinked) run_activation(state, op.activation);
      return;
    case format::OpKind::kAdd:
      if constexpr (linked(kAdd)) run_add(state, op.add);
      return;
    case format::OpKind::kSelect:
      if constexpr (linked(kSelect)) run_select(state, op.select);
      return;
    case format::OpKind::kNone:
      return;
  }
}

}  // namespace arenite
