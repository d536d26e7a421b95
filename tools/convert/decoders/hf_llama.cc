// SPDX-License-Identifier: Apache-2.0
// Llama and the families that differ from it in details: Mistral, Qwen2, Qwen3 and Gemma.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "convert/decoders/hf_decoder.h"
#include "convert/decoders/hf_fields.h"
#include "convert/decoders/rope.h"
#include "convert/error.h"
#include "convert/models/hf_common.h"

namespace arenite::convert {
namespace {

enum class Family { kLlama, kMistral, kQwen2, kQwen3, kGemma };

Family family_of(const std::string& model_type) {
  if (model_type == "mistral") return Family::kMistral;
  if (model_type == "qwen2") return Family::kQwen2;
  if (model_type == "qwen3") return Family::kQwen3;
  if (model_type == "gemma") return Family::kGemma;
  return Family::kLlama;
}

void read_sizes(ConfigFields& config, Family family, DecoderSpec& spec) {
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = config.count("hidden_size");
  spec.ffn_dim = config.count("intermediate_size");
  spec.positions_max = config.count("max_position_embeddings");
  spec.heads = config.count("num_attention_heads");
  // Llama's configs of 2023 lack this field, and null means the same in every family.
  const bool may_lack = family == Family::kLlama || config.is_null("num_key_value_heads");
  spec.kv_heads = may_lack ? config.count("num_key_value_heads", spec.heads)
                           : config.count("num_key_value_heads");
  // Qwen3 and Gemma have a default that does not follow from the other sizes.
  if (family == Family::kQwen3 || family == Family::kGemma || config.has("head_dim")) {
    spec.head_dim = config.count("head_dim");
  } else {
    config.pass_over("head_dim");
    spec.head_dim = even_head_dim(spec.model_dim, spec.heads, config.where());
  }
}

// Gemma was trained with the tanh form, also where an early config calls it "gelu".
Activation read_gemma_activation(ConfigFields& config) {
  if (config.has("hidden_activation")) {
    config.pass_over("hidden_act");
    return read_activation(config, "hidden_activation", "");
  }
  const Activation activation = read_activation(config, "hidden_act", "gelu_pytorch_tanh");
  return activation == Activation::kGeluErf ? Activation::kGeluTanh : activation;
}

// The window of each layer; 0: none.
std::vector<uint32_t> read_windows(ConfigFields& config, Family family, uint32_t layers) {
  std::vector<uint32_t> windows(layers, 0);
  if (family == Family::kMistral) {
    if (config.is_null("sliding_window")) return windows;
    return std::vector<uint32_t>(layers, config.count("sliding_window"));
  }
  if (family != Family::kQwen2 && family != Family::kQwen3) return windows;
  uint32_t window = 0;
  if (config.flag("use_sliding_window", false) && !config.is_null("sliding_window")) {
    window = config.count("sliding_window");
  }
  config.pass_over("sliding_window");
  const uint32_t first_with_window = config.count("max_window_layers", 28, 0);
  const std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && types.size() != layers) {
    config.refuse("layer_types", fmt::format("expected {} entries, one for each layer", layers));
  }
  for (uint32_t i = 0; i < layers; ++i) {
    const bool is_windowed =
        types.empty() ? window != 0 && i >= first_with_window : types[i] == "sliding_attention";
    if (!is_windowed && !types.empty() && types[i] != "full_attention") {
      config.refuse("layer_types", "expected full_attention or sliding_attention");
    }
    if (is_windowed && window == 0) {
      config.refuse("layer_types",
                    "layers slide, but use_sliding_window and sliding_window do not "
                    "give them a window");
    }
    if (is_windowed) windows[i] = window;
  }
  return windows;
}

struct LayerTraits {
  double epsilon;
  Presence qkv_bias, output_bias, mlp_bias;
  bool has_head_norms, gain_plus_one;
};

LayerSpec read_layer(ModelTensors& tensors, const DecoderSpec& spec, const LayerTraits& traits,
                     const std::string& name) {
  const uint32_t query_rows = spec.heads * spec.head_dim;
  const uint32_t key_rows = spec.kv_heads * spec.head_dim;
  const auto norm = [&](const std::string& part, uint32_t features) {
    NormSpec read = tensors.rms_norm(name + part, features, traits.epsilon);
    read.gain_plus_one = traits.gain_plus_one;
    return read;
  };
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs, Presence bias) {
    return tensors.linear(name + part, outputs, inputs, bias);
  };
  LayerSpec layer;
  layer.attention_norm = norm("input_layernorm", spec.model_dim);
  layer.query = linear("self_attn.q_proj", query_rows, spec.model_dim, traits.qkv_bias);
  layer.key = linear("self_attn.k_proj", key_rows, spec.model_dim, traits.qkv_bias);
  layer.value = linear("self_attn.v_proj", key_rows, spec.model_dim, traits.qkv_bias);
  layer.output = linear("self_attn.o_proj", spec.model_dim, query_rows, traits.output_bias);
  if (traits.has_head_norms) {
    layer.query_norm = norm("self_attn.q_norm", spec.head_dim);
    layer.key_norm = norm("self_attn.k_norm", spec.head_dim);
  }
  layer.mlp_norm = norm("post_attention_layernorm", spec.model_dim);
  layer.gate = linear("mlp.gate_proj", spec.ffn_dim, spec.model_dim, traits.mlp_bias);
  layer.up = linear("mlp.up_proj", spec.ffn_dim, spec.model_dim, traits.mlp_bias);
  layer.down = linear("mlp.down_proj", spec.model_dim, spec.ffn_dim, traits.mlp_bias);
  return layer;
}

