// SPDX-License-Identifier: Apache-2.0
// Verifies each op by itself: that its tensors are there and fit the columns it uses, and that its
// parameters make sense.
#include <cmath>

#include "arenite/checked_math.h"
#include "core/features.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

// What each check needs to know.
struct OpCheck {
  const ModelReader& model;
  uint32_t index;  // of the op
  bool causal;     // the model
  const Refusal& refuse;

  bool width(Message field, const ColumnView& view, Checked expected) const {
    if (view.width != 0 && view.width == expected.saturated()) return true;
    return refuse("the columns have another width than the op needs", field, index, view.width,
                  expected.saturated());
  }

  bool tensor(Message field, uint32_t tensor, Layout layout) const {
    if (tensor >= model.tensors()) {
      return refuse("an op names a tensor that is not there", field, index, tensor,
                    model.tensors());
    }
    if (model.tensor(tensor).layout != layout) {
      return refuse("an op names a tensor of another layout", field, index);
    }
    return true;
  }

  // A tensor of one row, as wide as `width`.
  bool vector(Message field, uint32_t index_of_tensor, uint32_t width) const {
    if (!tensor(field, index_of_tensor, Layout::kRows)) return false;
    const TensorShape shape = model.tensor(index_of_tensor);
    if (shape.outputs == 1 && shape.inputs == width) return true;
    return refuse("a vector has another length than the op needs", field, index, shape.inputs,
                  width);
  }

  bool finite(Message field, float value, bool positive) const {
    if (std::isfinite(value) && (!positive || value > 0.0f)) return true;
    return refuse("a number of an op makes no sense", field, index);
  }
};

bool verify_linear(const OpCheck& check, const LinearOp& op) {
  if (!check.tensor("linear.tensor", op.tensor, Layout::kGemm)) return false;
  const TensorShape shape = check.model.tensor(op.tensor);
  return check.width("linear.input", op.input, shape.inputs) &&
         check.width("linear.output", op.output, shape.outputs);
}

// Caches are used in their order. Where nothing is kept from call to call, an op may also take one
// that an earlier op is done with: it fills what it reads.
bool verify_attention(const OpCheck& check, const AttentionOp& op, uint32_t& caches_used) {
  const ModelReader& model = check.model;
  const bool shared = op.cache < caches_used && !check.causal;
  if ((op.cache != caches_used && !shared) || op.cache >= model.caches()) {
    return check.refuse("each attention op has its own cache, in order", "attention.cache",
                        check.index, op.cache, caches_used);
  }
  if (!shared) ++caches_used;
  if (op.mask >= model.masks()) {
    return check.refuse("an attention op names a mask that is not there", "attention.mask",
                        check.index, op.mask, model.masks());
  }
  const CacheShape cache = model.cache(op.cache);
  if (op.heads == 0 || cache.kv_heads == 0 || op.heads % cache.kv_heads != 0) {
    return check.refuse("the heads are not a multiple of the key/value heads", "attention.heads",
                        check.index, op.heads, cache.kv_heads);
  }
  if (cache.value_dim == 0) {
    return check.refuse("an attention op has no values", "caches.value_dim", check.index);
  }
  const MaskView mask = model.mask(op.mask);
  const bool ring = model.cache_behind(op.cache) != kUnlimited;
  const bool seen = mask.kind == MaskKind::kBand && mask.ahead == 0 &&
                    mask.behind <= model.cache_behind(op.cache);
  if (ring && !seen) {
    return check.refuse("a cache forgets positions that its mask shows", "caches.behind", op.cache,
                        model.cache_behind(op.cache), mask.behind);
  }
  if (op.output.width != 0 && model.slot(op.output.slot).per_output) {
    return check.refuse("attention needs a row for each token", "attention.output", check.index);
  }
  const bool scored = cache.head_dim != 0;
  if (!scored && (op.query.width != 0 || op.key.width != 0)) {
    return check.refuse("an attention op has a query but no dimensions", "attention.query",
                        check.index, op.query.width, 0);
  }
  return (!scored ||
          (check.width("attention.query", op.query, Checked(op.heads) * cache.head_dim) &&
           check.width("attention.key", op.key, Checked(cache.kv_heads) * cache.head_dim))) &&
         check.width("attention.value", op.value, Checked(cache.kv_heads) * cache.value_dim) &&
         check.width("attention.output", op.output, Checked(op.heads) * cache.value_dim);
}

