// SPDX-License-Identifier: Apache-2.0
// Code shared by the readers of Hugging Face models: the table of ignored config fields, each group
// with its reason; activations and classes by name; labels, poolings and position ids.
#include "convert/families/hf_models.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Fields that do not change what a model computes, grouped by reason.
constexpr const char* kHarmless[] = {
    // Act in training only: dropout, initial values, losses, schedules.
    "activation_dropout", "attention_dropout", "attention_dropout_prob",
    "attention_probs_dropout_prob", "attn_dropout", "attn_dropout_prob", "attn_pdrop",
    "classifier_dropout_prob", "dropout", "drop_path_rate", "emb_dropout", "emb_dropout_prob",
    "embd_dropout", "embd_pdrop", "embed_dropout", "embedding_dropout", "ffn_dropout",
    "gradient_checkpointing", "hidden_dropout", "hidden_dropout_prob", "ignore_index",
    "init_method_std", "init_std", "initializer_factor", "initializer_range", "label_smoothing",
    "layerdrop", "loss_type", "mlp_dropout", "neftune_noise_alpha", "output_router_logits",
    "resid_dropout", "resid_pdrop", "residual_dropout", "router_aux_loss_coef",
    "router_jitter_noise", "use_gradient_checkpointing",
    // Provenance of the file, and the programs that use it.
    "_commit_hash", "_from_auto", "_name_or_path", "_num_labels", "architectures", "auto_map",
    "base_model", "finetuning_task", "is_llama_config", "library_name", "license",
    "matryoshka_dimensions", "model_name", "revision", "sentence_transformers",
    "task_specific_params", "transformers.js_config", "transformers_version", "unsloth_fixed",
    "unsloth_version",
    // Storage of quantized weights; with_whole_weights reads it.
    "quantization_config",
    // Types and counts of stored elements, which the tensors define themselves.
    "_pre_quantization_dtype", "bf16", "dtype", "fp16", "fp32", "pad_vocab_size_multiple",
    "pad_vocab_size_to_multiple_of", "torch_dtype", "use_bf16", "use_bfloat16", "use_fp16",
    "vocab_size_or_config_json_file",
    // Return values, caches, and where and how the Python program computes.
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_experts_implementation", "_experts_implementation_internal", "_flash_attn_2_enabled",
    "_output_attentions", "_output_hidden_states", "attention_implementation",
    "attn_implementation", "base_model_pp_plan", "base_model_tp_plan", "cache_implementation",
    "flash_attn", "flash_attention", "fused_bias_fc", "fused_dropout_add_ln", "fused_mlp",
    "keys_to_ignore_at_inference", "low_cpu_mem_usage", "output_attentions", "output_hidden_states",
    "output_past", "output_scores", "return_dict", "return_dict_in_generate",
    "tensor_parallel_degree", "torchscript", "use_cache", "use_flash_attention",
    "use_flash_attention_2", "use_flash_attn", "use_fused_rms_norm", "use_fused_rope",
    "use_memory_efficient_attention", "use_sdpa",
    // Defaults for sampling tokens from logits.
    "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_decoder_ids",
    "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens", "min_length", "min_p",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
    "remove_invalid_values", "repetition_penalty", "suppress_tokens", "temperature", "top_k",
    "top_p", "typical_p",
    // Settings of text processing, which the tokenizer's own files contain.
    "add_bos_token", "add_eos_token", "additional_special_tokens", "bos_token", "chat_template",
    "clean_up_tokenization_spaces", "cls_token_id", "eos_token", "mask_token_id", "max_seq_len",
    "max_seq_length", "max_sequence_length", "model_max_length", "pad_token", "pad_token_id",
    "padding_side", "prefix", "sep_token_id", "tokenizer_class", "truncation_side", "unk_token",
    "unk_token_id",
    // Same result in exact arithmetic.
    "pretraining_tp", "reorder_and_upcast_attn"};

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"gelu", Activation::kGeluErf},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"relu", Activation::kRelu},
    {"gelu_python", Activation::kGeluErf},
    {"gelu_python_tanh", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
};

constexpr std::pair<std::string_view, HeadKind> kClassEndings[] = {
    {"ForCausalLM", HeadKind::kCausal},
    {"LMHeadModel", HeadKind::kCausal},
    {"ForConditionalGeneration", HeadKind::kCausal},
    {"MTModel", HeadKind::kCausal},
    {"ForMaskedLM", HeadKind::kMasked},
    {"ForSequenceClassification", HeadKind::kSequence},
    {"ForTokenClassification", HeadKind::kTokens},
    {"ForQuestionAnswering", HeadKind::kAnswer},
    {"ForMultipleChoice", HeadKind::kChoice},
    {"ForNextSentencePrediction", HeadKind::kNextSentence},
    {"ForPreTraining", HeadKind::kPreTraining},
    {"DoubleHeadsModel", HeadKind::kDouble},
    {"Model", HeadKind::kNone},
};

}  // namespace

void pass_over_harmless(ConfigFields& config) { config.pass_over(kHarmless); }

Activation read_activation(ConfigFields& config, const std::string& field,
                           const std::string& fallback) {
  const std::string name = config.text(field, fallback);
  std::string known;
  for (const auto& [known_name, activation] : kActivations) {
    if (name == known_name) return activation;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", known_name);
  }
  config.refuse(field, "expected one of " + known);
}

