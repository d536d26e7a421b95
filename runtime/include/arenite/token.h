// SPDX-License-Identifier: Apache-2.0
// Ids of tokens: indices into the vocabulary of a model.
#pragma once

#include <cstdint>

namespace arenite {

using TokenId = uint32_t;

inline constexpr TokenId kNoToken = UINT32_MAX;  // no token

}  // namespace arenite
