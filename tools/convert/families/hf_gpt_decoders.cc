// SPDX-License-Identifier: Apache-2.0
// Rows of decoders that are no relatives of Llama: most have biases and layer norms.
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "convert/families/hf_decoders.h"

namespace arenite::convert {
namespace {

// Source: "Train Short, Test Long" (Press et al. 2022). If the number of heads is a power of two,
// head h has the slope 2^(-bias_max (h + 1) / heads). Otherwise every other slope of the next power
// of two comes first, and then those in between.
std::vector<double> alibi_slopes(uint32_t heads, double bias_max) {
  const uint32_t steps = std::bit_ceil(heads);
  std::vector<double> slopes;
  const auto add = [&](uint32_t first, uint32_t stride) {
    for (uint32_t i = first; i <= steps && slopes.size() < heads; i += stride) {
      slopes.push_back(std::exp2(-bias_max * i / steps));
    }
  };
  if (steps == heads) {
    add(1, 1);
  } else {
    add(2, 2);
    add(1, 2);
  }
  return slopes;
}

// ---- GPT-2: learned positions, and Conv1D layers ----

constexpr LayerNames kGpt2 = {.attention_norm = "ln_1",
                              .mlp_norm = "ln_2",
                              .fused = "attn.c_attn",
                              .output = "attn.c_proj",
                              .up = "mlp.c_fc",
                              .down = "mlp.c_proj",
                              .keeps_inputs_first = true};

void read_gpt2(Reading& reading) {
  ConfigFields& config = reading.config;
  config.expect("n_ctx", reading.spec.positions_max, "it is the older name of n_positions");
  config.expect("scale_attn_weights", true, "scores without 1/sqrt(head_dim) are not supported");
  config.expect("scale_attn_by_inverse_layer_idx", false,
                "scores scaled by the layer's number are not supported");
}

// ---- GPT-NeoX (Pythia) and Phi: partial rotation of each head, and optionally parallel attention
// and MLP ----

constexpr LayerNames kNeox = {.attention_norm = "input_layernorm",
                              .mlp_norm = "post_attention_layernorm",
                              .fused = "attention.query_key_value",
                              .output = "attention.dense",
                              .up = "mlp.dense_h_to_4h",
                              .down = "mlp.dense_4h_to_h",
                              .fused_rows = FusedRows::kHeads};
constexpr LayerNames kPhi = {.attention_norm = "input_layernorm",
                             .query = "self_attn.q_proj",
                             .key = "self_attn.k_proj",
                             .value = "self_attn.v_proj",
                             .output = "self_attn.dense",
                             .up = "mlp.fc1",
                             .down = "mlp.fc2"};

void read_neox(Reading& reading) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  config.expect("num_key_value_heads", spec.heads,
                "GPT-NeoX has as many key/value heads as query heads");
  config.expect("head_dim", even_head_dim(spec.model_dim, spec.heads, config.where()),
                "in GPT-NeoX it is the width divided by the heads");
}

void read_phi(Reading& reading) {
  reading.config.expect("qk_layernorm", false, "layer norms of queries and keys are not supported");
}

// ---- BLOOM and MPT: no positions, but scores that decrease with the distance between query and
// key (ALiBi). Source: "Train Short, Test Long" (Press et al. 2022) ----

constexpr LayerNames kBloom = {.attention_norm = "input_layernorm",
                               .mlp_norm = "post_attention_layernorm",
                               .fused = "self_attention.query_key_value",
                               .output = "self_attention.dense",
                               .up = "mlp.dense_h_to_4h",
                               .down = "mlp.dense_4h_to_h",
                               .fused_rows = FusedRows::kHeads};
constexpr LayerNames kMpt = {.attention_norm = "norm_1",
                             .mlp_norm = "norm_2",
                             .fused = "attn.Wqkv",
                             .output = "attn.out_proj",
                             .up = "ffn.up_proj",
                             .down = "ffn.down_proj"};

void read_bloom(Reading& reading) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  config.expect("n_inner", 4 * spec.model_dim, "BLOOM's MLP is four times as wide as the model");
  spec.activation = Activation::kGeluTanh;
  config.pass_over({"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion",
                    "offset_alibi", "skip_bias_add", "skip_bias_add_qkv",
                    "slow_but_exact"});  // same result in exact arithmetic
  config.expect("apply_residual_connection_post_layernorm", false,
                "residual sums with the norm's output are not supported");
  spec.alibi_slopes = alibi_slopes(spec.heads, 8.0);
}

