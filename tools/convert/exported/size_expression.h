// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes as PyTorch writes them: SymPy's constructors, such as
// Add(Symbol('s27', positive=True, integer=True), Integer(-1)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace arenite::convert {

// The size, or nothing for a symbol that `value_of` has no number for, for functions that are not
// known, and for what is no size. A text without parentheses is a symbol's name.
std::optional<int64_t> evaluate_size(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view symbol)>& value_of);

}  // namespace arenite::convert
