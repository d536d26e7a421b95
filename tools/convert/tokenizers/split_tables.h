// SPDX-License-Identifier: Apache-2.0
// Compiles the steps of a pre-tokenizer to the tables that the runtime walks (SPEC.md):
// deterministic automata that find the leftmost match, of those at one place the preferred one.
#pragma once

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Fills in `columns` and `split_tables` from `splits`. Throws InputError that quotes an expression
// that cannot be a table, whose table is too large, or whose searches may take time that is
// quadratic in the text.
void compile_splits(TokenizerSpec& spec);

}  // namespace arenite::convert