// A table [positions, width] that reaches as far as the model's sequences do.
bool verify_positions(const OpCheck& check, Message field, uint32_t tensor, uint32_t offset,
                      uint32_t width) {
  if (!check.tensor(field, tensor, Layout::kRows)) return false;
  const TensorShape shape = check.model.tensor(tensor);
  const uint32_t positions = check.model.positions_max();
  const Checked needed = Checked(positions) + offset;
  if (positions == 0 || shape.outputs < needed.saturated()) {
    return check.refuse("a table of positions is shorter than the context", field, check.index,
                        shape.outputs, needed.saturated());
  }
  if (shape.inputs != width) {
    return check.refuse("a table of positions has another width than the op needs", field,
                        check.index, shape.inputs, width);
  }
  return true;
}

bool verify_token_table(const OpCheck& check, const EmbeddingOp& op) {
  const ModelReader& model = check.model;
  if (op.tokens >= model.tensors()) {
    return check.refuse("an op names a tensor that is not there", "embedding.tokens", check.index,
                        op.tokens, model.tensors());
  }
  const TensorShape table = model.tensor(op.tokens);
  if (model.vocab_size() == 0 || table.outputs < model.vocab_size()) {
    return check.refuse("an embedding has fewer rows than there are tokens", "embedding.tokens",
                        check.index, table.outputs, model.vocab_size());
  }
  return check.width("embedding.output", op.output, table.inputs);
}

bool verify_types(const OpCheck& check, const EmbeddingOp& op) {
  if (!check.tensor("embedding.types", op.types, Layout::kRows)) return false;
  const TensorShape table = check.model.tensor(op.types);
  if (table.outputs == 0) {
    return check.refuse("a table of token types has no rows", "embedding.types", check.index, 0, 1);
  }
  return check.width("embedding.output", op.output, table.inputs);
}

// Positions without padding are counted in the ids of the call, which must be those of the whole
// sequence.
bool verify_padding(const OpCheck& check, const EmbeddingOp& op) {
  if (op.padding_id == kNoPadding) return true;
  if (op.tokens == kNoTensor || op.positions == kNoTensor || op.position_offset == 0 ||
      op.padding_id >= check.model.vocab_size()) {
    return check.refuse("a padding id needs tokens, positions and a row of its own",
                        "embedding.padding_id", check.index, op.padding_id,
                        check.model.vocab_size());
  }
  return !check.causal || check.refuse("a causal model has no padding id", "embedding.padding_id",
                                       check.index, op.padding_id, kNoPadding);
}

bool verify_embedding(const OpCheck& check, const EmbeddingOp& op) {
  const ModelReader& model = check.model;
  if (op.output.width == 0 || model.slot(op.output.slot).per_output) {
    return check.refuse("an embedding needs a row for each token", "embedding.output", check.index);
  }
  if (op.tokens == kNoTensor && (op.types != kNoTensor || op.positions == kNoTensor)) {
    return check.refuse("an embedding without tokens has positions alone", "embedding.tokens",
                        check.index);
  }
  return verify_padding(check, op) && (op.tokens == kNoTensor || verify_token_table(check, op)) &&
         check.finite("embedding.scale", op.scale, false) &&
         (op.positions == kNoTensor || verify_positions(check, "embedding.positions", op.positions,
                                                        op.position_offset, op.output.width)) &&
         (op.types == kNoTensor || verify_types(check, op));
}

bool verify_norm(const OpCheck& check, const NormOp& op) {
  if (op.kind > kLastNormKind) {
    return check.refuse("a norm is of an unknown kind", "norm.kind", check.index,
                        static_cast<uint64_t>(op.kind), static_cast<uint64_t>(kLastNormKind));
  }
  if (op.groups == 0 || op.input.width % op.groups != 0) {
    return check.refuse("a norm's groups do not divide its columns", "norm.groups", check.index,
                        op.groups, op.input.width);
  }
  if (!check.width("norm.output", op.output, op.input.width) ||
      !check.finite("norm.epsilon", op.epsilon, true)) {
    return false;
  }
  if (op.kind == NormKind::kLength) {
    if (op.gain == kNoTensor && op.bias == kNoTensor) return true;
    return check.refuse("a norm by length has no gain and no bias", "norm.gain", check.index);
  }
  const uint32_t width = op.input.width / op.groups;
  return check.vector("norm.gain", op.gain, width) &&
         (op.bias == kNoTensor || check.vector("norm.bias", op.bias, width));
}

