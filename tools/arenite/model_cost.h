// SPDX-License-Identifier: Apache-2.0
// What a model computes, counted from its program.
#pragma once

#include <cstdint>

#include "format/reader.h"

namespace arenite::tool {

// Floating-point operations of op `index` over one sequence of `tokens` tokens, two per
// multiply-add. Attention counts visible pairs only; exponentials and copies do not count.
double op_flops(const format::ModelReader& model, uint32_t index, uint32_t tokens);

// The same of all ops.
double model_flops(const format::ModelReader& model, uint32_t tokens);

}  // namespace arenite::tool
