// SPDX-License-Identifier: Apache-2.0
// Chooses the family of a Hugging Face decoder by model_type.
#include "convert/families/hf_models.h"

#include "convert/families/families.h"
#include "convert/families/reader_parts.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

struct HfDecoder {
  const char* model_type;
  HfDecoderReader* read;
};

constexpr HfDecoder kDecoders[] = {
    {"gpt2", read_hf_gpt2},     {"gpt_neox", read_hf_gpt_neox}, {"phi", read_hf_phi},
    {"bloom", read_hf_bloom},   {"mpt", read_hf_mpt},           {"llama", read_hf_llama},
    {"mistral", read_hf_llama}, {"qwen2", read_hf_llama},       {"qwen3", read_hf_llama},
    {"gemma", read_hf_llama},
};

}  // namespace

std::string decoder_types() {
  std::string types;
  for (const HfDecoder& decoder : kDecoders) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", decoder.model_type);
  }
  return types;
}

DecoderSpec read_hf_decoder(const Opened& model) {
  ConfigFields config = model.config_fields();
  ModelTensors tensors(model.tensors);
  const std::string type = config.text("model_type");
  for (const HfDecoder& decoder : kDecoders) {
    if (type != decoder.model_type) continue;
    DecoderSpec spec = decoder.read(config, tensors, type);
    note_passed_over(config.finish(), spec);
    pass_over_buffers(tensors);
    tensors.finish();
    return spec;
  }
  config.refuse("model_type", fmt::format("expected a decoder ({}) or an encoder ({})",
                                          decoder_types(), encoder_types()));
}

}  // namespace arenite::convert