bool verify_rope(const OpCheck& check, const RopeOp& op) {
  if (op.target.width == 0 || check.model.slot(op.target.slot).per_output) {
    return check.refuse("a rotation needs a row for each token", "rope.target", check.index);
  }
  if (op.heads == 0 || op.target.width % op.heads != 0) {
    return check.refuse("a rotation's heads do not divide its columns", "rope.heads", check.index,
                        op.heads, op.target.width);
  }
  if (!check.tensor("rope.angles", op.angles, Layout::kRows)) return false;
  const uint32_t rotary_dim = check.model.tensor(op.angles).inputs;
  if (rotary_dim % 2 != 0 || rotary_dim > op.target.width / op.heads) {
    return check.refuse("a rotation turns more dimensions than a head has, or an odd number",
                        "rope.angles", check.index, rotary_dim, op.target.width / op.heads);
  }
  return verify_positions(check, "rope.angles", op.angles, 0, rotary_dim);
}

bool verify_activation(const OpCheck& check, const ActivationOp& op) {
  if (op.kind > kLastActivation) {
    return check.refuse("an activation is of an unknown kind", "activation.kind", check.index,
                        static_cast<uint64_t>(op.kind), static_cast<uint64_t>(kLastActivation));
  }
  if (has_parameter(op.kind) &&
      !check.finite("activation.cap", op.cap, op.kind == ActivationKind::kSoftCap)) {
    return false;
  }
  return check.width("activation.target", op.target, op.target.width) &&
         (op.factor.width == 0 || check.width("activation.factor", op.factor, op.target.width));
}

bool verify_select(const OpCheck& check, const SelectOp& op) {
  if (!check.width("select.output", op.output, op.input.width)) return false;
  if (check.model.slot(op.input.slot).per_output) {
    return check.refuse("a selection needs a row for each token", "select.input", check.index);
  }
  if (op.kind > kLastSelectKind) {
    return check.refuse("a selection is of an unknown kind", "select.kind", check.index,
                        static_cast<uint64_t>(op.kind), static_cast<uint64_t>(kLastSelectKind));
  }
  if ((op.kind != SelectKind::kAsAsked) != check.model.pooled()) {
    return check.refuse("either all selections of a model pool, or none", "select.kind",
                        check.index, static_cast<uint64_t>(op.kind), 0);
  }
  return true;
}

bool verify_op(const OpCheck& check, const OpView& op, uint32_t& caches_used) {
  using enum Feature;
  switch (op.kind) {
    case OpKind::kLinear:
      if constexpr (linked(kLinear)) return verify_linear(check, op.linear);
      break;
    case OpKind::kAttention:
      if constexpr (linked(kAttention)) return verify_attention(check, op.attention, caches_used);
      break;
    case OpKind::kEmbedding:
      if constexpr (linked(kEmbedding)) return verify_embedding(check, op.embedding);
      break;
    case OpKind::kNorm:
      if constexpr (kNormsLinked) return verify_norm(check, op.norm);
      break;
    case OpKind::kRope:
      if constexpr (linked(kRope)) return verify_rope(check, op.rope);
      break;
    case OpKind::kActivation:
      if constexpr (kActivationsLinked) return verify_activation(check, op.activation);
      break;
    case OpKind::kAdd:
      if constexpr (linked(kAdd))
        return check.width("add.target", op.add.target, op.add.other.width);
      break;
    case OpKind::kSelect:
      if constexpr (linked(kSelect)) return verify_select(check, op.select);
      break;
    case OpKind::kNone:
      break;
  }
  // verify_flow and verify_needs refused nearly all of these.
  return check.refuse("an op is of a kind that is not known", "ops.body", check.index);
}

}  // namespace

// REQUIRES: verify_flow, which knows that views lie within their slots.
bool verify_ops(const ModelReader& model, const Refusal& refuse) {
  const bool causal = model.causal();
  uint32_t caches_used = 0;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    if (!verify_op({model, i, causal, refuse}, model.op(i), caches_used)) return false;
  }
  if (caches_used != model.caches()) {
    return refuse("no attention op uses a cache", "caches", caches_used, model.caches(),
                  caches_used);
  }
  const uint32_t columns = model.slot(model.output_slot()).width;
  if (model.labels() != 0 && model.labels() != columns) {
    return refuse("there is not one label for each column that the model gives out", "labels", 0,
                  model.labels(), columns);
  }
  return true;
}

}  // namespace arenite::format