// If there are fewer key and value heads than query heads, kv_n_heads gives their number.
uint32_t read_kv_heads(ConfigFields& attention, uint32_t heads) {
  const std::string type = attention.text("attn_type", "multihead_attention");
  if (type == "multihead_attention") {
    attention.expect("kv_n_heads", heads,
                     "multihead_attention has as many key/value heads as query heads");
    return heads;
  }
  if (type != "grouped_query_attention" && type != "multiquery_attention") {
    attention.refuse("attn_type",
                     "expected multihead_attention, grouped_query_attention or "
                     "multiquery_attention");
  }
  if (!attention.has("kv_n_heads")) {
    attention.refuse("attn_type", "expected kv_n_heads beside it, the number of key/value heads");
  }
  return attention.count("kv_n_heads");
}

void read_mpt_attention(ConfigFields attention, TransformerSpec& spec) {
  pass_over_harmless(attention);
  // Fields without effect, and settings of features that are refused below.
  attention.pass_over(
      {"attn_impl", "model_type", "rope_theta", "rope_impl", "rope_dail_config", "rope_hf_config"});
  spec.kv_heads = read_kv_heads(attention, spec.heads);
  attention.expect("alibi", true, "only ALiBi positions are supported");
  attention.expect("rope", false, "only ALiBi positions are supported");
  attention.expect("clip_qkv", nullptr, "clipped queries, keys and values are not supported");
  attention.expect("qk_ln", false, "layer norms of queries and keys are not supported");
  attention.expect("qk_gn", false, "norms of queries and keys are not supported");
  attention.expect("prefix_lm", false, "only causal decoders are supported");
  attention.expect("attn_uses_sequence_id", false,
                   "packed sequences in one text are not supported");
  attention.expect("sliding_window_size", -1, "a window with ALiBi is not supported");
  if (attention.has("softmax_scale")) spec.score_scale = attention.positive("softmax_scale");
  const double bias_max = attention.positive("alibi_bias_max", 8.0);
  if (bias_max != 8.0) {
    spec.notes.push_back(fmt::format(
        "alibi_bias_max {}: used as in the training program; transformers uses 8 instead",
        bias_max));
  }
  attention.finish();
  spec.alibi_slopes = alibi_slopes(spec.heads, bias_max);
}

void read_mpt(Reading& reading) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  spec.activation = Activation::kGeluErf;
  spec.ffn_dim = 4 * spec.model_dim;  // transformers does not read expansion_ratio
  const ConfigFields nothing(nlohmann::json::object(), config.where());
  read_mpt_attention(config.object("attn_config").value_or(nothing), spec);
  // For training only, or known from the tensors or ALiBi.
  config.pass_over({"embedding_fraction", "fc_type", "init_config", "emb_pdrop", "init_device",
                    "learned_pos_emb", "no_bias", "resid_pdrop", "verbose"});
  config.expect("logit_scale", nullptr, "scaled logits are not supported");
  if (const std::string norm = config.text("norm_type", "low_precision_layernorm");
      norm != "low_precision_layernorm" && norm != "layernorm") {
    config.refuse("norm_type", "expected low_precision_layernorm or layernorm");
  }
  if (std::optional<ConfigFields> ffn = config.object("ffn_config")) {
    ffn->expect("ffn_type", "mptmlp", "other kinds of MLP are not supported");
    ffn->pass_over("fc_type");
    ffn->finish();
  }
  // Biases and norm biases are present or absent depending on the training program's settings.
  LayerSettings& settings = reading.settings;
  settings.qkv_bias = settings.output_bias = settings.mlp_bias = Presence::kIfStored;
  settings.norm_bias = Presence::kIfStored;
}

// ---- OPT, GPT-Neo, GPT-J, GPTBigCode (StarCoder) and Falcon ----

