// SPDX-License-Identifier: Apache-2.0
// Ids of tokens: indices into the vocabulary of a model.
#pragma once

#include <cstdint>

namespace arenite {

// An index into the vocabulary of a model, below Model::vocab_size().
using TokenId = uint32_t;

inline constexpr TokenId kNoToken = UINT32_MAX;  // the id that stands for no token

}  // namespace arenite
