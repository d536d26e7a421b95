// SPDX-License-Identifier: Apache-2.0
// What the converter feeds a model that it checks. The same on every run.
#pragma once

#include <cstdint>
#include <vector>

#include "arenite/token.h"
#include "convert/program/program.h"

namespace arenite::convert {

// Features that look like normalised activations: zero mean, unit variance.
std::vector<float> features_to_check(size_t count);

// So many ids spread over a vocabulary.
std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size);

// `wanted` tokens, or a context's positions if these are fewer (0: any number), or more where a
// mask shows one of the queries nothing but later keys.
uint32_t token_count_for(uint32_t wanted, uint32_t positions_max,
                         const std::vector<CompiledMask>& masks);

// Types of tokens as a pair of texts has them, one half each; none for a model without types.
std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types);

// Enough tokens to pass a tile of every kernel set, fewer for large models, since the reference is
// slow, and for short contexts.
uint32_t token_count_to_check(const Program& program);

}  // namespace arenite::convert
