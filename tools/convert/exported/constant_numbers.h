// SPDX-License-Identifier: Apache-2.0
// Numbers of a program that nobody makes of the number of tokens.
#pragma once

#include <cstdint>
#include <set>

namespace arenite::convert {

// Whether a literal cannot be made of the number of tokens, as far as people write such: it is a
// common number of models, `widths` explain it, or it is far from all numbers of tokens. What
// stands beside positions may be any of them; the model's own numbers (`is_beside_numbers`) have
// common ones.
bool is_constant(double number, bool is_beside_numbers, int64_t tokens,
                 const std::set<int64_t>& widths);

}  // namespace arenite::convert
