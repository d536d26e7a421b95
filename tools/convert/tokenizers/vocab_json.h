// SPDX-License-Identifier: Apache-2.0
// Reads `vocab.json`, a vocabulary whose merges stand in a file beside it.
#pragma once

#include <filesystem>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// A byte-level tokenizer of `vocab.json` and, beside it, `merges.txt`: GPT-2's, or, where
// tokenizer_config.json names its class, Qwen 2's. Other classes are refused. Without merges.txt, a
// vocabulary of single characters.
TokenizerSpec read_vocab_json(const std::filesystem::path& vocab_file);

}  // namespace arenite::convert
