// SPDX-License-Identifier: Apache-2.0
// The number of a token in the vocabulary of a model.
#pragma once

#include <cstdint>

namespace arenite {

using TokenId = uint32_t;

inline constexpr TokenId kNoToken = UINT32_MAX;  // where there is none

}  // namespace arenite
