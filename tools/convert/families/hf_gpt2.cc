// SPDX-License-Identifier: Apache-2.0
// GPT-2: learned positions, layer norms, Conv1D layers that keep [inputs, outputs].
#include <optional>
#include <string>

#include "convert/families/hf_decoder.h"
#include "convert/families/hf_fields.h"
#include "convert/files/error.h"
#include "convert/spec/weight_transforms.h"

namespace arenite::convert {
namespace {

LayerSpec read_layer(ModelTensors& tensors, const DecoderSpec& spec, double epsilon,
                     const std::string& name) {
  const uint32_t width = spec.model_dim;
  LayerSpec layer;
  layer.attention_norm = tensors.layer_norm(name + "ln_1", width, epsilon);
  const LinearSpec fused =
      tensors.conv1d(name + "attn.c_attn", 3 * width, width, Presence::kRequired);
  layer.query = select_rows(fused, row_range(0, width));
  layer.key = select_rows(fused, row_range(width, width));
  layer.value = select_rows(fused, row_range(2 * width, width));
  layer.output = tensors.conv1d(name + "attn.c_proj", width, width, Presence::kRequired);
  layer.mlp_norm = tensors.layer_norm(name + "ln_2", width, epsilon);
  layer.up = tensors.conv1d(name + "mlp.c_fc", spec.ffn_dim, width, Presence::kRequired);
  layer.down = tensors.conv1d(name + "mlp.c_proj", width, spec.ffn_dim, Presence::kRequired);
  return layer;
}

// A size that configs may also call as those of other families do.
uint32_t read_size(ConfigFields& config, const char* name, const char* alias,
                   std::optional<uint32_t> fallback = {}) {
  if (!config.has(name) && config.has(alias)) return config.count(alias);
  const uint32_t size = config.count(name, fallback);
  config.expect(alias, size, "it is another name for the same size");
  return size;
}

}  // namespace

DecoderSpec read_hf_gpt2(ConfigFields& config, ModelTensors& tensors, const std::string&) {
  DecoderSpec spec;
  spec.architecture = "gpt2";
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = read_size(config, "n_embd", "hidden_size");
  spec.heads = spec.kv_heads = read_size(config, "n_head", "num_attention_heads");
  spec.head_dim = even_head_dim(spec.model_dim, spec.heads, config.where());
  spec.ffn_dim = config.count("n_inner", 4 * spec.model_dim);
  spec.positions_max = read_size(config, "n_positions", "max_position_embeddings", 1024);
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  const uint32_t layers = read_size(config, "n_layer", "num_hidden_layers");
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, {.bos = 50256, .eos = 50256});
  const double epsilon = config.positive("layer_norm_epsilon", 1e-5);
  config.expect("n_ctx", spec.positions_max, "it is the older name of n_positions");
  config.expect("scale_attn_weights", true, "scores without 1/sqrt(head_dim) are not supported");
  config.expect("scale_attn_by_inverse_layer_idx", false,
                "scores scaled by the layer's number are not supported");
  const bool is_tied = config.flag("tie_word_embeddings", true);

  const std::string prefix = prefix_of(tensors, "transformer.", "wte.weight");
  read_embedding_and_head(tensors, spec, {prefix, "wte.weight", "lm_head"}, is_tied);
  spec.position_embedding =
      tensors.matrix(prefix + "wpe.weight", spec.positions_max, spec.model_dim);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(read_layer(tensors, spec, epsilon, fmt::format("{}h.{}.", prefix, i)));
  }
  spec.final_norm = tensors.layer_norm(prefix + "ln_f", spec.model_dim, epsilon);
  return spec;
}

}  // namespace arenite::convert
