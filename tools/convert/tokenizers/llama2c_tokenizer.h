// SPDX-License-Identifier: Apache-2.0
// Reads `tokenizer.bin`, the tokenizer file of llama2.c.
#pragma once

#include <filesystem>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// Throws InputError for a file that ends early or whose first tokens are not those of Llama:
// unknown, begin, end, and the 256 bytes.
TokenizerSpec read_llama2c_tokenizer(const std::filesystem::path& file);

}  // namespace arenite::convert
