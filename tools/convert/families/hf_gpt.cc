// SPDX-License-Identifier: Apache-2.0
// GPT-2, with learned positions and Conv1D layers that keep [inputs, outputs]; GPT-NeoX (Pythia)
// and Phi, where part of each head rotates, and attention and MLP may run side by side.
#include "convert/families/hf_models.h"

#include <optional>
#include <string>

#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

LayerSpec read_layer(ModelTensors& tensors, const DecoderSpec& spec, double epsilon,
                     const std::string& name) {
  const uint32_t width = spec.model_dim;
  LayerSpec layer;
  layer.attention_norm = tensors.layer_norm(name + "ln_1", width, epsilon);
  split_fused(layer, tensors.conv1d(name + "attn.c_attn", 3 * width, width, Presence::kRequired),
              width, width);
  layer.output = tensors.conv1d(name + "attn.c_proj", width, width, Presence::kRequired);
  layer.mlp_norm = tensors.layer_norm(name + "ln_2", width, epsilon);
  layer.up = tensors.conv1d(name + "mlp.c_fc", spec.ffn_dim, width, Presence::kRequired);
  layer.down = tensors.conv1d(name + "mlp.c_proj", width, spec.ffn_dim, Presence::kRequired);
  return layer;
}

// `ffn_dim` is what the transformers package takes where the config does not say it.
void read_sizes(ConfigFields& config, DecoderSpec& spec, uint32_t ffn_dim) {
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = config.count("hidden_size");
  spec.ffn_dim = config.count("intermediate_size", ffn_dim);
  spec.positions_max = config.count("max_position_embeddings", 2048);
  spec.heads = config.count("num_attention_heads");
  spec.kv_heads = config.count("num_key_value_heads", spec.heads);
}

LayerSpec read_neox_layer(ModelTensors& tensors, const DecoderSpec& spec, double epsilon,
                          Presence attention_bias, const std::string& name) {
  const uint32_t width = spec.model_dim;
  LayerSpec layer;
  layer.attention_norm = tensors.layer_norm(name + "input_layernorm", width, epsilon);
  const LinearSpec fused =
      tensors.linear(name + "attention.query_key_value", 3 * width, width, attention_bias);
  split_interleaved(layer, fused, spec);
  layer.output = tensors.linear(name + "attention.dense", width, width, attention_bias);
  layer.mlp_norm = tensors.layer_norm(name + "post_attention_layernorm", width, epsilon);
  layer.up = tensors.linear(name + "mlp.dense_h_to_4h", spec.ffn_dim, width, Presence::kRequired);
  layer.down = tensors.linear(name + "mlp.dense_4h_to_h", width, spec.ffn_dim, Presence::kRequired);
  return layer;
}

LayerSpec read_phi_layer(ModelTensors& tensors, const DecoderSpec& spec, double epsilon,
                         const std::string& name) {
  const uint32_t width = spec.model_dim;
  const uint32_t query_rows = spec.heads * spec.head_dim;
  const uint32_t key_rows = spec.kv_heads * spec.head_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(name + part, outputs, inputs, Presence::kRequired);
  };
  LayerSpec layer;
  layer.parallel_residual = true;
  layer.attention_norm = tensors.layer_norm(name + "input_layernorm", width, epsilon);
  layer.query = linear("self_attn.q_proj", query_rows, width);
  layer.key = linear("self_attn.k_proj", key_rows, width);
  layer.value = linear("self_attn.v_proj", key_rows, width);
  layer.output = linear("self_attn.dense", width, query_rows);
  layer.up = linear("mlp.fc1", spec.ffn_dim, width);
  layer.down = linear("mlp.fc2", width, spec.ffn_dim);
  return layer;
}

}  // namespace

