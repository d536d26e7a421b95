// SPDX-License-Identifier: Apache-2.0
// The tokenizer that a GGUF file carries beside the weights: as it lies there, and understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// The arrays are empty where the file has none; otherwise scores and types go with tokens one to
// one.
struct GgufTokenizer {
  std::string model;          // tokenizer.ggml.model: "llama" (SentencePiece), "gpt2" (byte-level)
  std::string pre_tokenizer;  // tokenizer.ggml.pre: "llama-bpe", "qwen2", ...; empty: not said
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;       // 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte
  std::vector<std::string> merges;  // "left right", by rank
  std::optional<uint32_t> bos_id, eos_id, unknown_id, padding_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// `origin` is the file, for messages. Throws InputError for a model or a pre-tokenizer that is not
// supported, by name.
TokenizerSpec understand_gguf_tokenizer(const GgufTokenizer& tokens, const std::string& origin);

}  // namespace arenite::convert
