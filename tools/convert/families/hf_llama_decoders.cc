// SPDX-License-Identifier: Apache-2.0
// Rows of Llama and of the decoders that differ from it in details.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "convert/families/hf_decoders.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr LayerNames kLlama = {.attention_norm = "input_layernorm",
                               .mlp_norm = "post_attention_layernorm",
                               .query = "self_attn.q_proj",
                               .key = "self_attn.k_proj",
                               .value = "self_attn.v_proj",
                               .query_norm = "self_attn.q_norm",
                               .key_norm = "self_attn.k_norm",
                               .output = "self_attn.o_proj",
                               .gate = "mlp.gate_proj",
                               .up = "mlp.up_proj",
                               .down = "mlp.down_proj",
                               .norm = NormKind::kRms};

// Returns kLlama as `change` changes it.
template <typename Change>
constexpr LayerNames llama_but(const Change& change) {
  LayerNames names = kLlama;
  change(names);
  return names;
}

constexpr LayerNames kLayerNorms =
    llama_but([](LayerNames& names) { names.norm = NormKind::kLayer; });
constexpr LayerNames kCohere = llama_but([](LayerNames& names) {
  names.norm = NormKind::kLayer;
  names.mlp_norm = nullptr;
});
// Norms before and after attention and MLP.
constexpr LayerNames kGemma2 = llama_but([](LayerNames& names) {
  names.attention_out_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.mlp_out_norm = "post_feedforward_layernorm";
});
// Norms after attention and MLP only.
constexpr LayerNames kNormsAfter = llama_but([](LayerNames& names) {
  names.attention_norm = names.mlp_norm = nullptr;
  names.attention_out_norm = "post_attention_layernorm";
  names.mlp_out_norm = "post_feedforward_layernorm";
});
constexpr LayerNames kGlm = llama_but([](LayerNames& names) {
  names.gate = nullptr;
  names.up = "mlp.gate_up_proj";
  names.has_gate_in_up = true;
});
constexpr LayerNames kGlm4 = [] {
  LayerNames names = kGlm;
  names.attention_out_norm = "post_self_attn_layernorm";
  names.mlp_out_norm = "post_mlp_layernorm";
  return names;
}();
constexpr LayerNames kPhi3 = [] {
  LayerNames names = kGlm;
  names.fused = "self_attn.qkv_proj";
  return names;
}();
constexpr LayerNames kStarcoder2 = llama_but([](LayerNames& names) {
  names.norm = NormKind::kLayer;
  names.gate = nullptr;
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
});
constexpr LayerNames kNemotron = llama_but([](LayerNames& names) {
  names.norm = NormKind::kLayer;
  names.gate = nullptr;
});

constexpr LayerNames with_experts(LayerNames names) {
  names.router = "mlp.gate";
  names.expert_gate = "mlp.experts.{}.gate_proj";
  names.expert_up = "mlp.experts.{}.up_proj";
  names.expert_down = "mlp.experts.{}.down_proj";
  return names;
}
constexpr LayerNames kQwen3Moe = with_experts(kLlama);
constexpr LayerNames kQwen2Moe = [] {
  LayerNames names = kQwen3Moe;
  names.shared = "mlp.shared_expert";
  return names;
}();
constexpr LayerNames kMixtral = llama_but([](LayerNames& names) {
  names.router = "block_sparse_moe.gate";
  names.expert_gate = "block_sparse_moe.experts.{}.w1";
  names.expert_up = "block_sparse_moe.experts.{}.w3";
  names.expert_down = "block_sparse_moe.experts.{}.w2";
});
constexpr LayerNames kGraniteMoe = llama_but([](LayerNames& names) {
  names.router = "block_sparse_moe.router.layer";
  names.expert_up = "block_sparse_moe.input_linear.weight";
  names.expert_down = "block_sparse_moe.output_linear.weight";
});
constexpr LayerNames kGptOss = llama_but([](LayerNames& names) {
  names.router = "mlp.router";
  names.expert_up = "mlp.experts.gate_up_proj";
  names.expert_down = "mlp.experts.down_proj";
  names.has_gates_between = names.has_expert_bias = true;
  names.sinks = "self_attn.sinks";
});

// ---- Gemma ----

