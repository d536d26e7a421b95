// SPDX-License-Identifier: Apache-2.0
// Decoders of transformers: a table with a row per family (tensor names, config defaults, specific
// fields), and one reader for all rows.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

enum class Windows { kNone, kAllLayers, kSomeLayers };

struct Family {
  const char* model_type;
  // Reads the family's own config fields; refuses unsupported values.
  void (*read_own)(ConfigFields& config, const Family& family, TransformerSpec& spec,
                   LayerSettings& settings) = nullptr;

  // Tensor names; null if the family lacks the part. `prefix` is missing in models saved without
  // their head.
  const LayerNames* layer = nullptr;
  const char* prefix = nullptr;
  const char* embedding = nullptr;
  const char* positions = nullptr;
  const char* embedding_norm = nullptr;
  const char* list = nullptr;
  const char* final_norm = nullptr;
  const char* head = nullptr;
  Presence head_bias = Presence::kNone;

  SizeField width = {"hidden_size"};
  SizeField heads = {"num_attention_heads"};
  SizeField layers = {"num_hidden_layers"};
  SizeField ffn = {"intermediate_size"};  // without a fallback: four times the width
  SizeField context = {"max_position_embeddings", 2048};
  bool has_head_fields = true;  // num_key_value_heads and head_dim

  // Defaults of the transformers package for missing config fields.
  uint32_t kv_heads = 0;  // 0: equal to heads
  uint32_t head_dim = 0;  // 0: model_dim / heads
  std::optional<uint32_t> bos{}, eos{};
  bool is_tied = false;
  const char* epsilon_field = "layer_norm_eps";
  double epsilon = 1e-5;

  // For families derived from Llama.
  bool has_qkv_bias = false;
  bool may_have_attention_bias = false;
  bool may_have_mlp_bias = false;
  bool has_head_norms = false;
  bool is_gemma = false;
  Windows windows = Windows::kNone;
};

Presence stored_if(bool condition) { return condition ? Presence::kRequired : Presence::kNone; }

// Reads the sizes. Returns the number of layers.
uint32_t read_sizes(ConfigFields& config, const Family& family, TransformerSpec& spec) {
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = read_size(config, family.width);
  SizeField ffn = family.ffn;
  if (ffn.fallback == 0) ffn.fallback = 4 * spec.model_dim;
  spec.ffn_dim = read_size(config, ffn);
  spec.positions_max = read_size(config, family.context);
  spec.heads = spec.kv_heads = read_size(config, family.heads);
  if (family.has_head_fields) {
    const bool as_many = family.kv_heads == 0 || config.is_null("num_key_value_heads");
    spec.kv_heads = config.count("num_key_value_heads", as_many ? spec.heads : family.kv_heads);
  }
  const bool has_head_dim =
      config.has("head_dim") || (family.head_dim != 0 && !config.is_null("head_dim"));
  spec.head_dim = family.has_head_fields && has_head_dim
                      ? config.count("head_dim", family.head_dim)
                      : even_head_dim(spec.model_dim, spec.heads, config.where());
  return read_size(config, family.layers);
}

// Throws InputError if layer_types names a kind other than `expected`, for families whose layers
// all see the same keys.
void expect_layer_types(ConfigFields& config, const char* expected) {
  for (const std::string& type : config.texts("layer_types")) {
    if (type == expected) continue;
    config.refuse("layer_types", fmt::format("expected {} for all layers of this model", expected));
  }
}

// ---- GPT-2: learned positions, and Conv1D layers ----

constexpr LayerNames kGpt2 = {.attention_norm = "ln_1",
                              .mlp_norm = "ln_2",
                              .fused = "attn.c_attn",
                              .output = "attn.c_proj",
                              .up = "mlp.c_fc",
                              .down = "mlp.c_proj",
                              .keeps_inputs_first = true};

