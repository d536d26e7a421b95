// SPDX-License-Identifier: Apache-2.0
// From an op of the file to a call of the op's function: finds its columns, weights and caches.
#include <cstring>

#include "core/needs.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/pooling.h"
#include "ops/rope.h"
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
  call.cache = state.cache(op.cache);
  call.scratch = reinterpret_cast<float*>(state.arena() + state.layout.scratch_offset);
  call.scratch_floats = state.layout.scratch_bytes_per_thread / sizeof(float);
  attention(state.kernels, call, state.sequences(), state.parallel);
}

TableView table(SessionState& state, uint32_t tensor) {
  if (tensor == format::kNoTensor) return {};
  const format::TensorShape shape = state.reader.tensor(tensor);
  return {state.tensor(tensor), shape.inputs, shape.layout == format::Layout::kGemm};
}

void run_embedding(SessionState& state, const format::EmbeddingOp& op) {
  const Embedding call = {table(state, op.tokens),    op.scale,
                          table(state, op.positions), op.position_offset,
                          table(state, op.types),     op.padding_id};
  embedding(state.kernels, call, state.tokens, state.step_rows(), state.activation(op.output),
            state.parallel);
}

void run_norm(SessionState& state, const format::NormOp& op) {
  // The file's numbers are those of the function's enum.
  static_assert(static_cast<int>(format::NormKind::kLength) ==
                static_cast<int>(NormFunction::kLength));
  const NormWeights weights = {static_cast<NormFunction>(op.kind), op.epsilon,
                               table(state, op.gain).data, table(state, op.bias).data};
  norm(state.kernels, weights, op.groups, constant(state.activation(op.input)),
       state.activation(op.output), state.parallel);
}

void run_activation(SessionState& state, const format::ActivationOp& op) {
  // The file's numbers are those of the function's enum.
  static_assert(static_cast<int>(format::ActivationKind::kSigmoid) ==
                static_cast<int>(ActivationFunction::kSigmoid));
  activation(state.kernels, static_cast<ActivationFunction>(op.kind), op.cap,
             state.activation(op.target), constant(state.activation(op.factor)), state.parallel);
}

// The file's numbers are those of the function's enum, behind those of single rows.
PoolingFunction pooling_function(format::SelectKind kind) {
  constexpr int kFirst = static_cast<int>(format::SelectKind::kMean);
  static_assert(static_cast<int>(format::SelectKind::kWeightedMean) - kFirst ==
                static_cast<int>(PoolingFunction::kWeightedMean));
  return static_cast<PoolingFunction>(static_cast<int>(kind) - kFirst);
}

// Of each sequence one of its rows, or what pooling makes of them; or all rows.
void run_select(SessionState& state, const format::SelectOp& op) {
  using enum format::SelectKind;
  const Matrix from = state.activation(op.input);
  const Matrix to = state.activation(op.output);
  uint32_t next = 0;
  for (const SequenceRows& sequence : state.sequences()) {
    if (sequence.rows == 0) continue;
    const uint32_t begin = sequence.row_begin;
    const uint32_t end = begin + sequence.rows;
    if (format::makes_a_row_of_several(op.kind)) {
      pool_rows(state.kernels, pooling_function(op.kind), constant(from), state.step_rows(), begin,
                end, to.row(next++));
      continue;
    }
    const bool all = op.kind == kAsAsked && state.outputs == Outputs::kAll;
    const uint32_t first = all || op.kind == kFirst ? begin : end - 1;
    const uint32_t last = all ? end : first + 1;
    for (uint32_t row = first; row < last; ++row) {
      std::memcpy(to.row(next++), from.row(row), from.columns * sizeof(float));
    }
  }
}

void run_rope(SessionState& state, const format::RopeOp& op) {
  rope(state.kernels, state.activation(op.target), op.heads, state.tensor(op.angles),
       state.reader.tensor(op.angles).inputs, state.step_rows(), state.parallel);
}

void run_add(SessionState& state, const format::AddOp& op) {
  add(state.kernels, state.activation(op.target), constant(state.activation(op.other)),
      state.parallel);
}
}  // namespace

// What is not linked is never called: load refuses files that need it.
void run_op(SessionState& state, uint32_t index) {
  using enum Need;
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
