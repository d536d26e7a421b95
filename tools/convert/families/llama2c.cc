// SPDX-License-Identifier: Apache-2.0
// Llama models in the files of llama2.c, which has one kind of model only.
#include "convert/families/families.h"

#include <fmt/format.h>

#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

constexpr double kEpsilon = 1e-5;  // fixed in the program, like theta
constexpr double kTheta = 10000.0;

LayerSpec read_layer(ModelTensors& tensors, const DecoderSpec& spec, const std::string& name) {
  const uint32_t width = spec.model_dim;
  const uint32_t key_rows = spec.kv_heads * spec.head_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(name + part, outputs, inputs, Presence::kNone);
  };
  LayerSpec layer;
  layer.attention_norm = tensors.rms_norm(name + "attention_norm", width, kEpsilon);
  layer.query = linear("attention.wq", width, width);
  layer.key = linear("attention.wk", key_rows, width);
  layer.value = linear("attention.wv", key_rows, width);
  layer.output = linear("attention.wo", width, width);
  layer.mlp_norm = tensors.rms_norm(name + "ffn_norm", width, kEpsilon);
  layer.gate = linear("feed_forward.w1", spec.ffn_dim, width);
  layer.down = linear("feed_forward.w2", width, spec.ffn_dim);
  layer.up = linear("feed_forward.w3", spec.ffn_dim, width);
  return layer;
}

}  // namespace

DecoderSpec read_llama2c(const Opened& model) {
  const Llama2cHeader& header = *model.llama2c;
  DecoderSpec spec;
  spec.architecture = "llama";
  spec.vocab_size = static_cast<uint32_t>(header.vocab_size);
  spec.model_dim = static_cast<uint32_t>(header.model_dim);
  spec.heads = static_cast<uint32_t>(header.heads);
  spec.kv_heads = static_cast<uint32_t>(header.kv_heads);
  spec.head_dim = static_cast<uint32_t>(header.head_dim());
  spec.ffn_dim = static_cast<uint32_t>(header.ffn_dim);
  spec.positions_max = static_cast<uint32_t>(header.positions);
  spec.activation = Activation::kSilu;
  spec.rope = plain_rope(spec.head_dim, kTheta);
  spec.rope->turns_neighbours = true;

  ModelTensors tensors(model.tensors);
  spec.token_embedding = tensors.matrix("tok_embeddings.weight", spec.vocab_size, spec.model_dim);
  for (int64_t i = 0; i < header.layers; ++i) {
    spec.layers.push_back(read_layer(tensors, spec, fmt::format("layers.{}.", i)));
  }
  spec.final_norm = tensors.rms_norm("norm", spec.model_dim, kEpsilon);
  if (!header.is_tied) {
    spec.output = tensors.linear("output", spec.vocab_size, spec.model_dim, Presence::kNone);
  }
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
