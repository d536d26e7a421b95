// SPDX-License-Identifier: Apache-2.0
// What a person should know of a tokenizer before texts go through it.
#pragma once

#include <string>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Adds notes: about text that is expected in form C, and about what becomes of characters that
// have neither a token nor tokens of their bytes.
void add_notes(TokenizerSpec& spec);

// Whose characters the tokenizer's classes hold, such as "letters and numbers of Unicode 16.0";
// empty for one that cuts texts without asking Unicode.
std::string describe_unicode(const TokenizerSpec& spec);

}  // namespace arenite::convert
