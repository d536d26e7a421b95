// SPDX-License-Identifier: Apache-2.0
// Counts multiply-adds and bytes.
#include "cli/model_cost.h"

#include "convert/masks/mask_pairs.h"

namespace arenite::tool {
namespace {

// Pairs that the fed tokens see. In a causal mask, what is held hides nothing of itself later.
double visible_pairs(const MaskView& mask, const Feed& feed) {
  if (feed.tokens == 0) return 0.0;
  const uint64_t all = convert::MaskPairs(mask, feed.held + feed.tokens).visible();
  const uint64_t before = feed.held == 0 ? 0 : convert::MaskPairs(mask, feed.held).visible();
  return static_cast<double>(all - before);
}

// Of weights that an op multiplies by, or adds.
double weight_bytes(const format::ModelReader& model, uint32_t packed_index, uint32_t tensor) {
  const Packing packing = model.packed(packed_index).packing;
  return static_cast<double>(format::stored_bytes(model.tensor(tensor), packing).value());
}

}  // namespace

OpCost op_cost(const format::ModelReader& model, uint32_t index) {
  const format::OpView op = model.op(index);
  if (op.kind == format::OpKind::kLinear) {
    return {uint64_t{op.linear.input.width} * op.linear.output.width, 0};
  }
  if (op.kind != format::OpKind::kAttention) return {};
  const CacheShape cache = model.cache(op.attention.cache);
  return {0, op.attention.heads * (uint64_t{cache.head_dim} + cache.value_dim)};
}

double op_flops(const format::ModelReader& model, uint32_t index, const Feed& feed) {
  const format::OpView op = model.op(index);
  const OpCost cost = op_cost(model, index);
  if (op.kind == format::OpKind::kAttention) {
    const double pairs = visible_pairs(model.mask(op.attention.mask), feed);
    return 2.0 * pairs * static_cast<double>(cost.per_pair);
  }
  if (op.kind != format::OpKind::kLinear) return 0.0;
  const bool per_output = model.slot(op.linear.input.slot).per_output;
  return 2.0 * (per_output ? feed.outputs : feed.tokens) * static_cast<double>(cost.per_token);
}

double model_flops(const format::ModelReader& model, const Feed& feed) {
  double flops = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) flops += op_flops(model, i, feed);
  return flops;
}

double decode_bytes(const format::ModelReader& model, uint32_t packed_index, uint32_t held) {
  double bytes = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) {
    const format::OpView op = model.op(i);
    if (op.kind == format::OpKind::kLinear) {
      bytes += weight_bytes(model, packed_index, op.linear.tensor);
    } else if (op.kind == format::OpKind::kEmbedding) {
      bytes += op.embedding.output.width * sizeof(float);
    } else if (op.kind == format::OpKind::kAttention) {
      const CacheShape cache = model.cache(op.attention.cache);
      const double keys = visible_pairs(model.mask(op.attention.mask), {held, 1, 1});
      bytes += keys * cache.kv_heads * (cache.head_dim + cache.value_dim) * sizeof(float);
    }
  }
  return bytes;
}

}  // namespace arenite::tool
