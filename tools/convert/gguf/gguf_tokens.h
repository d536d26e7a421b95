// SPDX-License-Identifier: Apache-2.0
// Understands the tokenizer that a GGUF file carries.
#pragma once

#include <string>

#include "convert/gguf/gguf_tokenizer.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// `origin` is the file, for messages. Throws InputError for a model or a pre-tokenizer that is not
// supported, by name.
TokenizerSpec understand_gguf_tokenizer(const GgufTokenizer& tokens, const std::string& origin);

}  // namespace arenite::convert