constexpr LayerNames kGptNeo = {.attention_norm = "ln_1",
                                .mlp_norm = "ln_2",
                                .query = "attn.attention.q_proj",
                                .key = "attn.attention.k_proj",
                                .value = "attn.attention.v_proj",
                                .output = "attn.attention.out_proj",
                                .up = "mlp.c_fc",
                                .down = "mlp.c_proj"};
constexpr LayerNames kGptJ = {.attention_norm = "ln_1",
                              .query = "attn.q_proj",
                              .key = "attn.k_proj",
                              .value = "attn.v_proj",
                              .output = "attn.out_proj",
                              .up = "mlp.fc_in",
                              .down = "mlp.fc_out"};
constexpr LayerNames kBigCode = {.attention_norm = "ln_1",
                                 .mlp_norm = "ln_2",
                                 .fused = "attn.c_attn",
                                 .output = "attn.c_proj",
                                 .up = "mlp.c_fc",
                                 .down = "mlp.c_proj",
                                 .fused_rows = FusedRows::kHeads};

void read_opt(Reading& reading) {
  ConfigFields& config = reading.config;
  reading.spec.position_offset = 2;
  reading.spec.norm_first = config.flag("do_layer_norm_before", true);
  reading.settings.has_plain_norms = !config.flag("layer_norm_elementwise_affine", true);
  reading.embedding_dim = config.count("word_embed_proj_dim", reading.spec.model_dim);
  const bool lacks_norm = config.flag("_remove_final_layer_norm", false);
  if (lacks_norm || !reading.spec.norm_first) reading.final_norm = nullptr;
}

// Returns the kind of each layer: attention_layers, or what attention_types says in short.
//   [[["global", "local"], 2]]  ->  global local global local
std::vector<std::string> gpt_neo_layers(ConfigFields& config) {
  const nlohmann::json types = config.value("attention_types");
  std::vector<std::string> kinds = config.texts("attention_layers");
  if (!kinds.empty() || types.is_null()) return kinds;
  for (const nlohmann::json& type : types) {
    if (!type.is_array() || type.size() != 2 || !type[0].is_array() ||
        !type[1].is_number_unsigned() || type[1] > kLayersMax) {
      config.refuse("attention_types",
                    "expected lists of kinds, and how often each follows; or attention_layers");
    }
    for (uint32_t times = type[1]; times > 0 && kinds.size() <= kLayersMax; --times) {
      for (const nlohmann::json& kind : type[0]) {
        kinds.push_back(kind.is_string() ? kind.get<std::string>() : "");
      }
    }
  }
  return kinds;
}

void read_gpt_neo(Reading& reading) {
  ConfigFields& config = reading.config;
  const std::vector<std::string> kinds = gpt_neo_layers(config);
  if (kinds.size() != reading.layers) {
    config.refuse("attention_layers",
                  fmt::format("expected {} entries, one for each layer", reading.layers));
  }
  const uint32_t window = config.count("window_size", 256);
  for (const std::string& kind : kinds) {
    if (kind != "global" && kind != "local") {
      config.refuse("attention_layers", "expected global or local");
    }
    reading.settings.windows.push_back(kind == "local" ? window : 0);
  }
  reading.spec.score_scale = 1.0;
}

void read_gptj(Reading& reading) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  config.expect("rotary", true, "models of this family have no other positions");
  config.expect("scale_attn_weights", true, "scores without 1/sqrt(head_dim) are not supported");
  const uint32_t rotary_dim =
      config.is_null("rotary_dim") ? spec.head_dim : config.count("rotary_dim", 64);
  if (rotary_dim % 2 != 0 || rotary_dim > spec.head_dim) {
    config.refuse("rotary_dim", fmt::format("expected an even number up to {}", spec.head_dim));
  }
  spec.rope = plain_rope(rotary_dim, 10000.0, config.where());
  spec.rope->turns_neighbours = true;
}

void read_bigcode(Reading& reading) {
  ConfigFields& config = reading.config;
  const bool is_multi_query = config.flag("multi_query", true);
  if (is_multi_query) reading.spec.kv_heads = 1;
  config.expect("num_key_value_heads", reading.spec.kv_heads, "multi_query says how many");
  if (!config.flag("scale_attn_weights", true)) reading.spec.score_scale = 1.0;
  config.pass_over({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
                    "inference_runner", "pad_key_length", "pre_allocate_kv_cache",
                    "validate_runner_input", "max_batch_size"});  // how the program computes
}

