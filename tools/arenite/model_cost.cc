// SPDX-License-Identifier: Apache-2.0
// Counts multiply-adds.
#include "arenite/model_cost.h"

#include "convert/mask_pairs.h"

namespace arenite::tool {

OpCost op_cost(const format::ModelReader& model, uint32_t index) {
  const format::OpView op = model.op(index);
  if (op.kind == format::OpKind::kLinear) {
    return {uint64_t{op.linear.input.width} * op.linear.output.width, 0};
  }
  if (op.kind != format::OpKind::kAttention) return {};
  const CacheShape cache = model.cache(op.attention.cache);
  return {0, op.attention.heads * (uint64_t{cache.head_dim} + cache.value_dim)};
}

double op_flops(const format::ModelReader& model, uint32_t index, uint32_t tokens) {
  const format::OpView op = model.op(index);
  const OpCost cost = op_cost(model, index);
  double pairs = 0.0;
  if (op.kind == format::OpKind::kAttention) {
    const convert::MaskPairs mask(model.mask(op.attention.mask), tokens);
    pairs = static_cast<double>(mask.visible());
  }
  return 2.0 * (tokens * static_cast<double>(cost.per_token) +
                pairs * static_cast<double>(cost.per_pair));
}

double model_flops(const format::ModelReader& model, uint32_t tokens) {
  double flops = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) flops += op_flops(model, i, tokens);
  return flops;
}

}  // namespace arenite::tool
