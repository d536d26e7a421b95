// SPDX-License-Identifier: Apache-2.0
// What a model computes, counted from its program.
#pragma once

#include <cstdint>

#include "format/reader.h"

namespace arenite::tool {

// Multiply-adds of an op: for each row, and for each pair of a query and a key that it sees. Ops
// other than products of matrices count nothing.
struct OpCost {
  uint64_t per_token = 0;
  uint64_t per_pair = 0;
};
OpCost op_cost(const format::ModelReader& model, uint32_t index);

// Floating-point operations of op `index` over one sequence of `tokens` tokens, two per
// multiply-add. Attention counts visible pairs only; exponentials and copies do not count.
double op_flops(const format::ModelReader& model, uint32_t index, uint32_t tokens);

// The same of all ops.
double model_flops(const format::ModelReader& model, uint32_t tokens);

}  // namespace arenite::tool