// Falcon's layers are parallel with one norm or two, or sequential.
void read_falcon(Reading& reading) {
  ConfigFields& config = reading.config;
  TransformerSpec& spec = reading.spec;
  const bool is_new = config.flag("new_decoder_architecture", false);
  const bool is_multi_query = config.flag("multi_query", true);
  const bool is_parallel = config.flag("parallel_attn", true) || is_new;
  if (is_new || !is_multi_query) {
    spec.kv_heads = config.count("num_kv_heads", spec.heads);
    if (!is_new && spec.kv_heads != spec.heads) {
      config.refuse("num_kv_heads", "expected new_decoder_architecture beside it");
    }
  } else {
    config.pass_over("num_kv_heads");
    spec.kv_heads = 1;
  }
  const uint32_t norms = config.count("num_ln_in_parallel_attn", is_new ? 2 : 1);
  if (norms > 2 || (norms == 2 && !is_new)) {
    config.refuse("num_ln_in_parallel_attn", "expected 1, or 2 with new_decoder_architecture");
  }
  reading.settings.is_parallel = is_parallel;
  if (is_parallel) reading.names.mlp_norm = nullptr;
  if (norms == 2) {
    reading.names.attention_norm = "ln_attn";
    reading.names.mlp_norm = "ln_mlp";
  }
  config.expect("apply_residual_connection_post_layernorm", false,
                "residual sums with the norm's output are not supported");
  if (!config.flag("alibi", false)) {
    spec.rope = read_hf_rope(config, spec, {});
    return;
  }
  config.pass_over({"rope_parameters", "rope_theta"});
  spec.alibi_slopes = alibi_slopes(spec.heads, 8.0);
  for (double& slope : spec.alibi_slopes) slope /= std::sqrt(double{1} * spec.head_dim);
}

// Adds to `own` what GPT-2 and its relatives share.
constexpr Family like_gpt2(Family own) {
  own.prefix = "transformer.";
  own.embedding = "wte";
  own.list = "h.";
  own.final_norm = "ln_f";
  own.head = "lm_head";
  own.width = {"n_embd", 0, "hidden_size"};
  if (own.heads.alias == nullptr) own.heads = {"n_head", 0, "num_attention_heads"};
  if (own.layers.alias == nullptr) own.layers = {"n_layer", 0, "num_hidden_layers"};
  if (own.ffn.alias == nullptr) own.ffn = {"n_inner", 0, "intermediate_size"};
  own.context = {"n_positions", own.context.fallback, "max_position_embeddings"};
  own.has_head_fields = false;
  own.bos = own.eos = 50256;
  own.epsilon_field = "layer_norm_epsilon";
  own.activation_field = "activation_function";
  own.activation = "gelu_new";
  return own;
}

