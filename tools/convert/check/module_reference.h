// SPDX-License-Identifier: Apache-2.0
// Computes an attention module in double precision, from its original weights.
#pragma once

#include <span>
#include <vector>

#include "convert/spec/attention_module.h"

namespace arenite::convert {

struct ReferenceOutput {
  std::vector<double> values;  // [tokens, module.output_features()]
  double largest_value = 0.0;
  // Largest sum over d of |query[d] * key[d]|, times the scale of scores: the rounding errors of
  // scores, and with them the relative errors of softmax, are proportional to it.
  double largest_score = 0.0;
};

// input [tokens, module.features], one sequence. Plain loops that share nothing with the runtime
// but the mask's meaning.
ReferenceOutput reference_output(const AttentionModule& module, std::span<const float> input,
                                 uint32_t tokens);

}  // namespace arenite::convert
