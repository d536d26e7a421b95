// SPDX-License-Identifier: Apache-2.0
// Chooses the family by model_type, and says which families there are where it is none of them.
#include "convert/families/hf_decoder.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "convert/families/decoder_buffers.h"
#include "convert/families/hf_encoder.h"
#include "convert/families/hf_fields.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr const char* kLlamaLike[] = {"llama", "mistral", "qwen2", "qwen3", "gemma"};

DecoderSpec read_family(ConfigFields& config, ModelTensors& tensors) {
  const std::string type = config.text("model_type");
  if (type == "gpt2") return read_hf_gpt2(config, tensors);
  if (type == "gpt_neox") return read_hf_gpt_neox(config, tensors);
  if (type == "phi") return read_hf_phi(config, tensors);
  if (std::find(std::begin(kLlamaLike), std::end(kLlamaLike), type) != std::end(kLlamaLike)) {
    return read_hf_llama(config, tensors, type);
  }
  config.refuse("model_type",
                fmt::format("expected a decoder (gpt2, gpt_neox, phi, {}) or an encoder ({})",
                            fmt::join(kLlamaLike, ", "), encoder_types()));
}

}  // namespace

DecoderSpec read_hf_decoder(ConfigFields& config, ModelTensors& tensors) {
  DecoderSpec spec = read_family(config, tensors);
  finish_fields(config, spec);
  pass_over_buffers(tensors);
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
