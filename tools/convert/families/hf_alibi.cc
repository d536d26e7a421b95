// SPDX-License-Identifier: Apache-2.0
// BLOOM and MPT: no positions, but scores that fall with the distance between query and key
// (ALiBi). Source: "Train Short, Test Long" (Press et al. 2022).
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kPositions = 2048;  // both families were trained for these

// With a power of two of heads, head h has the slope 2^(-bias_max (h + 1) / heads). Otherwise
// every other slope of the next power of two comes first, and then those in between.
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

LayerSpec read_bloom_layer(ModelTensors& tensors, const DecoderSpec& spec, double epsilon,
                           const std::string& name) {
  const uint32_t width = spec.model_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(name + part, outputs, inputs, Presence::kRequired);
  };
  LayerSpec layer;
  layer.attention_norm = tensors.layer_norm(name + "input_layernorm", width, epsilon);
  split_interleaved(layer, linear("self_attention.query_key_value", 3 * width, width), spec);
  layer.output = linear("self_attention.dense", width, width);
  layer.mlp_norm = tensors.layer_norm(name + "post_attention_layernorm", width, epsilon);
  layer.up = linear("mlp.dense_h_to_4h", spec.ffn_dim, width);
  layer.down = linear("mlp.dense_4h_to_h", width, spec.ffn_dim);
  return layer;
}

// Biases and norms' shifts are there or not, as the program that trained it was told.
LayerSpec read_mpt_layer(ModelTensors& tensors, const DecoderSpec& spec, double epsilon,
                         const std::string& name) {
  const uint32_t width = spec.model_dim;
  const uint32_t kv_width = spec.kv_heads * spec.head_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(name + part, outputs, inputs, Presence::kIfStored);
  };
  LayerSpec layer;
  layer.attention_norm = tensors.layer_norm(name + "norm_1", width, epsilon, Presence::kIfStored);
  split_fused(layer, linear("attn.Wqkv", width + 2 * kv_width, width), width, kv_width);
  layer.output = linear("attn.out_proj", width, width);
  layer.mlp_norm = tensors.layer_norm(name + "norm_2", width, epsilon, Presence::kIfStored);
  layer.up = linear("ffn.up_proj", spec.ffn_dim, width);
  layer.down = linear("ffn.down_proj", width, spec.ffn_dim);
  return layer;
}

// Fewer keys and values than queries have a number of their own, kv_n_heads.
uint32_t read_kv_heads(ConfigFields& attention, uint32_t heads) {
  const std::string type = attention.text("attn_type", "multihead_attention");
  if (type == "multihead_attention") {
    attention.expect("kv_n_heads", heads, "multihead_attention has as many as query heads");
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

// Returns alibi_bias_max.
double read_mpt_attention(ConfigFields attention, DecoderSpec& spec) {
  pass_over_harmless(attention);
  for (const char* field : {"attn_impl", "model_type", "rope_theta", "rope_impl",
                            "rope_dail_config", "rope_hf_config"}) {
    attention.pass_over(field);  // how it is computed, and of what is refused below
  }
  spec.kv_heads = read_kv_heads(attention, spec.heads);
  attention.expect("alibi", true, "only positions by ALiBi are read");
  attention.expect("rope", false, "only positions by ALiBi are read");
  attention.expect("clip_qkv", nullptr, "clipped queries, keys and values are not supported");
  attention.expect("qk_ln", false, "layer norms of queries and keys are not supported");
  attention.expect("qk_gn", false, "norms of queries and keys are not supported");
  attention.expect("prefix_lm", false, "only causal decoders are read");
  attention.expect("attn_uses_sequence_id", false, "a text is one sequence");
  attention.expect("sliding_window_size", -1, "a window beside ALiBi is not supported");
  if (attention.has("softmax_scale")) spec.score_scale = attention.positive("softmax_scale");
  const double bias_max = attention.positive("alibi_bias_max", 8.0);
  if (bias_max != 8.0) {
    spec.notes.push_back(fmt::format(
        "alibi_bias_max {}: as the program that trained it computes; transformers takes 8 instead",
        bias_max));
  }
  attention.finish();
  return bias_max;
}

}  // namespace

DecoderSpec read_hf_bloom(ConfigFields& config, ModelTensors& tensors, const std::string&) {
  DecoderSpec spec;
  spec.architecture = "bloom";
  const uint32_t layers = read_old_sizes(config, spec, {"n_embed", "n_head", "n_layer"});
  spec.ffn_dim = 4 * spec.model_dim;
  config.expect("n_inner", spec.ffn_dim, "BLOOM's MLP is four times as wide as the model");
  spec.positions_max = config.count("seq_length", kPositions);
  spec.activation = Activation::kGeluTanh;
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, {.bos = 1, .eos = 2});
  for (const char* field :
       {"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
        "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact"}) {
    config.pass_over(field);  // same result in exact arithmetic
  }
  config.expect("apply_residual_connection_post_layernorm", false,
                "sums with what the norm gives are not supported");
  const double epsilon = config.positive("layer_norm_epsilon", 1e-5);
  const bool is_tied = config.flag("tie_word_embeddings", true);

  const std::string prefix = prefix_of(tensors, "transformer.", "word_embeddings.weight");
  read_embedding_and_head(config, tensors, spec, {prefix, "word_embeddings.weight", "lm_head"},
                          is_tied);
  spec.embedding_norm =
      tensors.layer_norm(prefix + "word_embeddings_layernorm", spec.model_dim, epsilon);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(
        read_bloom_layer(tensors, spec, epsilon, fmt::format("{}h.{}.", prefix, i)));
  }
  spec.final_norm = tensors.layer_norm(prefix + "ln_f", spec.model_dim, epsilon);
  spec.alibi_slopes = alibi_slopes(spec.heads, 8.0);
  return spec;
}

DecoderSpec read_hf_mpt(ConfigFields& config, ModelTensors& tensors, const std::string&) {
  DecoderSpec spec;
  spec.architecture = "mpt";
  const uint32_t layers = read_old_sizes(config, spec, {"d_model", "n_heads", "n_layers"});
  spec.ffn_dim = config.count("expansion_ratio", 4) * spec.model_dim;
  spec.positions_max = config.count("max_seq_len", kPositions);
  spec.activation = Activation::kGeluErf;
  const ConfigFields nothing(nlohmann::json::object(), config.where());
  const double bias_max = read_mpt_attention(config.object("attn_config").value_or(nothing), spec);
  check_sizes(spec, layers, config.where());
  take_common_fields(config, spec, {});
  for (const char* field :
       {"embedding_fraction", "fc_type", "init_config", "emb_pdrop", "init_device",
        "learned_pos_emb", "no_bias", "resid_pdrop", "verbose"}) {
    config.pass_over(field);  // training; and what the tensors, or ALiBi, say themselves
  }
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
  const double epsilon = config.positive("layer_norm_epsilon", 1e-5);
  const bool is_tied = config.flag("tie_word_embeddings", true);

  const std::string prefix = prefix_of(tensors, "transformer.", "wte.weight");
  read_embedding_and_head(config, tensors, spec, {prefix, "wte.weight", "lm_head"}, is_tied);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(
        read_mpt_layer(tensors, spec, epsilon, fmt::format("{}blocks.{}.", prefix, i)));
  }
  spec.final_norm =
      tensors.layer_norm(prefix + "norm_f", spec.model_dim, epsilon, Presence::kIfStored);
  spec.alibi_slopes = alibi_slopes(spec.heads, bias_max);
  return spec;
}

}  // namespace arenite::convert