DecoderSpec read_hf_gpt2(ConfigFields& config, ModelTensors& tensors, const std::string&) {
  DecoderSpec spec;
  spec.architecture = "gpt2";
  const uint32_t layers = read_old_sizes(config, spec, {"n_embd", "n_head", "n_layer"});
  spec.ffn_dim = config.count("n_inner", 4 * spec.model_dim);
  spec.positions_max = read_size(config, "n_positions", "max_position_embeddings", 1024);
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, {.bos = 50256, .eos = 50256});
  const double epsilon = config.positive("layer_norm_epsilon", 1e-5);
  config.expect("n_ctx", spec.positions_max, "it is the older name of n_positions");
  config.expect("scale_attn_weights", true, "scores without 1/sqrt(head_dim) are not supported");
  config.expect("scale_attn_by_inverse_layer_idx", false,
                "scores scaled by the layer's number are not supported");
  const bool is_tied = config.flag("tie_word_embeddings", true);

  const std::string prefix = prefix_of(tensors, "transformer.", "wte.weight");
  read_embedding_and_head(config, tensors, spec, {prefix, "wte.weight", "lm_head"}, is_tied);
  spec.position_embedding =
      tensors.matrix(prefix + "wpe.weight", spec.positions_max, spec.model_dim);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(read_layer(tensors, spec, epsilon, fmt::format("{}h.{}.", prefix, i)));
  }
  spec.final_norm = tensors.layer_norm(prefix + "ln_f", spec.model_dim, epsilon);
  return spec;
}

DecoderSpec read_hf_gpt_neox(ConfigFields& config, ModelTensors& tensors, const std::string&) {
  DecoderSpec spec;
  spec.architecture = "gpt_neox";
  read_sizes(config, spec, 24576);
  config.expect("num_key_value_heads", spec.heads, "GPT-NeoX has as many as query heads");
  spec.head_dim = even_head_dim(spec.model_dim, spec.heads, config.where());
  config.expect("head_dim", spec.head_dim, "GPT-NeoX divides its width by its heads");
  const uint32_t layers = config.count("num_hidden_layers");
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, {.bos = 0, .eos = 2});
  expect_layer_types(config, "full_attention");
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.rope = read_hf_rope(config, spec,
                           {.theta = {"rotary_emb_base", "rope_theta"},
                            .partial_factor = {"rotary_pct", "partial_rotary_factor"},
                            .partial_fallback = 0.25});
  const double epsilon = config.positive("layer_norm_eps", 1e-5);
  const bool is_parallel = config.flag("use_parallel_residual", true);
  const Presence attention_bias =
      config.flag("attention_bias", true) ? Presence::kRequired : Presence::kNone;
  const bool is_tied = config.flag("tie_word_embeddings", false);

  const std::string prefix = prefix_of(tensors, "gpt_neox.", "embed_in.weight");
  read_embedding_and_head(config, tensors, spec, {prefix, "embed_in.weight", "embed_out"}, is_tied);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(read_neox_layer(tensors, spec, epsilon, attention_bias,
                                          fmt::format("{}layers.{}.", prefix, i)));
    spec.layers[i].parallel_residual = is_parallel;
  }
  spec.final_norm = tensors.layer_norm(prefix + "final_layer_norm", spec.model_dim, epsilon);
  return spec;
}

DecoderSpec read_hf_phi(ConfigFields& config, ModelTensors& tensors, const std::string&) {
  DecoderSpec spec;
  spec.architecture = "phi";
  read_sizes(config, spec, 8192);
  spec.head_dim = config.has("head_dim")
                      ? config.count("head_dim")
                      : even_head_dim(spec.model_dim, spec.heads, config.where());
  const uint32_t layers = config.count("num_hidden_layers");
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, {.bos = 1, .eos = 2});
  expect_layer_types(config, "full_attention");
  config.expect("qk_layernorm", false, "layer norms of queries and keys are not supported");
  const bool is_tied = config.flag("tie_word_embeddings", false);
  spec.activation = read_activation(config, "hidden_act", "gelu_new");
  // Newer programs save the default in the old place, whatever the new one says.
  spec.rope = read_hf_rope(config, spec,
                           {.partial_factor = {"partial_rotary_factor"},
                            .partial_fallback = 0.5,
                            .inner_partial_counts = true});
  const double epsilon = config.positive("layer_norm_eps", 1e-5);

  const std::string prefix = prefix_of(tensors, "model.", "embed_tokens.weight");
  read_embedding_and_head(config, tensors, spec, {prefix, "embed_tokens.weight", "lm_head"},
                          is_tied, Presence::kRequired);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(
        read_phi_layer(tensors, spec, epsilon, fmt::format("{}layers.{}.", prefix, i)));
  }
  spec.final_norm = tensors.layer_norm(prefix + "final_layernorm", spec.model_dim, epsilon);
  return spec;
}

}  // namespace arenite::convert
