// SPDX-License-Identifier: Apache-2.0
// Decoders as Hugging Face's transformers library saves them: a config and tensors by its names.
#pragma once

#include "convert/spec/config_fields.h"
#include "convert/spec/decoder_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// The decoder that `config` describes, by its model_type: gpt2, llama, mistral, qwen2, qwen3,
// gemma, gpt_neox or phi. Throws InputError for other types, for any field that is not understood,
// and for tensors that are missing, of another shape, or left over.
DecoderSpec read_hf_decoder(ConfigFields& config, ModelTensors& tensors);

// One function per family; `model_type` is taken already.
DecoderSpec read_hf_gpt2(ConfigFields& config, ModelTensors& tensors);
DecoderSpec read_hf_llama(ConfigFields& config, ModelTensors& tensors,
                          const std::string& model_type);  // and all who are much like it
DecoderSpec read_hf_gpt_neox(ConfigFields& config, ModelTensors& tensors);
DecoderSpec read_hf_phi(ConfigFields& config, ModelTensors& tensors);

}  // namespace arenite::convert
