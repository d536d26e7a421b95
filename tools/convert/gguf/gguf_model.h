// SPDX-License-Identifier: Apache-2.0
// The model that a GGUF file describes by its metadata: a decoder, and the tokenizer that it
// carries beside the weights, as it lies there and understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/gguf/gguf_file.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::convert {

// All metadata but the tokenizer's and those of general.*, which say where the file comes from;
// "general.architecture" is there. Throws InputError for arrays of more elements than any
// architecture's fields have.
ConfigFields gguf_fields(const GgufFile& file);

// Architectures llama, gpt2, qwen2 and qwen3. Throws InputError for others, for metadata about the
// computation that is not understood, and for tensors missing or left over. `store` is tensors_of
// the file.
TransformerSpec read_gguf_decoder(const GgufFile& file, const TensorStore& store);

// The tokenizer as it lies in the file. The arrays are empty where it has none; otherwise scores
// and types go with tokens one to one.
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

// The tokenizer.ggml.* metadata. Throws InputError where a value has the wrong type, or an array
// another length than the tokens. Nothing there: an empty tokenizer.
GgufTokenizer read_gguf_tokenizer(const GgufFile& file);

// `origin` is the file, for messages. Throws InputError for a model or a pre-tokenizer that is not
// supported, by name.
TokenizerSpec understand_gguf_tokenizer(const GgufTokenizer& tokens, const std::string& origin);

}  // namespace arenite::convert