LayerTraits read_traits(ConfigFields& config, Family family) {
  const auto stored_if = [](bool condition) {
    return condition ? Presence::kRequired : Presence::kNone;
  };
  LayerTraits traits{.epsilon = config.positive("rms_norm_eps", 1e-6),
                     .qkv_bias = stored_if(family == Family::kQwen2),
                     .output_bias = Presence::kNone,
                     .mlp_bias = Presence::kNone,
                     .has_head_norms = family == Family::kQwen3,
                     .gain_plus_one = family == Family::kGemma};
  if (family != Family::kQwen2 && family != Family::kMistral) {
    traits.qkv_bias = traits.output_bias = stored_if(config.flag("attention_bias", false));
  }
  if (family == Family::kLlama) traits.mlp_bias = stored_if(config.flag("mlp_bias", false));
  return traits;
}

}  // namespace

DecoderSpec read_hf_llama(ConfigFields& config, ModelTensors& tensors,
                          const std::string& model_type) {
  const Family family = family_of(model_type);
  const bool is_gemma = family == Family::kGemma;
  DecoderSpec spec;
  spec.architecture = model_type;
  read_sizes(config, family, spec);
  const uint32_t layers = config.count("num_hidden_layers");
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec);
  spec.rope = read_hf_rope(config, spec.head_dim, {});
  spec.activation =
      is_gemma ? read_gemma_activation(config) : read_activation(config, "hidden_act", "silu");
  if (is_gemma) {
    spec.embedding_scale = std::sqrt(double{1} * spec.model_dim);
    config.expect("use_bidirectional_attention", false, "only causal decoders are read");
  }
  const std::vector<uint32_t> windows = read_windows(config, family, layers);
  const LayerTraits traits = read_traits(config, family);
  const bool is_tied = config.flag("tie_word_embeddings", is_gemma);

  const std::string embedding = "model.embed_tokens.weight";
  spec.token_embedding =
      is_tied ? tensors.tied_embedding(embedding, "lm_head.weight", spec.vocab_size, spec.model_dim)
              : tensors.matrix(embedding, spec.vocab_size, spec.model_dim);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(read_layer(tensors, spec, traits, fmt::format("model.layers.{}.", i)));
    if (windows[i] < spec.positions_max) spec.layers[i].window = windows[i];
  }
  spec.final_norm = tensors.rms_norm("model.norm", spec.model_dim, traits.epsilon);
  spec.final_norm->gain_plus_one = is_gemma;
  if (!is_tied) {
    spec.output = tensors.linear("lm_head", spec.vocab_size, spec.model_dim, Presence::kNone);
  }
  return spec;
}

}  // namespace arenite::convert
