// SPDX-License-Identifier: Apache-2.0
// The decoder that a GGUF file describes, by its metadata.
#pragma once

#include <filesystem>
#include <memory>

#include "convert/gguf/gguf_file.h"
#include "convert/gguf/gguf_tokenizer.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// All metadata but the tokenizer's and those of general.*, which say where the file comes from;
// "general.architecture" is there. Throws InputError for arrays of more elements than any
// architecture's fields have.
ConfigFields gguf_fields(const GgufFile& file);

// Architectures llama, gpt2, qwen2 and qwen3. Throws InputError for others, for metadata about the
// computation that is not understood, and for tensors missing or left over. `store` is tensors_of
// the file.
DecoderSpec read_gguf_decoder(const GgufFile& file, const TensorStore& store);

// The tokenizer.ggml.* metadata. Throws InputError where a value has the wrong type, or an array
// another length than the tokens. Nothing there: an empty tokenizer.
GgufTokenizer read_gguf_tokenizer(const GgufFile& file);

}  // namespace arenite::convert
