// SPDX-License-Identifier: Apache-2.0
// Llama and the families that differ from it in details: Mistral, Qwen2, Qwen3 and Gemma.
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/spec/rope_scaling.h"

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

// What the transformers package takes for fields that a config does not have.
struct FamilyDefaults {
  uint32_t ffn_dim, positions_max;
  uint32_t kv_heads;  // 0: as many as heads
  uint32_t head_dim;  // 0: model_dim / heads
  TokenDefaults tokens;
};

FamilyDefaults defaults_of(Family family) {
  switch (family) {
    case Family::kLlama:
      return {11008, 2048, 0, 0, {.bos = 1, .eos = 2}};
    case Family::kMistral:
      return {14336, 131072, 8, 0, {.bos = 1, .eos = 2}};
    case Family::kQwen2:
      return {22016, 32768, 32, 0, {}};
    case Family::kQwen3:
      return {22016, 32768, 32, 128, {}};
    case Family::kGemma:
      return {24576, 8192, 16, 256, {.bos = 2, .eos = 1}};
  }
  return {};
}

void read_sizes(ConfigFields& config, const FamilyDefaults& defaults, DecoderSpec& spec) {
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = config.count("hidden_size");
  spec.ffn_dim = config.count("intermediate_size", defaults.ffn_dim);
  spec.positions_max = config.count("max_position_embeddings", defaults.positions_max);
  spec.heads = config.count("num_attention_heads");
  const bool as_many = defaults.kv_heads == 0 || config.is_null("num_key_value_heads");
  spec.kv_heads = config.count("num_key_value_heads", as_many ? spec.heads : defaults.kv_heads);
  if (config.has("head_dim") || (defaults.head_dim != 0 && !config.is_null("head_dim"))) {
    spec.head_dim = config.count("head_dim", defaults.head_dim);
  } else {
    spec.head_dim = even_head_dim(spec.model_dim, spec.heads, config.where());
  }
}

// Minor version of the transformers 4 that saved the config; none: another one, or not said.
std::optional<int> minor_version_of_4(ConfigFields& config) {
  const std::string version = config.text("transformers_version", "");
  int minor = 0;
  if (std::sscanf(version.c_str(), "4.%d.", &minor) != 1) return std::nullopt;
  return minor;
}

// Gemma was trained with the tanh form, which its first configs call "gelu". transformers 4.39 to
// 4.47 put that right: they read hidden_activation, and the tanh form where it is not there. All
// others read hidden_act. The results of a config are those of the version that saved it.
Activation read_gemma_activation(ConfigFields& config, DecoderSpec& spec) {
  constexpr const char* kTanhForm = "gelu_pytorch_tanh";
  const std::string older = config.text("hidden_act", kTanhForm);
  const std::string newer = config.text("hidden_activation", kTanhForm);
  const std::optional<int> minor = minor_version_of_4(config);
  const bool reads_newer = minor && *minor >= 39 && *minor < 48;
  const Activation activation =
      read_activation(config, reads_newer ? "hidden_activation" : "hidden_act", kTanhForm);
  if (older != newer) {
    spec.notes.push_back(fmt::format(
        "activation {}: the config says hidden_act {}; transformers 4.39 to 4.47 compute {} "
        "instead, other versions do not; transformers_version is {}",
        quote(reads_newer ? newer : older), quote(older), quote(newer),
        quote(config.text("transformers_version", "not said"))));
  }
  return activation;
}

// The window of each layer; 0: none.
std::vector<uint32_t> read_windows(ConfigFields& config, Family family, uint32_t layers) {
  std::vector<uint32_t> windows(layers, 0);
  if (family == Family::kMistral) {
    const bool has_window = !config.is_null("sliding_window");
    expect_layer_types(config, has_window ? "sliding_attention" : "full_attention");
    if (!has_window) return windows;
    return std::vector<uint32_t>(layers, config.count("sliding_window", 4096));
  }
  if (family != Family::kQwen2 && family != Family::kQwen3) {
    expect_layer_types(config, "full_attention");
    if (config.has("use_sliding_window") && !config.flag("use_sliding_window")) {
      config.pass_over("sliding_window");
    }
    return windows;
  }
  uint32_t window = 0;
  if (config.flag("use_sliding_window", false) && !config.is_null("sliding_window")) {
    window = config.count("sliding_window", 4096);
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
  const FamilyDefaults defaults = defaults_of(family);
  read_sizes(config, defaults, spec);
  const uint32_t layers = config.count("num_hidden_layers");
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, defaults.tokens);
  config.expect("use_parallel_residual", false, "layers of this family follow one another");
  config.expect("use_qk_norm", family == Family::kQwen3, "its family decides about these norms");
  config.expect("qk_norm", family == Family::kQwen3, "its family decides about these norms");
  spec.rope = read_hf_rope(config, spec, {});
  spec.activation = is_gemma ? read_gemma_activation(config, spec)
                             : read_activation(config, "hidden_act", "silu");
  if (is_gemma) spec.embedding_scale = std::sqrt(double{1} * spec.model_dim);
  const std::vector<uint32_t> windows = read_windows(config, family, layers);
  const LayerTraits traits = read_traits(config, family);
  const bool is_tied = config.flag("tie_word_embeddings", is_gemma);

  const std::string prefix = prefix_of(tensors, "model.", "embed_tokens.weight");
  read_embedding_and_head(config, tensors, spec, {prefix, "embed_tokens.weight", "lm_head"},
                          is_tied);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(
        read_layer(tensors, spec, traits, fmt::format("{}layers.{}.", prefix, i)));
    if (windows[i] < spec.positions_max) spec.layers[i].window = windows[i];
  }
  spec.final_norm = tensors.rms_norm(prefix + "norm", spec.model_dim, traits.epsilon);
  spec.final_norm->gain_plus_one = is_gemma;
  return spec;
}

}  // namespace arenite::convert