// Returns the minor version of transformers 4 that saved the config; nullopt for other or unknown
// versions.
std::optional<int> minor_version_of_4(ConfigFields& config) {
  const std::string version = config.text("transformers_version", "");
  int minor = 0;
  if (std::sscanf(version.c_str(), "4.%d.", &minor) != 1) return std::nullopt;
  return minor;
}

// Gemma was trained with the tanh form, which its first configs call "gelu". transformers 4.39 to
// 4.47 corrected this: they read hidden_activation, and use the tanh form if it is missing. All
// other versions read hidden_act. A config is interpreted as the version that saved it does.
Activation read_gemma_activation(ConfigFields& config, TransformerSpec& spec) {
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

void read_gemma(Reading& reading) {
  TransformerSpec& spec = reading.spec;
  spec.activation = read_gemma_activation(reading.config, spec);
  spec.embedding_scale = std::sqrt(double{1} * spec.model_dim);
}

// Reads what Gemma 2 and 3 share.
void read_newer_gemma(Reading& reading, std::optional<double> logits_cap) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  config.expect("hidden_act", config.text("hidden_activation", reading.family.activation),
                "hidden_activation names another function");
  spec.embedding_scale = std::sqrt(double{1} * spec.model_dim);
  spec.score_scale = 1.0 / std::sqrt(config.positive("query_pre_attn_scalar", 256.0));
  spec.logits_soft_cap = read_cap(config, "final_logit_softcapping", logits_cap);
}

void read_gemma2(Reading& reading) {
  read_newer_gemma(reading, 30.0);
  reading.spec.score_soft_cap = read_cap(reading.config, "attn_logit_softcapping", 50.0);
}

void read_gemma3(Reading& reading) {
  read_newer_gemma(reading, std::nullopt);
  reading.config.expect("attn_logit_softcapping", nullptr,
                        "transformers does not cap the scores of this family");
  if (reading.spec.causal) return;
  // Half of the window lies before a query, and the other half after it.
  for (uint32_t& window : reading.settings.windows) {
    if (window != 0) window = window / 2 + 1;
  }
}

// ---- others ----

void read_qwen2(Reading& reading) {
  reading.settings.qkv_bias = Presence::kRequired;
  reading.settings.output_bias = Presence::kNone;
}

void read_smollm3(Reading& reading) {
  ConfigFields& config = reading.config;
  if (config.flag("use_sliding_window", false) && !config.has("layer_types")) {
    config.refuse("use_sliding_window", "expected layer_types, which says for which layers");
  }
  const std::vector<uint32_t> rotates = config.ids("no_rope_layers");
  const uint32_t interval = config.count("no_rope_layer_interval", 4);
  if (!rotates.empty() && rotates.size() != reading.layers) {
    config.refuse("no_rope_layers",
                  fmt::format("expected {} entries, one for each layer", reading.layers));
  }
  for (uint32_t i = 0; i < reading.layers; ++i) {
    const bool has_rope = rotates.empty() ? (i + 1) % interval != 0 : rotates[i] != 0;
    reading.settings.rotations.push_back(has_rope ? Rotation::kModel : Rotation::kNone);
  }
}

void read_granite(Reading& reading) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  spec.embedding_scale = config.positive("embedding_multiplier", 1.0);
  spec.score_scale = config.positive("attention_multiplier", 1.0);
  spec.residual_scale = config.positive("residual_multiplier", 1.0);
  spec.logits_scale = 1.0 / config.positive("logits_scaling", 1.0);
}

void read_olmo(Reading& reading) {
  reading.settings.has_plain_norms = true;
  reading.spec.qkv_clip = read_cap(reading.config, "clip_qkv", std::nullopt);
}

void read_olmo2(Reading& reading) { reading.settings.has_row_norms = true; }

void read_stablelm(Reading& reading) {
  reading.config.expect("qk_layernorm", false, "layer norms of each head's own are not supported");
  if (reading.settings.is_parallel) reading.names.mlp_norm = nullptr;
}

void read_cohere(Reading& reading) {
  reading.spec.logits_scale = reading.config.positive("logit_scale", 0.0625);
}

void read_phi3(Reading& reading) {
  for (const char* field : {"full_attn_mod", "interpolate_factor"}) {
    reading.config.expect(field, 1, "all models of this family have that");
  }
}

