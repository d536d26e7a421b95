// SPDX-License-Identifier: Apache-2.0
// The families of Hugging Face decoders: a function for each, or for several that are much alike.
#pragma once

#include <string>

#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Takes all fields that its family has, and all tensors. `model_type` is taken already.
using HfDecoderReader = DecoderSpec(ConfigFields& config, ModelTensors& tensors,
                                    const std::string& model_type);

HfDecoderReader read_hf_gpt2, read_hf_gpt_neox, read_hf_phi;
HfDecoderReader read_hf_llama;  // mistral, qwen2, qwen3 and gemma, too

}  // namespace arenite::convert
