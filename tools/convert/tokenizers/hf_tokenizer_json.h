// SPDX-License-Identifier: Apache-2.0
// Reads `tokenizer.json`, the file of Hugging Face's tokenizers library.
#pragma once

#include <filesystem>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A BPE model, byte-level or with U+2581 for spaces. Whatever is not understood is refused by name:
// InputError. The file does not say which token ends a text; the folder's other files do
// (tokenizer_source.h).
TokenizerSpec read_hf_tokenizer_json(const std::filesystem::path& file);

}  // namespace arenite::convert