void read_starcoder2(Reading& reading) {
  constexpr const char* kWhy = "all models of this family have that";
  ConfigFields& config = reading.config;
  config.expect("layer_norm_epsilon", reading.settings.epsilon, "norm_epsilon says another");
  config.expect("mlp_type", "default", kWhy);
  config.expect("norm_type", "layer_norm", kWhy);
  config.expect("scale_attn_weights", true, kWhy);
  // Transformers does not read the first here; the others say how the program computes.
  config.pass_over(
      {"activation_function", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"});
}

// Reads the numbers of a mixture of experts.
void read_experts(Reading& reading, const char* width) {
  ConfigFields& config = reading.config;
  ExpertsSpec& experts = reading.settings.experts;
  experts.count = read_size(config, {"num_local_experts", 0, "num_experts"});
  experts.chosen = config.count("num_experts_per_tok");
  reading.settings.expert_width = config.count(width);
  if (experts.chosen > experts.count) {
    config.refuse("num_experts_per_tok", fmt::format("there are {} experts", experts.count));
  }
  const uint64_t wider =
      std::max(2 * uint64_t{reading.settings.expert_width}, uint64_t{reading.spec.model_dim});
  if (experts.count * wider > kSideMax) {
    config.refuse(width, "the experts together have more rows than any matrix");
  }
}

void read_mixtral(Reading& reading) { read_experts(reading, "intermediate_size"); }

void read_olmoe(Reading& reading) {
  read_experts(reading, "intermediate_size");
  reading.settings.experts.renormalizes = reading.config.flag("norm_topk_prob", false);
  reading.settings.has_row_norms = true;
  reading.spec.qkv_clip = read_cap(reading.config, "clip_qkv", std::nullopt);
}

void read_qwen_experts(Reading& reading) {
  ConfigFields& config = reading.config;
  read_experts(reading, "moe_intermediate_size");
  reading.settings.experts.renormalizes = config.flag("norm_topk_prob", false);
  const std::vector<uint32_t> dense = config.ids("mlp_only_layers");
  const uint32_t step = config.count("decoder_sparse_step", 1);
  for (uint32_t i = 0; i < reading.layers; ++i) {
    reading.settings.lacks_experts.push_back((i + 1) % step != 0 ||
                                             std::ranges::count(dense, i) != 0);
  }
}

void read_qwen3_moe(Reading& reading) {
  read_qwen_experts(reading);
  reading.config.expect("use_sliding_window", false, "windows of this family are not supported");
}

void read_qwen2_moe(Reading& reading) {
  ConfigFields& config = reading.config;
  read_qwen_experts(reading);
  if (!config.has("layer_types")) {
    config.expect("use_sliding_window", false, "layer_types says for which layers");
  }
  reading.settings.shared_width = config.count("shared_expert_intermediate_size");
}

void read_granite_moe(Reading& reading) {
  read_granite(reading);
  read_experts(reading, "intermediate_size");
}

void read_gpt_oss(Reading& reading) {
  constexpr double kLimit = 7.0;
  ConfigFields& config = reading.config;
  read_experts(reading, "intermediate_size");
  reading.settings.experts.limit = kLimit;
  config.expect("swiglu_limit", kLimit, "transformers takes 7 for all models of this family");
  config.expect("experts_per_token", reading.settings.experts.chosen,
                "it is another name for num_experts_per_tok");
  config.expect("hidden_act", "silu", "all models of this family have that");
  config.pass_over("initial_context_length");  // transformers does not read it
}

// Leaves RoPE to layers with windows, if there are such.
void rotate_windowed(Reading& reading) {
  for (const bool is_windowed : reading.windowed) {
    reading.settings.rotations.push_back(is_windowed ? Rotation::kModel : Rotation::kNone);
  }
}

void read_cohere2(Reading& reading) {
  constexpr const char* kWhy = "all models of this family have that";
  ConfigFields& config = reading.config;
  read_cohere(reading);
  rotate_windowed(reading);
  config.expect("position_embedding_type", "rope_gptj", kWhy);
  config.expect("rotary_pct", 1.0, kWhy);
  for (const char* field :
       {"use_embedding_sharing", "use_gated_activation", "use_parallel_block"}) {
    config.expect(field, true, kWhy);
  }
  config.expect("order_of_interleaved_layers", "local_attn_first", kWhy);
  config.pass_over("layer_switch");  // sliding_window_pattern is read instead
}

void read_exaone4(Reading& reading) {
  if (!reading.config.is_null("sliding_window")) rotate_windowed(reading);
}

// ---- rows ----

// Newer programs save the default in the old field, whatever the new field says.
constexpr RopeFields partial_rope(double share, bool turns_neighbours = false) {
  return {.partial_factor = {"partial_rotary_factor"},
          .partial_fallback = share,
          .inner_partial_counts = true,
          .turns_neighbours = turns_neighbours};
}

// Adds to `own` what all families derived from Llama share.
constexpr Family like_llama(Family own, double epsilon = 1e-6) {
  if (own.layer == nullptr) own.layer = &kLlama;
  own.prefix = "model.";
  own.embedding = "embed_tokens";
  own.list = "layers.";
  own.final_norm = "norm";
  own.head = "lm_head";
  if (own.layer->norm == NormKind::kRms) own.epsilon_field = "rms_norm_eps";
  own.epsilon = epsilon;
  if (!own.rope) own.rope = RopeFields{};
  const bool has_own_biases = own.qkv_bias.field != nullptr;
  if (!has_own_biases) own.qkv_bias = {"attention_bias"};
  if (own.output_bias.field == nullptr) own.output_bias = has_own_biases ? Switch{} : own.qkv_bias;
  if (own.mlp_bias.field == nullptr) own.mlp_bias = {"mlp_bias"};
  return own;
}

// Gemma's gains are stored less 1.
constexpr Family like_gemma(Family own) {
  own.head_dim = 256;
  own.bos = 2;
  own.eos = 1;
  own.is_tied = true;
  own.activation = "gelu_pytorch_tanh";
  own.gain_plus_one = true;
  return like_llama(own);
}

constexpr Family kLlamaFamilies[] = {
    like_llama({.model_type = "llama", .ffn = {"intermediate_size", 11008}, .bos = 1, .eos = 2}),
    like_llama({.model_type = "mistral",
                .ffn = {"intermediate_size", 14336},
                .context = {"max_position_embeddings", 131072},
                .kv_heads = 8,
                .bos = 1,
                .eos = 2,
                .windows = Windows::kAllLayers,
                .window = 4096}),
    like_llama({.model_type = "qwen2",
                .read_own = read_qwen2,
                .ffn = {"intermediate_size", 22016},
                .context = {"max_position_embeddings", 32768},
                .kv_heads = 32,
                .windows = Windows::kSomeLayers}),
    like_llama({.model_type = "qwen3",
                .ffn = {"intermediate_size", 22016},
                .context = {"max_position_embeddings", 32768},
                .kv_heads = 32,
                .head_dim = 128,
                .has_head_norms = true,
                .windows = Windows::kSomeLayers}),
    like_gemma({.model_type = "gemma",
                .read_own = read_gemma,
                .ffn = {"intermediate_size", 24576},
                .context = {"max_position_embeddings", 8192},
                .kv_heads = 16,
                .activation_field = nullptr}),
    // The rows from here on have no defaults of sizes and ids: their configs state them.
    like_gemma({.model_type = "gemma2",
                .read_own = read_gemma2,
                .layer = &kGemma2,
                .activation_field = "hidden_activation",
                .windows = Windows::kPattern,
                .window_pattern = 2}),
    like_gemma({.model_type = "gemma3_text",
                .read_own = read_gemma3,
                .layer = &kGemma2,
                .activation_field = "hidden_activation",
                .rope = RopeFields{.theta_fallback = 1e6},
                .local_rope = RopeFields{.theta = {"rope_local_base_freq"}},
                .has_head_norms = true,
                .may_be_bidirectional = true,
                .windows = Windows::kPattern,
                .window_pattern = 6}),
    like_llama({.model_type = "smollm3",
                .read_own = read_smollm3,
                .is_tied = true,
                .rope = RopeFields{.theta_fallback = 2e6},
                .windows = Windows::kSomeLayers}),
    like_llama({.model_type = "granite", .read_own = read_granite}),
    like_llama({.model_type = "phi3",
                .read_own = read_phi3,
                .layer = &kPhi3,
                .rope = partial_rope(1.0),
                .windows = Windows::kAllLayers},
               1e-5),
    like_llama({.model_type = "olmo2",
                .read_own = read_olmo2,
                .layer = &kNormsAfter,
                .has_head_norms = true},
               1e-5),
    like_llama({.model_type = "olmo",
                .read_own = read_olmo,
                .layer = &kLayerNorms,
                .epsilon_field = nullptr},
               1e-5),
    like_llama({.model_type = "stablelm",
                .read_own = read_stablelm,
                .layer = &kLayerNorms,
                .rope = partial_rope(0.25),
                .qkv_bias = {"use_qkv_bias"},
                .parallel = {"use_parallel_residual"}},
               1e-5),
    like_llama({.model_type = "starcoder2",
                .read_own = read_starcoder2,
                .layer = &kStarcoder2,
                .is_tied = true,
                .epsilon_field = "norm_epsilon",
                .activation = "gelu_pytorch_tanh",
                .qkv_bias = {"use_bias", true},
                .output_bias = {"use_bias", true},
                .mlp_bias = {"use_bias", true},
                .windows = Windows::kAllLayers},
               1e-5),
    like_llama({.model_type = "cohere",
                .read_own = read_cohere,
                .layer = &kCohere,
                .is_tied = true,
                .rope = RopeFields{.theta_fallback = 5e5, .turns_neighbours = true},
                .norm_bias = Presence::kNone,
                .parallel = {nullptr, true}},
               1e-5),
    like_llama({.model_type = "cohere2",
                .read_own = read_cohere2,
                .layer = &kCohere,
                .is_tied = true,
                .rope = RopeFields{.turns_neighbours = true},
                .norm_bias = Presence::kNone,
                .parallel = {nullptr, true},
                .windows = Windows::kPattern,
                .window_pattern = 4},
               1e-5),
    like_llama({.model_type = "ernie4_5",
                .is_tied = true,
                .rope = RopeFields{.theta_fallback = 5e5, .turns_neighbours = true},
                .qkv_bias = {"use_bias"},
                .output_bias = {"use_bias"},
                .mlp_bias = {"use_bias"}},
               1e-5),
    like_llama({.model_type = "helium",
                .rope = RopeFields{.theta_fallback = 1e5, .turns_neighbours = true},
                .qkv_bias = {"attention_bias"}},
               1e-8),
    like_llama({.model_type = "glm",
                .layer = &kGlm,
                .rope = partial_rope(0.5, true),
                .qkv_bias = {"attention_bias", true}},
               1.5625e-7),
    like_llama({.model_type = "glm4",
                .layer = &kGlm4,
                .rope = partial_rope(0.5, true),
                .qkv_bias = {"attention_bias", true}},
               1.5625e-7),
    like_llama({.model_type = "exaone4",
                .read_own = read_exaone4,
                .layer = &kNormsAfter,
                .has_head_norms = true,
                .windows = Windows::kPattern,
                .window_pattern = 4},
               1e-5),
    like_llama({.model_type = "mixtral",
                .read_own = read_mixtral,
                .layer = &kMixtral,
                .rope = RopeFields{.theta_fallback = 1e6},
                .windows = Windows::kAllLayers},
               1e-5),
    like_llama({.model_type = "qwen2_moe",
                .read_own = read_qwen2_moe,
                .layer = &kQwen2Moe,
                .qkv_bias = {"qkv_bias", true},
                .windows = Windows::kSomeLayers}),
    like_llama({.model_type = "qwen3_moe",
                .read_own = read_qwen3_moe,
                .layer = &kQwen3Moe,
                .has_head_norms = true}),
    like_llama({.model_type = "olmoe",
                .read_own = read_olmoe,
                .layer = &kQwen3Moe,
                .has_head_norms = true},
               1e-5),
    like_llama({.model_type = "granitemoe", .read_own = read_granite_moe, .layer = &kGraniteMoe}),
    like_llama({.model_type = "gpt_oss",
                .read_own = read_gpt_oss,
                .layer = &kGptOss,
                .head_dim = 64,
                .rope = RopeFields{.theta_fallback = 150000.0},
                .qkv_bias = {"attention_bias", true},
                .output_bias = {"attention_bias", true},
                .windows = Windows::kPattern,
                .window_pattern = 2},
               1e-5),
    like_llama({.model_type = "nemotron",
                .layer = &kNemotron,
                .epsilon_field = "norm_eps",
                .activation = "relu2",
                .rope = partial_rope(0.5),
                .gain_plus_one = true},
               1e-5),
};

}  // namespace

std::span<const Family> llama_families() { return kLlamaFamilies; }

}  // namespace arenite::convert