void read_gpt2(ConfigFields& config, const Family&, TransformerSpec& spec, LayerSettings&) {
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  config.expect("n_ctx", spec.positions_max, "it is the older name of n_positions");
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

void read_neox(ConfigFields& config, const Family&, TransformerSpec& spec,
               LayerSettings& settings) {
  config.expect("num_key_value_heads", spec.heads,
                "GPT-NeoX has as many key/value heads as query heads");
  config.expect("head_dim", even_head_dim(spec.model_dim, spec.heads, config.where()),
                "in GPT-NeoX it is the width divided by the heads");
  expect_layer_types(config, "full_attention");
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.rope = read_hf_rope(config, spec,
                           {.theta = {"rotary_emb_base", "rope_theta"},
                            .partial_factor = {"rotary_pct", "partial_rotary_factor"},
                            .partial_fallback = 0.25});
  settings.is_parallel = config.flag("use_parallel_residual", true);
  settings.qkv_bias = settings.output_bias = stored_if(config.flag("attention_bias", true));
}

void read_phi(ConfigFields& config, const Family&, TransformerSpec& spec, LayerSettings& settings) {
  expect_layer_types(config, "full_attention");
  config.expect("qk_layernorm", false, "layer norms of queries and keys are not supported");
  spec.activation = read_activation(config, "hidden_act", "gelu_new");
  // Newer programs save the default in the old field, whatever the new field says.
  spec.rope = read_hf_rope(config, spec,
                           {.partial_factor = {"partial_rotary_factor"},
                            .partial_fallback = 0.5,
                            .inner_partial_counts = true});
  settings.is_parallel = true;
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

// If the number of heads is a power of two, head h has the slope 2^(-bias_max (h + 1) / heads).
// Otherwise every other slope of the next power of two comes first, and then those in between.
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

void read_bloom(ConfigFields& config, const Family&, TransformerSpec& spec, LayerSettings&) {
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

void read_mpt(ConfigFields& config, const Family&, TransformerSpec& spec, LayerSettings& settings) {
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
  settings.qkv_bias = settings.output_bias = settings.mlp_bias = Presence::kIfStored;
  settings.norm_bias = Presence::kIfStored;
}

// ---- Llama and families that differ from it in details ----

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

// Returns the window of each layer; 0: none.
std::vector<uint32_t> read_windows(ConfigFields& config, Windows kind, uint32_t layers) {
  std::vector<uint32_t> windows(layers, 0);
  if (kind == Windows::kAllLayers) {
    const bool has_window = !config.is_null("sliding_window");
    expect_layer_types(config, has_window ? "sliding_attention" : "full_attention");
    if (!has_window) return windows;
    return std::vector<uint32_t>(layers, config.count("sliding_window", 4096));
  }
  if (kind == Windows::kNone) {
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
      config.refuse(
          "layer_types",
          "there are sliding layers, but use_sliding_window and sliding_window give no window");
    }
    if (is_windowed) windows[i] = window;
  }
  return windows;
}

void read_llama(ConfigFields& config, const Family& family, TransformerSpec& spec,
                LayerSettings& settings) {
  config.expect("use_parallel_residual", false,
                "parallel layers are not supported for this family");
  config.expect("use_qk_norm", family.has_head_norms, "these norms follow from the model's family");
  config.expect("qk_norm", family.has_head_norms, "these norms follow from the model's family");
  spec.rope = read_hf_rope(config, spec, {});
  spec.activation = family.is_gemma ? read_gemma_activation(config, spec)
                                    : read_activation(config, "hidden_act", "silu");
  if (family.is_gemma) spec.embedding_scale = std::sqrt(double{1} * spec.model_dim);
  settings.windows = read_windows(config, family.windows, config.count("num_hidden_layers"));
  settings.qkv_bias = stored_if(family.has_qkv_bias);
  settings.output_bias = settings.mlp_bias = Presence::kNone;
  if (family.may_have_attention_bias) {
    settings.qkv_bias = settings.output_bias = stored_if(config.flag("attention_bias", false));
  }
  if (family.may_have_mlp_bias) settings.mlp_bias = stored_if(config.flag("mlp_bias", false));
  settings.has_head_norms = family.has_head_norms;
  settings.gain_plus_one = family.is_gemma;
}

// Adds to `own` what all families derived from Llama share.
constexpr Family like_llama(Family own) {
  own.read_own = read_llama;
  own.layer = &kLlama;
  own.prefix = "model.";
  own.embedding = "embed_tokens";
  own.list = "layers.";
  own.final_norm = "norm";
  own.head = "lm_head";
  own.epsilon_field = "rms_norm_eps";
  own.epsilon = 1e-6;
  return own;
}

// ---- fields that all families share ----

// Fields that do not change what a decoder computes, grouped by reason.
constexpr const char* kHarmlessOfDecoders[] = {
    // Return values of the Python call.
    "is_decoder",
    // The tensors decide; an unexpected bias is refused.
    "attention_bias", "mlp_bias",
    // First layer with the windows of another field.
    "max_window_layers",
    // Other heads than the language model's; their tensors would be refused.
    "classifier_dropout", "id2label", "label2id", "num_labels", "problem_type",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj"};

// Returns the ids in `field`, else `absent`. A null field means no ids.
std::vector<uint32_t> token_ids(ConfigFields& config, const char* field,
                                const std::optional<uint32_t>& absent) {
  if (config.has(field) || config.is_null(field) || !absent) return config.ids(field);
  return {*absent};
}

// Takes fields without effect on the computation, refuses unsupported settings, and sets bos_id and
// eos_ids. REQUIRES: vocab_size is set.
void take_common_fields(ConfigFields& config, TransformerSpec& spec, const Family& family) {
  pass_over_harmless(config);
  config.pass_over(kHarmlessOfDecoders);
  config.expect("is_encoder_decoder", false, "only decoders are supported");
  config.expect("add_cross_attention", false, "cross-attention is not supported");
  config.expect("tie_encoder_decoder", false, "only decoders are supported");
  config.expect("pruned_heads", nlohmann::json::object(), "pruned heads are not supported");
  config.expect("chunk_size_feed_forward", 0, "chunked feed-forward layers are not supported");
  config.expect("is_causal", true, "only causal decoders are supported");
  config.expect("use_bidirectional_attention", false, "only causal decoders are supported");

  // An id beyond the vocabulary never occurs; small models keep the ids of larger ones.
  for (const uint32_t id : token_ids(config, "bos_token_id", family.bos)) {
    if (id < spec.vocab_size) spec.bos_id = id;
  }
  for (const uint32_t id : token_ids(config, "eos_token_id", family.eos)) {
    if (id < spec.vocab_size) spec.eos_ids.push_back(id);
  }
}

// Reads token_embedding and the head: output for an untied model, nothing for a tied one,
// is_headless for a class without a head (HeadKind::kNone), or, if no class is named, for a file
// without head tensors.
void read_embedding_and_head(ConfigFields& config, ModelTensors& tensors, TransformerSpec& spec,
                             const Family& family, const std::string& prefix) {
  const bool is_tied = config.flag("tie_word_embeddings", family.is_tied);
  const std::optional<HeadKind> kind = read_head_kind(config);
  if (kind == HeadKind::kDouble) {
    throw InputError(
        "{}: field 'architectures' names a class with two outputs: load the class whose output you "
        "want, such as ...LMHeadModel, and save it",
        config.where());
  }
  if (kind && *kind != HeadKind::kNone && *kind != HeadKind::kCausal) {
    config.refuse("architectures",
                  "expected a decoder with logits (...ForCausalLM, ...LMHeadModel), or one without "
                  "a head (...Model)");
  }
  const std::string embedding = fmt::format("{}{}.weight", prefix, family.embedding);
  const std::string head = family.head;
  const std::string matrix = head + ".weight";
  const bool lacks_head = prefix.empty() && !tensors.has(matrix) && !is_tied;
  spec.is_headless = kind ? *kind == HeadKind::kNone : lacks_head;
  spec.token_embedding =
      is_tied && !spec.is_headless
          ? tensors.tied_embedding(embedding, matrix, spec.vocab_size, spec.model_dim)
          : tensors.matrix(embedding, spec.vocab_size, spec.model_dim);
  if (spec.is_headless) return;
  const bool may_lack_bias = prefix.empty() && family.head_bias == Presence::kRequired;
  const std::vector<double> bias = tensors.vector(
      head + ".bias", spec.vocab_size, may_lack_bias ? Presence::kIfStored : family.head_bias);
  if (!is_tied) {
    spec.output = {tensors.matrix(matrix, spec.vocab_size, spec.model_dim), bias};
  } else if (!bias.empty()) {
    spec.output = {*spec.token_embedding, bias};
  }
}

// Skips buffers without weights, by their suffix: the value of masked scores, and frequencies,
// which follow from the config. Throws InputError for a mask that is not causal.
void pass_over_buffers(ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const auto ends_in_any = [&](std::initializer_list<const char*> endings) {
      return std::ranges::any_of(endings,
                                 [&](const char* ending) { return tensor.name.ends_with(ending); });
    };
    if (ends_in_any({".attn.bias", ".attention.bias"})) {
      const BandChoice mask = read_band_buffer(tensor, quote(tensor.file), MaskOnes::kVisible);
      if (mask != BandChoice{.causal = true}) {
        throw InputError("{}: mask {} is {}: expected a causal mask", quote(tensor.file),
                         quote(tensor.name), describe(mask));
      }
    } else if (!ends_in_any(
                   {".attn.masked_bias", ".attention.masked_bias", ".rotary_emb.inv_freq"})) {
      continue;
    }
    tensors.pass_over(tensor.name);
  }
}

// ---- any decoder ----

constexpr Family kFamilies[] = {
    {.model_type = "gpt2",
     .read_own = read_gpt2,
     .layer = &kGpt2,
     .prefix = "transformer.",
     .embedding = "wte",
     .positions = "wpe",
     .list = "h.",
     .final_norm = "ln_f",
     .head = "lm_head",
     .width = {"n_embd", 0, "hidden_size"},
     .heads = {"n_head", 0, "num_attention_heads"},
     .layers = {"n_layer", 0, "num_hidden_layers"},
     .ffn = {"n_inner"},
     .context = {"n_positions", 1024, "max_position_embeddings"},
     .has_head_fields = false,
     .bos = 50256,
     .eos = 50256,
     .is_tied = true,
     .epsilon_field = "layer_norm_epsilon"},
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
     .eos = 2},
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
     .eos = 2},
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
     .epsilon_field = "layer_norm_epsilon"},
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
     .epsilon_field = "layer_norm_epsilon"},
    like_llama({.model_type = "llama",
                .ffn = {"intermediate_size", 11008},
                .bos = 1,
                .eos = 2,
                .may_have_attention_bias = true,
                .may_have_mlp_bias = true}),
    like_llama({.model_type = "mistral",
                .ffn = {"intermediate_size", 14336},
                .context = {"max_position_embeddings", 131072},
                .kv_heads = 8,
                .bos = 1,
                .eos = 2,
                .windows = Windows::kAllLayers}),
    like_llama({.model_type = "qwen2",
                .ffn = {"intermediate_size", 22016},
                .context = {"max_position_embeddings", 32768},
                .kv_heads = 32,
                .has_qkv_bias = true,
                .windows = Windows::kSomeLayers}),
    like_llama({.model_type = "qwen3",
                .ffn = {"intermediate_size", 22016},
                .context = {"max_position_embeddings", 32768},
                .kv_heads = 32,
                .head_dim = 128,
                .may_have_attention_bias = true,
                .has_head_norms = true,
                .windows = Windows::kSomeLayers}),
    like_llama({.model_type = "gemma",
                .ffn = {"intermediate_size", 24576},
                .context = {"max_position_embeddings", 8192},
                .kv_heads = 16,
                .head_dim = 256,
                .bos = 2,
                .eos = 1,
                .is_tied = true,
                .may_have_attention_bias = true,
                .is_gemma = true}),
};