constexpr Family kGptFamilies[] = {
    like_gpt2({.model_type = "gpt2",
               .read_own = read_gpt2,
               .layer = &kGpt2,
               .positions = "wpe",
               .context = {"n_positions", 1024},
               .is_tied = true}),
    {.model_type = "gpt_neox",
     .read_own = read_neox,
     .layer = &kNeox,
     .prefix = "gpt_neox.",
     .embedding = "embed_in",
     .list = "layers.",
     .final_norm = "final_layer_norm",
     .head = "embed_out",
     .ffn = {"intermediate_size", 24576},
     .bos = 0,
     .eos = 2,
     .activation = "gelu",
     .rope = RopeFields{.theta = {"rotary_emb_base", "rope_theta"},
                        .partial_factor = {"rotary_pct", "partial_rotary_factor"},
                        .partial_fallback = 0.25},
     .qkv_bias = {"attention_bias", true},
     .output_bias = {"attention_bias", true},
     .parallel = {"use_parallel_residual", true}},
    {.model_type = "phi",
     .read_own = read_phi,
     .layer = &kPhi,
     .prefix = "model.",
     .embedding = "embed_tokens",
     .list = "layers.",
     .final_norm = "final_layernorm",
     .head = "lm_head",
     .head_bias = Presence::kRequired,
     .ffn = {"intermediate_size", 8192},
     .bos = 1,
     .eos = 2,
     .activation = "gelu_new",
     // Newer programs save the default in the old field, whatever the new field says.
     .rope = RopeFields{.partial_factor = {"partial_rotary_factor"},
                        .partial_fallback = 0.5,
                        .inner_partial_counts = true},
     .parallel = {nullptr, true}},
    {.model_type = "bloom",
     .read_own = read_bloom,
     .layer = &kBloom,
     .prefix = "transformer.",
     .embedding = "word_embeddings",
     .embedding_norm = "word_embeddings_layernorm",
     .list = "h.",
     .final_norm = "ln_f",
     .head = "lm_head",
     .width = {"n_embed", 0, "hidden_size"},
     .heads = {"n_head", 0, "num_attention_heads"},
     .layers = {"n_layer", 0, "num_hidden_layers"},
     .ffn = {"n_inner"},
     .context = {"seq_length", 2048},
     .has_head_fields = false,
     .bos = 1,
     .eos = 2,
     .is_tied = true,
     .epsilon_field = "layer_norm_epsilon",
     .activation_field = nullptr},
    {.model_type = "mpt",
     .read_own = read_mpt,
     .layer = &kMpt,
     .prefix = "transformer.",
     .embedding = "wte",
     .list = "blocks.",
     .final_norm = "norm_f",
     .head = "lm_head",
     .width = {"d_model", 0, "hidden_size"},
     .heads = {"n_heads", 0, "num_attention_heads"},
     .layers = {"n_layers", 0, "num_hidden_layers"},
     .ffn = {"expansion_ratio", 4},
     .context = {"max_seq_len", 2048},
     .has_head_fields = false,
     .is_tied = true,
     .epsilon_field = "layer_norm_epsilon",
     .activation_field = nullptr},
    {.model_type = "opt",
     .read_own = read_opt,
     .layer = &kBartLayer,
     .prefix = "model.",
     .embedding = "decoder.embed_tokens",
     .positions = "decoder.embed_positions",
     .input = "decoder.project_in",
     .projection = "decoder.project_out",
     .list = "decoder.layers.",
     .final_norm = "decoder.final_layer_norm",
     .head = "lm_head",
     .ffn = {"ffn_dim"},
     .has_head_fields = false,
     .is_tied = true,
     .epsilon_field = nullptr,
     .activation_field = "activation_function",
     .activation = "relu",
     .qkv_bias = {"enable_bias", true},
     .output_bias = {"enable_bias", true},
     .mlp_bias = {"enable_bias", true}},
    like_gpt2({.model_type = "gpt_neo",
               .read_own = read_gpt_neo,
               .layer = &kGptNeo,
               .positions = "wpe",
               .heads = {"num_heads", 0, "num_attention_heads"},
               .layers = {"num_layers", 0, "num_hidden_layers"},
               .is_tied = true,
               .qkv_bias = {}}),
    like_gpt2({.model_type = "gptj",
               .read_own = read_gptj,
               .layer = &kGptJ,
               .head_bias = Presence::kRequired,
               .qkv_bias = {},
               .output_bias = {},
               .parallel = {nullptr, true}}),
    like_gpt2({.model_type = "gpt_bigcode",
               .read_own = read_bigcode,
               .layer = &kBigCode,
               .positions = "wpe",
               .context = {"n_positions", 1024},
               .is_tied = true}),
    {.model_type = "falcon",
     .read_own = read_falcon,
     .layer = &kBloom,
     .prefix = "transformer.",
     .embedding = "word_embeddings",
     .list = "h.",
     .final_norm = "ln_f",
     .head = "lm_head",
     .ffn = {"ffn_hidden_size"},
     .has_head_fields = false,
     .is_tied = true,
     .epsilon_field = "layer_norm_epsilon",
     .activation_field = "activation",
     .activation = "gelu",
     .qkv_bias = {"bias"},
     .output_bias = {"bias"},
     .mlp_bias = {"bias"}},
};

}  // namespace

std::span<const Family> gpt_families() { return kGptFamilies; }

}  // namespace arenite::convert
