// SPDX-License-Identifier: Apache-2.0
// Reads `tokenizer.bin`, the tokenizer file of llama2.c.
#pragma once

#include <filesystem>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// The first tokens are unknown, begin and end; then come the 256 bytes, or there are none and a
// character without a token is the unknown one. Throws InputError for a file that ends early, and
// for bytes that are elsewhere or not all there.
TokenizerSpec read_llama2c_tokenizer(const std::filesystem::path& file);

}  // namespace arenite::convert