TransformerSpec read_decoder(ConfigFields& config, ModelTensors& tensors, const Family& family) {
  TransformerSpec spec = decoder_spec();
  spec.architecture = family.model_type;
  const uint32_t layers = read_sizes(config, family, spec);
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, family);
  LayerSettings settings = {.epsilon = config.positive(family.epsilon_field, family.epsilon),
                            .windows = {}};
  family.read_own(config, family, spec, settings);
  check_sizes(spec, layers, config.where());  // some say key/value heads themselves

  // Models saved without their head have no prefix.
  const std::string embedding = fmt::format("{}.weight", family.embedding);
  const bool is_bare = tensors.has(embedding) && !tensors.has(family.prefix + embedding);
  const std::string prefix = is_bare ? "" : family.prefix;
  read_embedding_and_head(config, tensors, spec, family, prefix);
  if (family.positions != nullptr) {
    spec.position_embedding = tensors.matrix(fmt::format("{}{}.weight", prefix, family.positions),
                                             spec.positions_max, spec.model_dim);
  }
  const auto norm = [&](const char* name) {
    return read_norm(tensors, *family.layer, settings, prefix + name, spec.model_dim);
  };
  if (family.embedding_norm != nullptr) spec.embedding_norm = norm(family.embedding_norm);
  read_layers(tensors, spec, *family.layer, settings, prefix + family.list, layers);
  spec.final_norm = norm(family.final_norm);
  return spec;
}

}  // namespace

std::string decoder_types() {
  std::string types;
  for (const Family& family : kFamilies) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", family.model_type);
  }
  return types;
}

TransformerSpec read_hf_decoder(const Opened& model) {
  ConfigFields config = model.config_fields();
  const std::string type = config.text("model_type");
  for (const Family& family : kFamilies) {
    if (type != family.model_type) continue;
    const TensorStore store = with_whole_weights(model);
    ModelTensors tensors(store);
    TransformerSpec spec = read_decoder(config, tensors, family);
    note_passed_over(config.finish(), spec);
    pass_over_buffers(tensors);
    pass_over_zero_biases(tensors);
    tensors.finish();
    return spec;
  }
  config.refuse("model_type", fmt::format("expected a decoder ({}) or an encoder ({})",
                                          decoder_types(), encoder_types()));
}

}  // namespace arenite::convert
