// SPDX-License-Identifier: Apache-2.0
// Computes an attention module in double precision, from its original weights.
#pragma once

#include <span>
#include <vector>

#include "convert/attention_module.h"

namespace arenite::convert {

// input [tokens, module.features] -> [tokens, module.output_features()], one sequence.
// Plain loops that share nothing with the runtime but the mask's meaning.
std::vector<double> reference_output(const AttentionModule& module, std::span<const float> input,
                                     uint32_t tokens);

}  // namespace arenite::convert
