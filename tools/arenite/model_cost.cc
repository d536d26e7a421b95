// SPDX-License-Identifier: Apache-2.0
// Counts multiply-adds.
#include "arenite/model_cost.h"

#include "convert/mask_compiler.h"

namespace arenite::tool {

double op_flops(const format::ModelReader& model, uint32_t index, uint32_t tokens) {
  const format::OpView op = model.op(index);
  if (op.kind == format::OpKind::kLinear) {
    return 2.0 * tokens * op.linear.input.width * op.linear.output.width;
  }
  const CacheShape cache = model.cache(op.attention.cache);
  const double pairs =
      static_cast<double>(convert::visible_pairs(model.mask(op.attention.mask), tokens));
  return 2.0 * pairs * op.attention.heads * (double{1} * cache.head_dim + cache.value_dim);
}

double model_flops(const format::ModelReader& model, uint32_t tokens) {
  double flops = 0.0;
  for (uint32_t i = 0; i < model.ops(); ++i) flops += op_flops(model, i, tokens);
  return flops;
}

}  // namespace arenite::tool
