// SPDX-License-Identifier: Apache-2.0
// What WordPiece makes of each character of Unicode, as tables.
#pragma once

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Fills in `dropped`, `punctuation` and `folds`, and the flag for Hangul, from spec.word_rules.
// A character is left out of `folds` if its word is unknown in any case, as the vocabulary has
// neither it nor what it becomes. Throws InputError in a build without utf8proc.
void fill_word_tables(TokenizerSpec& spec);

}  // namespace arenite::convert