uint32_t read_size(ConfigFields& config, const SizeField& field) {
  const bool has_alias = field.alias != nullptr;
  if (has_alias && !config.has(field.name) && config.has(field.alias)) {
    return config.count(field.alias);
  }
  const bool must_be_there = field.fallback == 0;
  const uint32_t size =
      config.count(field.name, must_be_there ? std::nullopt : std::optional(field.fallback));
  if (has_alias) config.expect(field.alias, size, "it is another name for the same size");
  return size;
}

std::optional<HeadKind> read_head_kind(ConfigFields& config) {
  const std::vector<std::string> architectures = config.texts("architectures");
  if (architectures.empty()) return std::nullopt;
  if (architectures.size() > 1) config.refuse("architectures", "expected one name");
  const std::string_view name = architectures[0];
  std::string known;
  for (const auto& [ending, kind] : kClassEndings) {
    // A class without a head may have a purpose in its name: ...ForRewardModel.
    const bool is_of_this = kind != HeadKind::kNone || name.find("For") == std::string_view::npos;
    if (name.ends_with(ending) && is_of_this) return kind;
    known += fmt::format("{}...{}", known.empty() ? "" : ", ", ending);
  }
  config.refuse("architectures", "the outputs of this class are unknown: expected " + known);
}

std::vector<bool> windowed_layers(ConfigFields& config, std::vector<bool> otherwise) {
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.empty()) return otherwise;
  if (types.size() != otherwise.size()) {
    config.refuse("layer_types",
                  fmt::format("expected {} entries, one for each layer", otherwise.size()));
  }
  std::vector<bool> windowed;
  for (const std::string& type : types) {
    windowed.push_back(type == "sliding_attention");
    if (!windowed.back() && type != "full_attention") {
      config.refuse("layer_types", "expected full_attention or sliding_attention");
    }
  }
  return windowed;
}

Presence stored_if(bool condition) { return condition ? Presence::kRequired : Presence::kNone; }

std::vector<double> read_score_bias(ModelTensors& tensors, const std::string& name,
                                    const TransformerSpec& spec, const DistanceRanges& ranges) {
  const WeightRef stored = tensors.matrix(name, ranges.rows, spec.heads);
  if (!stored.load) return {};  // `tensors` names what is missing
  const std::vector<double> table = stored.exact();
  const int64_t rows = ranges.causal ? ranges.rows : ranges.rows / 2;
  const int64_t near = rows / 2, positions = spec.positions_max;
  std::vector<double> bias;
  for (uint32_t head = 0; head < spec.heads; ++head) {
    for (int64_t distance = 1 - positions; distance < positions; ++distance) {
      int64_t row = ranges.causal ? std::max<int64_t>(-distance, 0) : std::abs(distance);
      if (row >= near) {  // in float32, as the ranges' ends are rounded
        const float range =
            std::log(static_cast<float>(row) / static_cast<float>(near)) /
            std::log(static_cast<float>(ranges.farthest) / static_cast<float>(near)) *
            static_cast<float>(rows - near);
        row = std::min(near + static_cast<int64_t>(range), rows - 1);
      }
      if (!ranges.causal && distance > 0) row += rows;
      bias.push_back(table[static_cast<size_t>(row) * spec.heads + head]);
    }
  }
  return bias;
}

void fold_single_type(TransformerSpec& spec) {
  if (spec.token_types != 1) return;
  const auto add = [](const auto& all, const auto& row) {
    std::vector values(all.begin(), all.end());
    for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
    return values;
  };
  const WeightRef positions = *spec.position_embedding;
  const WeightRef type = *spec.type_embedding;
  spec.position_embedding->quantized = {};
  spec.position_embedding->load_quantized = {};
  spec.position_embedding->load = [=] { return add(positions.load(), type.load()); };
  if (positions.load_f64 || type.load_f64) {
    spec.position_embedding->load_f64 = [=] { return add(positions.exact(), type.exact()); };
  }
  spec.type_embedding.reset();
  spec.token_types = 0;
}

void pass_over_position_ids(ModelTensors& tensors, const std::string& name) {
  const StoredTensor* tensor = tensors.buffer(name);
  if (tensor == nullptr) return;
  const Floats ids = tensor->load();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == static_cast<float>(i)) continue;
    throw InputError("{} is {} at index {}: expected positions counted from 0", place_of(*tensor),
                     ids[i], i);
  }
}

void check_pooling(std::optional<PoolingChoice> asked, PoolingChoice found,
                   const std::string& where) {
  if (!asked || *asked == found) return;
  throw InputError("{}: pooling {} was requested, but the model has {}: drop the option", where,
                   quote(name(*asked)), quote(name(found)));
}

std::vector<std::string> read_labels(ConfigFields& config, uint32_t classes) {
  std::vector<std::string> labels;
  std::optional<ConfigFields> fields = config.object("id2label");
  if (!fields) return labels;
  if (fields->size() != classes) {
    config.refuse("id2label", fmt::format("it names {} labels, but the classifier has {} classes",
                                          fields->size(), classes));
  }
  for (uint32_t i = 0; i < classes; ++i) {
    const std::string key = fmt::format("{}", i);
    if (!fields->has(key)) {
      config.refuse("id2label", fmt::format("class {} of 0 to {} is missing", i, classes - 1));
    }
    labels.push_back(fields->text(key));
  }
  return labels;
}

}  // namespace arenite::convert
